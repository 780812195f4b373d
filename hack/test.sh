#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs suites of tests (hack/suites.sh) and prints a summary at the end:
#   hack/test.sh test|test-all   a tier
#   hack/test.sh SUITE...        some suites, one after the other
# Each lane of a tier has a priority that is lower than that of the one before it by LANE_NICE.
# RELEASE is that of the real Ironic: bookworm, trixie (the default) or sid. With AUTH=keystone, each real Ironic has its users in
# a real Keystone; with ALL=1, tests to which the kind of Ironic makes no difference run on it, too. With RESULTS=FOLDER, the
# results are kept there. bin/passed has the suites that have passed on a commit, without other changes in the work tree, as each ends.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/local/go/bin
# The messages of programs that the tests run are compared with English ones.
export LC_ALL=C.UTF-8
unset LANGUAGE
. hack/goflags.sh
export METAL3_APISERVER=$PWD/bin/metal3-apiserver
release=${RELEASE:-trixie}
. hack/suites.sh

case ${1-} in
test) tier=test lanes=("${test_lanes[@]}") ;;
test-all) tier=test-all lanes=("${test_all_lanes[@]}") ;;
"") echo "usage: test.sh test|test-all|SUITE..." >&2; exit 2 ;;
*) tier='' lanes=("$(IFS=+; echo "$*")") ;;
esac
for suite in $(tr + ' ' <<<"${lanes[*]}"); do
	declare -F "${suite//-/_}" >/dev/null || { echo "test.sh: there is no suite \"$suite\"" >&2; exit 2; }
done

results=${RESULTS:-$(mktemp -d)}
mkdir -p "$results"
rm -f "$results"/*.{provided,json,out,times,ended} "$results/remarks" # of an earlier run, maybe with other code
[ -n "${RESULTS-}" ] || trap 'rm -rf "$results"' EXIT
# Commands in the background ignore Ctrl-C.
trap 'trap "" TERM; kill -TERM 0; exit 130' INT TERM
began=$SECONDS

# What is tested, or nothing if the work tree has changes.
commit() { [ -n "$(git status --porcelain 2>&1)" ] || git rev-parse HEAD; }
tested=$(commit)

say() { printf '=== %s (after %d min %02d s)\n' "$1" $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60)); }

# Runs go test. The compiler takes a quarter less time if it collects garbage more rarely, and so do the tests. The limit only ends
# what hangs: go test's own of ten minutes is exceeded by a package on a busy machine.
go_test() {
	GOGC=${GOGC:-400} bin/lint/gotestsum --format "${suite_format:-standard-quiet}" --hide-summary=skipped --jsonfile "$results/$suite.$(date +%s%N).json" -- -vet=off -timeout 4h ${TEST_FLAGS-} "$@"
}

# Runs end-to-end tests, of which nothing is cached. What they start collects garbage as users have it.
e2e_test() { suite_format=testname go_test -count=1 -exec 'env -u GOGC' "$@"; }

# Runs a command that builds with the race detector.
race() { CGO_ENABLED=1 GOFLAGS="$GOFLAGS -race" "$@"; }

has_race() { command -v "$(go env CC)" >/dev/null && echo 'int main(void) { return 0; }' | "$(go env CC)" -x c -o /dev/null - 2>/dev/null; }

# Prints the reason why a real Ironic cannot run here, if there is one.
ironic_missing() {
	if ! command -v apt-get >/dev/null; then
		echo "a real Ironic is installed from Debian packages, and there is no apt-get: Debian or Ubuntu is required"
	elif [ "$(id -u)" != 0 ]; then
		echo "a real Ironic runs in a chroot, which requires root"
	fi
}

# Installs Debian packages, because a program is missing.
install() {
	local missing=$1
	shift
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "There is no $missing: install it (on Debian or Ubuntu: apt-get install $*)." >&2
		return 1
	fi
	local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -q)
	"${apt[@]}" install -y --no-install-recommends "$@" >&2 || { "${apt[@]}" update >&2 && "${apt[@]}" install -y --no-install-recommends "$@" >&2; }
}

# Builds or installs one of the programs that suites name.
provide() {
	local missing
	case $1 in
	server) GOGC=400 go build -v -ldflags '-s -w' -o bin/metal3-apiserver ./cmd/metal3-apiserver 2>&1 | hack/progress.sh metal3-apiserver ;;
	race-server)
		provide race
		GOGC=400 race go build -v -ldflags '-s -w' -o bin/race/metal3-apiserver ./cmd/metal3-apiserver 2>&1 | hack/progress.sh "metal3-apiserver with the race detector"
		;;
	later-server) hack/build-later.sh bin/later/metal3-apiserver ;;
	kube) hack/tools/build.sh etcd kube-apiserver kubectl kube-controller-manager ;;
	kubectl | cert-manager | clusterctl | gitops | helm | krew | olm) hack/tools/build.sh "$1" ;;
	node)
		local program
		for program in nsenter:util-linux ip:iproute2 iptables:iptables sysctl:procps openssl:openssl; do
			command -v ${program%:*} >/dev/null || install "${program%:*}" "${program#*:}"
		done
		[ -e /usr/include/seccomp.h ] && has_race || install "C compiler with libseccomp, which runc needs" gcc libc6-dev libseccomp-dev
		hack/tools/build.sh node
		;;
	prometheus) hack/tools/prometheus.sh ;;
	axe) hack/tools/axe.sh ;;
	chromium) test/ui/chromium.sh >/dev/null ;;
	race) has_race || install "C compiler, which the race detector needs" gcc libc6-dev ;;
	buildah)
		command -v buildah >/dev/null || install buildah buildah
		command -v busybox >/dev/null || install busybox busybox-static
		;;
	mkdocs) command -v mkdocs >/dev/null || install mkdocs mkdocs ;;
	ironic)
		missing=$(ironic_missing)
		[ -z "$missing" ] || { echo "$missing" >&2; return 1; }
		echo "Ironic $(cat "$(test/ironic/root.sh "$release")/ironic-version")"
		test/ironic/root.sh keystone >/dev/null
		;;
	*) echo "test.sh: there is no program \"$1\"" >&2; return 1 ;;
	esac
}

# Provides what a suite needs, unless another one has needed it in this run. One suite prepares at a time, so that nothing is
# compiled twice; those that have what they need run meanwhile.
prepare() {
	local program
	for program in ${programs[$1]-}; do
		[ ! -e "$results/$program.provided" ] || continue
		provide "$program"
		touch "$results/$program.provided"
	done
}

# Succeeds if what passes is what CI would test: the commit as it was at the beginning, with all of its tests.
counts() { [ -n "$tested" ] && [ "$tested" = "$(commit)" ] && [ -z "${TEST_FLAGS-}" ] && [ "$release" = trixie ]; }

# Stores how a suite ended, how long it took, and its CPU time: the second line of `times` is that of all that has ended.
record_end() {
	local status=$? seconds=$((SECONDS - started))
	times >"$results/$suite.times"
	awk -v status=$status -v seconds=$seconds '
		NR == 2 { split($1 "m" $2, t, /[ms]+/); print status, seconds, (t[1] + t[3]) * 60 + t[2] + t[4] }' "$results/$suite.times" >"$results/$suite.ended"
	[ $status != 0 ] || ! counts || echo "$suite $tested $(((seconds + 30) / 60))" >>bin/passed
}

# Runs the suites of a lane, each in a shell of its own, and prints what each has printed when it has ended.
run_lane() {
	local suite output
	for suite; do
		output=$results/$suite.out
		# In a condition, even a subshell would go on after an error.
		set +e
		(
			flock 8
			set -e
			prepare "$suite"
		) 8>"$results/prepare.lock"
		if [ $? != 0 ]; then
			say "$suite cannot begin: what it needs could not be built or installed, see above"
			continue
		fi
		say "$suite begins"
		(
			set -e
			started=$SECONDS
			trap record_end EXIT
			"${suite//-/_}"
		) >"$output" 2>&1
		(
			flock 9
			say "$suite has ended"
			cat "$output"
		) 9>"$results/lock"
	done
}

# Says which suites of test-all have not passed on this commit, in this run or in earlier ones.
say_lacking() {
	local suite lacking=()
	counts || {
		[ "$tier" != test-all ] || echo "nothing is remembered: there were changes in the work tree, TEST_FLAGS or another RELEASE"
		return 0
	}
	for suite in $(tr + ' ' <<<"${test_all_lanes[*]}"); do
		grep -q "^$suite $tested " bin/passed 2>/dev/null || lacking+=("$suite")
	done
	[ "$tier" = test ] || if [ ${#lacking[@]} = 0 ]; then
		echo "all suites of make test-all have passed on ${tested:0:7}"
	else
		echo "suites of make test-all that have not passed on ${tested:0:7}: ${lacking[*]}"
	fi
}

read -ra all <<<"$(tr + ' ' <<<"${lanes[*]}")"
hack/build-linters.sh # also builds gotestsum
go build -o bin/lint/ ./hack/testreport
# First, because lint compiles the same packages, and has nothing to prepare. If that fails, so does each suite that needs it.
for suite in "${all[@]}"; do
	[[ " ${programs[$suite]-} " != *" server "* ]] || { provide server && touch "$results/server.provided" || true; break; }
done
for i in "${!lanes[@]}"; do
	IFS=+ read -ra suites <<<"${lanes[i]}"
	(
		[ "$i" = 0 ] || renice -n $((i * ${LANE_NICE-7})) "$BASHPID" >/dev/null || true
		run_lane "${suites[@]}"
	) &
done
wait
# A suite whose shell was killed has not said how it ended.
for suite in "${all[@]}"; do [ -s "$results/$suite.ended" ] || echo "1 0 0" >"$results/$suite.ended"; done
say_lacking >"$results/remarks"
say summary
bin/lint/testreport "$results"
