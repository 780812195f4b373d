#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fails if the generated code differs from what hack/update-codegen.sh generates. It works
# on a copy and does not change the tree.
set -euo pipefail
cd "$(dirname "$0")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir -p "$copy/pkg" "$copy/hack"
cp go.mod go.sum "$copy"
cp hack/update-codegen.sh hack/boilerplate.go.txt "$copy/hack"
cp -R pkg/apis "$copy/pkg"

"$copy/hack/update-codegen.sh" >"$copy/log" 2>&1 || {
	cat "$copy/log" >&2
	exit 1
}

status=0
for path in pkg/apis pkg/generated hack/api-violations.list; do
	diff --recursive --unified "$path" "$copy/$path" || status=1
done
if [ $status -ne 0 ]; then
	echo "The generated code is out of date: run hack/update-codegen.sh and commit the changes." >&2
fi
exit $status
