#!/usr/bin/env bash
# Runs tests and prints a summary at the end:
#   hack/test.sh STEP...
# The steps are:
#   verify           make verify
#   unit             the unit tests, with the race detector. Fuzz targets run only with the
#                    inputs that are committed; hack/fuzz.sh searches for others
#   e2e              the end-to-end tests on the simulated Ironic: test/e2e, test/contract,
#                    test/migrate, test/safety, test/security and test/ui, which needs
#                    Chromium and installs Debian's if it may; where it cannot, it is left out,
#                    and with REQUIRE_CHROMIUM=1, it fails
#   ironic-RELEASE   the end-to-end tests on the real Ironic of Debian bookworm, trixie or
#                    sid: test/e2e, test/life and test/safety, and of trixie some of
#                    test/security. With AUTH=keystone, each Ironic has its users in a real
#                    Keystone; otherwise, only one test uses Keystone
# STEP+STEP... runs the later steps in parallel with the first one, at the lowest
# priority. This is useful for steps that need CPU while the first one mostly waits. Their
# output is printed when the first one has ended. If a step fails, the others run
# nevertheless. The real Ironic needs root on Debian or Ubuntu. Elsewhere, its step is left
# out, which the summary reports; with REQUIRE_IRONIC=1, the step fails instead, and so do
# the tests of the manifests if a program that they need is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/local/go/bin

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
began=$SECONDS
passed_steps=() failed_steps=() left_out=()

heading() { printf '\n=== %s (after %d min %02d s)\n' "$1" $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60)); }

# Runs go test through gotestsum, which stores each result for the summary. Data races in
# the server fail the end-to-end tests too, because it is built with the race detector.
go_test() {
	local format=$1
	shift
	bin/lint/gotestsum --format "$format" --jsonfile "$results/$(date +%s%N).json" -- -race "$@"
}

prepare() {
	if [ "$(go env CGO_ENABLED)" != 1 ] || ! command -v "$(go env CC)" >/dev/null; then
		echo "The race detector needs a C compiler: install gcc (on Debian or Ubuntu: apt-get install gcc libc6-dev)." >&2
		return 1
	fi
	hack/build-linters.sh # also builds gotestsum
	hack/tools/build.sh
	# Tests that need it are skipped without it, except in continuous integration.
	hack/tools/prometheus.sh || [ "${REQUIRE_IRONIC:-0}" = 0 ]
	go build -v -race -buildvcs=false -o bin/race/metal3-apiserver ./cmd/metal3-apiserver 2>&1 | hack/progress.sh "metal3-apiserver with the race detector"
	export METAL3_APISERVER=$PWD/bin/race/metal3-apiserver
}

# Prints the reason why a real Ironic cannot run here, if there is one.
ironic_missing() {
	if ! command -v apt-get >/dev/null; then
		echo "a real Ironic is installed from Debian packages, and there is no apt-get: Debian or Ubuntu is required"
	elif [ "$(id -u)" != 0 ]; then
		echo "a real Ironic runs in a chroot, which requires root"
	fi
}

unit() {
	local packages
	prepare
	mapfile -t packages < <(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | grep -vE '/test/(contract|e2e|life|migrate|safety|security|ui)$')
	go_test standard-quiet "${packages[@]}"
}

e2e() {
	local status=0
	prepare
	# These tests mostly wait, so two packages run at a time.
	IRONIC=sim go_test standard-verbose -count=1 -p 2 -timeout 30m ./test/e2e ./test/contract ./test/migrate ./test/safety ./test/security ./test/ui || status=1
	go_test standard-verbose -count=1 -timeout 20m ./test/contract -watch-cache=false || status=1
	return $status
}

ironic() {
	local release=$1 root status=0
	prepare
	root=$(test/ironic/root.sh "$release")
	test/ironic/root.sh keystone >/dev/null
	echo "Ironic $(cat "$root/ironic-version")"
	IRONIC_RELEASE=$release go_test standard-verbose -count=1 -p 1 -timeout 20m -run 'Ironic|BMC' ./test/testbed ./test/bmcsim || status=1
	# As above. Each package starts its own Ironic.
	IRONIC=$release go_test standard-verbose -count=1 -p 2 -timeout 40m ./test/e2e ./test/life ./test/safety || status=1
	# The other tests of test/security need the simulator, or Ironic makes no difference to them.
	[ "$release" != trixie ] || IRONIC=$release go_test standard-verbose -count=1 -timeout 10m ./test/security \
		-run '^Test(NodesOfOthers|AdoptedNodes.*|StatusDoesNot.*|CertainNamespaces|SecretWrites.*|Redirect.*)$' || status=1
	return $status
}

# Runs a step. It must be called with `set +e` and not as a condition, because in a
# condition even a subshell ignores errors.
step() {
	(
		set -e
		case $1 in
		verify) make verify ;;
		unit) unit ;;
		e2e) e2e ;;
		ironic-*) ironic "${1#ironic-}" ;;
		*)
			echo "test.sh: there is no step \"$1\"" >&2
			exit 2
			;;
		esac
	)
}

ended() { if [ "$2" = 0 ]; then passed_steps+=("$1"); else failed_steps+=("$1"); fi; }

# Runs the first step, and the others in parallel with it.
run() {
	local first=$1 parallel=() others missing status=0 name
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
			renice -n 19 "$BASHPID" >/dev/null
			for name; do
				step "$name" >"$results/$name.out" 2>&1
				echo $? >"$results/$name.status"
			done
		) &
		others=$!
		parallel=("$@")
	fi
	heading "$first"
	set +e
	step "$first"
	status=$?
	set -e
	ended "$first" "$status"
	[ ${#parallel[@]} = 0 ] || wait "$others"
	for name in "${parallel[@]}"; do
		heading "$name (in parallel with $first)"
		cat "$results/$name.out"
		ended "$name" "$(cat "$results/$name.status")"
	done
}

# Prints the result of each package and step, and how many tests there were.
summary() {
	heading "summary"
	cat /dev/null "$results"/*.json 2>/dev/null >"$results/all" || true
	sed -nE \
		-e 's/^\{"Time":"[^"]*","Action":"pass","Package":"([^"]*)","Elapsed":([0-9.e-]+).*$/ok  \t\1\t\2s/p' \
		-e 's/^\{"Time":"[^"]*","Action":"fail","Package":"([^"]*)","Elapsed":([0-9.e-]+).*$/FAIL\t\1\t\2s/p' "$results/all"
	local passed failed skipped line
	passed=$(grep -c '"Action":"pass","Package":"[^"]*","Test":' "$results/all" || true)
	failed=$(grep -c '"Action":"fail","Package":"[^"]*","Test":' "$results/all" || true)
	skipped=$(grep -c '"Action":"skip","Package":"[^"]*","Test":' "$results/all" || true)
	# A step can fail without a failed test, for example because something does not build.
	[ "$failed" -ge ${#failed_steps[@]} ] || failed=${#failed_steps[@]}
	echo
	for line in "${passed_steps[@]}"; do echo "passed: $line"; done
	for line in "${left_out[@]}"; do echo "LEFT OUT: $line"; done
	for line in "${failed_steps[@]}"; do echo "FAILED: $line"; done
	echo "$passed passed, $failed failed, $skipped skipped"
}

[ $# -gt 0 ] || { echo "usage: test.sh STEP..." >&2; exit 2; }
for group; do
	IFS=+ read -ra steps <<<"$group"
	run "${steps[@]}"
done
summary
[ ${#failed_steps[@]} = 0 ]
