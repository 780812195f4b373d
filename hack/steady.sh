#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs tests again and again on a busy machine, and prints how often each failed:
#   hack/steady.sh N                N times make test
#   hack/steady.sh N SUITE...       N times some suites of hack/suites.sh, or a tier
# Beside the tests, two processes for each processor compute all the time, at the priority of the tests. Nothing is taken from Go's cache.
# bin/steady has the results.
set -euo pipefail
cd "$(dirname "$0")/.."
times=${1:?"usage: steady.sh N [SUITE...]"}
shift
[ $# -gt 0 ] || set -- test

results=bin/steady/$(date +%s)
mkdir -p "$results"
busy=()
for _ in $(seq $((2 * $(nproc)))); do
	(while :; do :; done) &
	busy+=($!)
done
trap 'kill "${busy[@]}" 2>/dev/null' EXIT
for i in $(seq "$times"); do
	echo "run $i of $times begins"
	LANE_NICE=0 RESULTS=$PWD/$results/$i TEST_FLAGS="-count=1 ${TEST_FLAGS-}" hack/test.sh "$@" >"$results/$i.log" 2>&1 </dev/null || true
	tail -n 1 "$results/$i.log"
done
bin/lint/testreport -table "$results"/*/ # fails if a test did, or if nothing ran
