#!/usr/bin/env bash
# Fails when go.mod here and the one in the root of the repository require different
# versions of a module: what both compile would be compiled twice.
set -euo pipefail
cd "$(dirname "$0")"

# The lines "MODULE VERSION" of the require blocks of a go.mod.
required() { awk '$1 == ")" { block = 0 } block { print $1, $2 } $1 == "require" { if ($2 == "(") block = 1; else print $2, $3 }' "$1" | sort; }

differing=$(join <(required ../../go.mod) <(required go.mod) | awk '$2 != $3 { print $1 ": " $2 " in go.mod, " $3 " in hack/tools/go.mod" }')
if [ -n "$differing" ]; then
	printf '%s\n' "$differing" "Ask for the same versions in both, by go get." >&2
	exit 1
fi
