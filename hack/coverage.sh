#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints how many statements of pkg/ and cmd/ the unit tests run, for each package and in total:
#   hack/coverage.sh [PROFILE]
# A statement counts as covered if the tests of any package in pkg/ or cmd/ run it. Generated code
# does not count. The merged profile is written to PROFILE (for go tool cover), if it is given.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/local/go/bin

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mapfile -t packages < <(go list ./pkg/... ./cmd/... | grep -v '/pkg/generated')

status=0
go test -p "${JOBS:-1}" -timeout 10m -covermode=set -coverpkg="$(IFS=,; echo "${packages[*]}")" \
	-coverprofile="$work/all" "${packages[@]}" >"$work/log" 2>&1 || status=$?
grep -E '^(FAIL|--- FAIL|panic:)' "$work/log" >&2 || true

# go test appends the profiles of the test programs to each other, so that each block occurs once
# for each of them.
awk 'NR > 1 && $1 !~ /\/zz_generated/ {
	statements[$1] = $2
	if ($3 > 0) covered[$1] = 1
} END {
	print "mode: set"
	for (block in statements) print block, statements[block], covered[block] + 0
}' "$work/all" >"$work/merged"
[ $# = 0 ] || cp "$work/merged" "$1"

awk 'NR > 1 {
	name = $1
	sub(/\/[^\/]*$/, "", name)
	sub(/^github.com\/metal3-io\/metal3-apiserver\//, "", name)
	all[name] += $2; total += $2
	if ($3) { covered[name] += $2; sum += $2 }
} END {
	for (name in all) printf "%-50s %6d of %6d %6.1f %%\n", name, covered[name], all[name], 100 * covered[name] / all[name] | "sort"
	close("sort")
	printf "%-50s %6d of %6d %6.2f %%\n", "total", sum, total, 100 * sum / total
}' "$work/merged"
exit "$status"
