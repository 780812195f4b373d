#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fails if a go.mod below this folder and the one in the root of the repository require different
# versions of a module, because packages that both use would then be compiled twice.
set -euo pipefail
cd "$(dirname "$0")"

# Prints a line "MODULE VERSION" for each requirement in a go.mod, with the version that replaces it if there is one.
required() {
	awk '
		$1 == ")" { block = "" }
		block == "require" { version[$1] = $2 }
		block == "replace" { version[$1] = $4 }
		$1 == "require" && $2 != "(" { version[$2] = $3 }
		$1 == "replace" && $2 != "(" { version[$2] = $5 }
		$2 == "(" { block = $1 }
		END { for (module in version) print module, version[module] }' "$1" | sort
}

status=0
for file in go.mod cert-manager/go.mod gitops/go.mod helm/go.mod krew/go.mod olm/go.mod; do
	differing=$(join <(required ../../go.mod) <(required "$file") | awk -v file="$file" '$2 != $3 { print $1 ": " $2 " in go.mod, " $3 " in hack/tools/" file }')
	if [ -n "$differing" ]; then
		printf '%s\n' "$differing"
		status=1
	fi
done
[ $status = 0 ] || echo "Use go get to require the same versions in all of them." >&2
exit $status
