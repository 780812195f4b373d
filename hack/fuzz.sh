#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs each fuzz target with random input for FUZZTIME (30s), four at a time, and prints
# one line for each. If a target fails, its input is printed and stored in testdata/fuzz of
# its package. Commit it with the fix: go test, and therefore make test, runs each target
# with all of these inputs and with no random ones.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/local/go/bin
export FUZZTIME=${FUZZTIME:-30s}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cache=$(go env GOCACHE)/fuzz/metal3-apiserver
export work cache

# Before Go 1.27, the end of FUZZTIME is sometimes reported as a failure, with this line and
# without an input: https://go.dev/issue/75804.
time_ran_out() { grep -q '^    context deadline exceeded$' "$1" && ! grep -q '^    Failing input' "$1"; }

# fuzz PACKAGE TARGET
fuzz() {
	local log=$work/$2.log runs
	# Minimizing the inputs that are found would otherwise take most of the time.
	if ! (cd "$1" && "$work/$1/test" -test.run '^$' -test.fuzz "^$2\$" -test.fuzzcachedir "$cache/$1" \
		-test.fuzztime "$FUZZTIME" -test.fuzzminimizetime 20x -test.parallel 1) >"$log" 2>&1 && ! time_ran_out "$log"; then
		printf 'FAIL  %s in %s\n%s\n' "$2" "$1" "$(cut -c 1-1000 "$log")"
		return 1
	fi
	runs=$(sed -nE 's/.*execs: ([0-9]+).*/\1/p' "$log" | tail -1)
	printf 'ok    %s in %s, %s runs\n' "$2" "$1" "${runs:-0}"
}
export -f fuzz time_ran_out

# The packages are built one after the other, so that what they share is compiled for
# fuzzing only once.
grep -rl --include='*_test.go' '^func Fuzz' pkg cmd | xargs -n 1 dirname | sort -u | while read -r package; do
	mkdir -p "$work/$package"
	go test -c -fuzz . -o "$work/$package/test" "./$package"
	"$work/$package/test" -test.list '^Fuzz' | sed "s,^,$package ,"
done >"$work/targets"
echo "$(wc -l <"$work/targets") fuzz targets, $FUZZTIME each"
xargs -P 4 -L 1 bash -c 'fuzz "$0" "$1" || exit 1' <"$work/targets"
echo "random scripts of what users and operators do"
go test -count=1 -run '^TestPromises$' ./pkg/ironicsync/reconcile -rapid.nofailfile -rapid.seed=$RANDOM
