#!/usr/bin/env bash
# Runs tests and prints a summary at the end:
#   hack/test.sh STEP...
# The steps are:
#   lint             make lint
#   verify           make verify
#   unit             the unit tests, with the race detector, apart from those of engine. Fuzz targets
#                    run only with the inputs that are committed; hack/fuzz.sh searches for others
#   engine           those of pkg/ironicsync whose time is not that of a clock, so that a busy machine
#                    only makes them slow
#   quick-unit       the unit tests without the race detector, apart from those that install the
#                    server or build its image; results of packages that have not changed are
#                    taken from Go's cache
#   e2e              the end-to-end tests on the simulated Ironic: test/e2e, test/contract,
#                    test/migrate, test/safety, test/security and test/ui, which needs
#                    Chromium and installs Debian's if it may; where it cannot, it is left out,
#                    and with REQUIRE_CHROMIUM=1, it fails
#   heart            those of test/e2e and test/contract that a change is most likely to break,
#                    on the simulated Ironic
#   ironic-RELEASE   the end-to-end tests on the real Ironic of Debian bookworm, trixie or
#                    sid: test/e2e, test/life and test/safety, and of trixie some of
#                    test/security. With AUTH=keystone, each Ironic has its users in a real
#                    Keystone; otherwise, only one test uses Keystone. Tests to which the kind
#                    of Ironic makes no difference are left to the step e2e, unless ALL=1 is set
# STEP+STEP... runs the later steps, one after the other and at a low priority, in parallel with the
# first one and with the groups that follow. This is useful for steps that need CPU while the others
# mostly wait. Their output is printed at the end. If a step fails, the others run
# nevertheless. The real Ironic needs root on Debian or Ubuntu. Elsewhere, its step is left
# out, which the summary reports; with REQUIRE_IRONIC=1, the step fails instead, and so do
# the tests of the manifests if a program that they need is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/local/go/bin
# The messages of programs that the tests run are compared with English ones.
export LC_ALL=C.UTF-8
unset LANGUAGE

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
# Commands in the background ignore Ctrl-C.
trap 'trap "" TERM; kill -TERM 0; exit 130' INT TERM
began=$SECONDS
passed_steps=() failed_steps=() left_out=() in_parallel=()

heading() { printf '\n=== %s (after %d min %02d s)\n' "$1" $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60)); }

# Runs go test through gotestsum, which stores each result for the summary.
# The compiler takes a quarter less time if it collects garbage more rarely. The tests, and what they start, collect it as
# always, unless TEST_GOGC says how rarely.
go_test() {
	local format=$1 run="env -u GOGC"
	shift
	[ -z "${TEST_GOGC-}" ] || run="env GOGC=$TEST_GOGC"
	GOGC=400 bin/lint/gotestsum --format "$format" --jsonfile "$results/$(date +%s%N).$step.json" -- -exec "$run" "$@"
}

# Runs end-to-end tests. They are clients: data races in the server, which is built with the race detector,
# fail them, too. What they have of this repository in their own process is tested with it by the unit tests.
# go vet has looked at them in lint.
e2e_test() { go_test standard-verbose -count=1 -vet=off "$@"; }

# Runs a command in the background; await_background prints its output and returns its status.
in_background() {
	"$@" >"$results/$step.background" 2>&1 &
	background=$!
}

await_background() {
	local status=0
	wait "$background" || status=$?
	cat "$results/$step.background"
	return $status
}

# Builds the programs that the steps run.
prepare() {
	hack/build-linters.sh # also builds gotestsum
	case " $* " in *unit" "* | *" e2e "* | *" heart "* | *" ironic-"*) ;; *) return 0 ;; esac
	GOGC=400 go build -v -buildvcs=false -ldflags '-s -w' -o bin/metal3-apiserver ./cmd/metal3-apiserver 2>&1 | hack/progress.sh metal3-apiserver
	hack/tools/build.sh
	# Tests that need it are skipped without it, except in continuous integration.
	hack/tools/prometheus.sh || [ "${REQUIRE_IRONIC:-0}" = 0 ]
	case " $* " in
	*" unit "* | *" engine "* | *" e2e "* | *" ironic-"*)
		if [ "$(go env CGO_ENABLED)" != 1 ] || ! command -v "$(go env CC)" >/dev/null; then
			echo "The race detector needs a C compiler: install gcc (on Debian or Ubuntu: apt-get install gcc libc6-dev)." >&2
			return 1
		fi
		;;
	esac
	case " $* " in *" e2e "*) GOGC=400 go build -v -race -buildvcs=false -ldflags '-s -w' -o bin/race/metal3-apiserver ./cmd/metal3-apiserver 2>&1 | hack/progress.sh "metal3-apiserver with the race detector" ;; esac
}

# Prints the reason why a real Ironic cannot run here, if there is one.
ironic_missing() {
	if ! command -v apt-get >/dev/null; then
		echo "a real Ironic is installed from Debian packages, and there is no apt-get: Debian or Ubuntu is required"
	elif [ "$(id -u)" != 0 ]; then
		echo "a real Ironic runs in a chroot, which requires root"
	fi
}

unit_packages() { go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | grep -vE '/test/(contract|e2e|life|migrate|robustness|safety|security|ui)$'; }

# Time in these is that of a bubble, or an argument.
engine_packages='/pkg/ironicsync/(deploy|destination|executor|hostindex|kinds(/.*)?|lifecycle|limit|live/flight|live/index|reconcile|recorder|registrar|settings)$'

unit() {
	local packages
	mapfile -t packages < <(unit_packages | grep -vE "$engine_packages")
	METAL3_APISERVER=$PWD/bin/metal3-apiserver go_test standard-quiet -race "${packages[@]}"
}

engine() {
	local packages
	mapfile -t packages < <(unit_packages | grep -E "$engine_packages")
	# Their heaps are small and short-lived, so that Go would collect garbage all the time.
	local -x TEST_GOGC=400
	local status=0
	go_test standard-quiet -race -timeout 30m -skip '^Test(Promises|RandomWalk)$' "${packages[@]}" || status=1
	# With the race detector, the five hundred scripts of the one and the three thousand walks of the other take longer than
	# all other tests, and these have the same code run with it. The walks are those of a single goroutine.
	go_test standard-quiet -timeout 30m -run '^Test(Promises|RandomWalk)$' ./pkg/ironicsync/reconcile ./pkg/ironicsync/lifecycle || status=1
	return $status
}

quick_unit() {
	local packages
	mapfile -t packages < <(unit_packages)
	# Those that install the server and build its image take as long as all others together.
	# It takes nothing from the cache with -exec.
	METAL3_APISERVER=$PWD/bin/metal3-apiserver bin/lint/gotestsum --format standard-quiet --jsonfile "$results/$(date +%s%N).$step.json" -- -skip '^Test(Image|Install|Migration|ManifestsInCluster)$' "${packages[@]}"
}

# test/e2e and test/safety use all of the server, which is built with the race detector for them. Half of what it
# takes of the processors would be for the detector, and the others see no more of the server. It collects garbage by a
# quarter of its heap, which the detector makes expensive; there, it collects as rarely as TEST_GOGC says. In the other
# packages, of which test/security also looks at its memory, it collects as users have it.
e2e() {
	local status=0
	export IRONIC=sim
	# It uses both processors by itself, for kubectl.
	METAL3_APISERVER=$PWD/bin/metal3-apiserver e2e_test -timeout 30m ./test/contract || status=1
	# These mostly wait. The server of the page and the plugin's consoles run in the processes of test/ui and test/e2e.
	in_background e2e_in_background
	TEST_GOGC=200 METAL3_APISERVER=$PWD/bin/race/metal3-apiserver e2e_test -race -timeout 30m ./test/e2e || status=1
	METAL3_APISERVER=$PWD/bin/metal3-apiserver e2e_test -race -timeout 30m ./test/ui || status=1
	await_background || status=1
	return $status
}

e2e_in_background() {
	local status=0 output=$results/$step.safety safety
	# After the first minute, it waits for requests that may still be carried out.
	TEST_GOGC=200 METAL3_APISERVER=$PWD/bin/race/metal3-apiserver e2e_test -timeout 30m ./test/safety >"$output" 2>&1 &
	safety=$!
	METAL3_APISERVER=$PWD/bin/metal3-apiserver e2e_test -p 1 -timeout 30m ./test/security ./test/migrate || status=1
	wait "$safety" || status=1
	cat "$output"
	return $status
}

# Each of them is about something that much else relies on.
heart='^Test(EnrolAndDelete|Life|PowerByKubectl|Inspect|WhatUsersType|ListsShowEachChange|ReadsAreNeverStale|ReadsGoOnWithoutIronic'
heart+='|TwoHostsWithOneBMC|AnotherDeployment|NodeLostWhileProvisioned|DisksAreWrittenForImagesOnly|SpecChangeReachesIronicAtOnce|Plugin'
heart+='|Discovery|Tables|ClientGoInformers|ClientGoListVersions|ClientGoOptimisticLocking|ClientGoFinalizers|KubectlApply'
heart+='|KubectlServerSideApply|KubectlGetFormats|CAPM3Machine|RuntimeController|EachFileIsInSeesCache)$'

heart() {
	IRONIC=sim METAL3_APISERVER=$PWD/bin/metal3-apiserver e2e_test -p 2 -timeout 10m ./test/e2e ./test/contract -run "$heart"
}

ironic() {
	local release=$1 root status=0
	root=$(test/ironic/root.sh "$release")
	test/ironic/root.sh keystone >/dev/null
	echo "Ironic $(cat "$root/ironic-version")"
	export METAL3_APISERVER=$PWD/bin/metal3-apiserver
	# Each package starts its own Ironic. What is beside the longest one takes about as long.
	in_background ironic_in_background "$release"
	IRONIC=$release e2e_test -timeout 40m ./test/life || status=1
	await_background || status=1
	return $status
}

ironic_in_background() {
	local status=0
	IRONIC=$1 e2e_test -p 1 -timeout 40m ./test/safety ./test/e2e || status=1
	# The other tests of test/security need the simulator, or Ironic makes no difference to them.
	[ "$1" != trixie ] || IRONIC=$1 e2e_test -timeout 10m ./test/security \
		-run '^Test(NodesOfOthers|AdoptedNodes.*|StatusDoesNot.*|CertainNamespaces|SecretWrites.*|Redirect.*)$' || status=1
	IRONIC_RELEASE=$1 go_test standard-verbose -race -count=1 -p 1 -timeout 20m -run 'Ironic|BMC' ./test/testbed ./test/bmcsim || status=1
	return $status
}

# Stores how long a step took, and its CPU time: the second line of `times` is that of all that has ended. In a pipe,
# it would be that of another shell.
record_times() {
	times >"$results/$step.times"
	awk -v step="$step" -v seconds=$((SECONDS - started)) '
		NR == 2 { split($1 "m" $2, t, /[ms]+/); printf "%s\t%d\t%d\n", step, seconds, (t[1] + t[3]) * 60 + t[2] + t[4] }' "$results/$step.times" >"$results/$step.time"
}

# Runs a step. It must be called with `set +e` and not as a condition, because in a
# condition even a subshell ignores errors.
step() {
	(
		set -e
		step=$1
		started=$SECONDS
		trap record_times EXIT
		case $1 in
		lint) hack/lint.sh ;;
		verify) make verify ;;
		unit) unit ;;
		engine) engine ;;
		quick-unit) quick_unit ;;
		e2e) e2e ;;
		heart) heart ;;
		ironic-*) ironic "${1#ironic-}" ;;
		*)
			echo "test.sh: there is no step \"$1\"" >&2
			exit 2
			;;
		esac
	)
}

ended() { if [ "$2" = 0 ]; then passed_steps+=("$1"); else failed_steps+=("$1"); fi; }

# Runs the first step, and begins with the others in parallel with it.
run() {
	local first=$1 missing status=0 name
	shift
	if [[ $first == ironic-* ]]; then
		missing=$(ironic_missing)
		if [ -n "$missing" ]; then
			left_out+=("$first: $missing")
			[ "${REQUIRE_IRONIC:-0}" = 0 ] || failed_steps+=("$first")
			for name; do run "$name"; done
			return
		fi
	fi
	if [ $# -gt 0 ]; then
		(
			set +e
			renice -n 15 "$BASHPID" >/dev/null
			for name; do
				step "$name" >"$results/$name.out" 2>&1
				echo $? >"$results/$name.status"
			done
		) &
		in_parallel+=("$@")
	fi
	heading "$first"
	set +e
	step "$first"
	status=$?
	set -e
	ended "$first" "$status"
}

# Waits for the steps that run in parallel, and prints their output.
await_parallel() {
	local name
	wait
	for name in "${in_parallel[@]}"; do
		heading "$name (in parallel)"
		cat "$results/$name.out"
		ended "$name" "$(cat "$results/$name.status")"
	done
}

# Prints the tests that did not pass, and the first lines that each printed as its error, in short: a log may be cut. A test
# that a panic or the time limit of its package ended has no result, and is one of them.
failures() {
	awk -F '"' '/^\{"Time":"[^"]*","Action":"(run|pass|fail|skip|output)","Package":"[^"]*","Test":/ {
		file = FILENAME; sub(/.*\/[0-9]*\./, "", file); sub(/\.json$/, "", file)
		split($16, parents, "/")
		test = file " " $12 "." parents[1]
		if ($8 == "run" && parents[1] == $16) { if (!(test in result)) names[++n] = test; result[test] = "not ended" }
		else if ($8 != "output" && parents[1] == $16) result[test] = $8
		else if (match($0, /[a-z0-9_]+\.go:[0-9]+: /) && lines[test]++ < 2) errors[test] = errors[test] "\n    " substr($0, RSTART, 240)
	}
	END {
		for (i = 1; i <= n; i++) if (result[names[i]] == "fail") { if (++shown <= 25) print "FAILED: " names[i] errors[names[i]] }
		for (i = 1; i <= n; i++) if (result[names[i]] == "not ended") { if (++shown <= 25) print "NOT ENDED: " names[i] }
		if (shown > 25) print "and " shown - 25 " others"
		if (shown) print ""
	}' /dev/null "$results"/*.json 2>/dev/null | sed 's|github.com/metal3-io/metal3-apiserver/||'
}

# Prints the result of each package and step, how long they took, and how many tests there were.
summary() {
	heading "summary"
	cat /dev/null "$results"/*.json 2>/dev/null >"$results/all" || true
	# Results of packages and tests, as: RESULT STEP PACKAGE TEST SECONDS. All that follows goes by the lines of JSON as
	# go test writes them: {"Time":"...","Action":"pass","Package":"...","Test":"...","Elapsed":1.2}
	awk -F '"' '/^\{"Time":"[^"]*","Action":"(pass|fail)","Package":/ {
		file = FILENAME; sub(/.*\/[0-9]*\./, "", file); sub(/\.json$/, "", file)
		test = $14 == "Elapsed" || $14 == "FailedBuild" ? "-" : $16
		elapsed = $0; if (!sub(/.*"Elapsed":/, "", elapsed)) elapsed = 0
		printf "%s\t%s\t%s\t%s\t%s\n", $8, file, $12, test, elapsed + 0
	}' /dev/null "$results"/*.json 2>/dev/null >"$results/timed" || true
	awk -F '\t' '$4 == "-" { printf "%-4s\t%s\t%s\t%ss\n", $1 == "pass" ? "ok" : "FAIL", $2, $3, $5 }' "$results/timed"
	echo
	echo "the slowest tests:"
	awk -F '\t' '$4 != "-" && $4 !~ /\// { printf "%7.1f s\t%s\t%s.%s\n", $5, $2, $3, $4 }' "$results/timed" |
		sed 's|github.com/metal3-io/metal3-apiserver/||' | sort -rn | awk 'NR <= 12'
	echo
	printf '%-16s %8s %12s\n' step minutes "CPU minutes"
	cat /dev/null "$results"/*.time 2>/dev/null | awk -F '\t' '{ printf "%-16s %8.1f %12.1f\n", $1, $2 / 60, $3 / 60 }'
	local passed failed skipped line
	passed=$(grep -c '"Action":"pass","Package":"[^"]*","Test":' "$results/all" || true)
	failed=$(grep -c '"Action":"fail","Package":"[^"]*","Test":' "$results/all" || true)
	skipped=$(grep -c '"Action":"skip","Package":"[^"]*","Test":' "$results/all" || true)
	# A step can fail without a failed test, for example because something does not build.
	[ "$failed" -ge ${#failed_steps[@]} ] || failed=${#failed_steps[@]}
	echo
	failures
	for line in "${passed_steps[@]}"; do echo "passed: $line"; done
	for line in "${left_out[@]}"; do echo "LEFT OUT: $line"; done
	for line in "${failed_steps[@]}"; do echo "FAILED: $line"; done
	echo "$passed passed, $failed failed, $skipped skipped"
}

[ $# -gt 0 ] || { echo "usage: test.sh STEP..." >&2; exit 2; }
set +e
(set -e; prepare ${*//+/ })
prepared=$?
set -e
[ $prepared = 0 ] || failed_steps+=("building the programs")
for group; do
	[ $prepared = 0 ] || break
	IFS=+ read -ra steps <<<"$group"
	run "${steps[@]}"
done
await_parallel
summary
[ ${#failed_steps[@]} = 0 ]
