#!/usr/bin/env bash
# Fails if go.mod in this folder and the one in the root of the repository require different
# versions of a module, because packages that both use would then be compiled twice.
set -euo pipefail
cd "$(dirname "$0")"

# Prints a line "MODULE VERSION" for each requirement in a go.mod.
required() { awk '$1 == ")" { block = 0 } block { print $1, $2 } $1 == "require" { if ($2 == "(") block = 1; else print $2, $3 }' "$1" | sort; }

differing=$(join <(required ../../go.mod) <(required go.mod) | awk '$2 != $3 { print $1 ": " $2 " in go.mod, " $3 " in hack/tools/go.mod" }')
if [ -n "$differing" ]; then
	printf '%s\n' "$differing" "Use go get to require the same versions in both." >&2
	exit 1
fi
