# SPDX-License-Identifier: Apache-2.0
#
# The suites of tests, for hack/test.sh, which sources this file. A suite is a function of its name with _ for -; programs
# says what it needs (provide in hack/test.sh). Race detector: in suites that say so, what the tests call is built with it,
# and, for those that start a server, the server.

# The two tiers. Suites of a lane run one after the other, and lanes beside each other: the first ones mostly wait, and the last
# ones compute.
test_lanes=(heart+quick-engine lint+generated+quick)
test_all_lanes=(contract+e2e+ui+migrate+ironic-life safety+security+ironic-safety+ironic-e2e+ironic-parts lint+generated+engine+explore+unit)

declare -A programs=(
	[quick]="server kubectl"
	[heart]="server kube"
	[unit]="server kube cert-manager prometheus buildah helm krew gitops olm mkdocs race"
	[engine]="race"
	[contract]="server later-server kube gitops"
	[e2e]="race-server kube cert-manager prometheus race"
	[ui]="server kube chromium axe race"
	[migrate]="server kube race"
	[safety]="race-server later-server kube clusterctl"
	[security]="server kube race"
	[ironic-life]="server kube ironic"
	[ironic-safety]="server kube ironic"
	[ironic-e2e]="server kube ironic"
	[ironic-parts]="server kube ironic race"
	[cluster]="server kube cert-manager node"
)

# Packages whose tests start a control plane.
whole_packages='/test/(bench|cluster|contract|demo|e2e|life|migrate|robustness|safety|security|ui)$'
# Time in the tests of these is that of a bubble, or an argument.
engine_packages='/pkg/ironicsync/(deploy|destination|executor|hostindex|kinds(/.*)?|lifecycle|limit|live/flight|live/index|reconcile|recorder|registrar|settings)$'
# These start goroutines, and need little else to be compiled with the race detector: with client-go, that takes five minutes the
# first time.
concurrent_packages='/(pkg/ironicsync/(limit|live/flight)|pkg/registry/metal3/baremetalhost/console|cmd/kubectl-bmh/terminal)$'

unit_packages() { go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | grep -vE "$whole_packages"; }

# gofmt, the analyzers (of staticcheck, go vet and others), spelling, and which packages may import which.
lint() { hack/lint.sh; }

# Generated code and the go.mod files are up to date.
generated() { make verify-generated; }

# The unit tests but the engine's, and those that need more than Go and kubectl: results of packages that have not changed are taken
# from Go's cache. With a C compiler, those of some packages that start goroutines have the race detector; the others have it in
# make test-all.
quick() {
	local packages concurrent status=0
	mapfile -t packages < <(unit_packages | grep -vE "$engine_packages|$concurrent_packages|/artifacts\$")
	mapfile -t concurrent < <(unit_packages | grep -E "$concurrent_packages")
	go_test -short "${packages[@]}" || status=1
	go_test -short -count=1 ./artifacts || status=1 # it runs kubectl
	if has_race; then
		race go_test -short "${concurrent[@]}" || status=1
	else
		echo "quick: without the race detector, which needs gcc and libc6-dev"
		go_test -short "${concurrent[@]}" || status=1
	fi
	return $status
}

# The engine's, which compute.
quick_engine() {
	local packages
	mapfile -t packages < <(unit_packages | grep -E "$engine_packages" | grep -vE "$concurrent_packages")
	go_test -short "${packages[@]}"
}

# One end-to-end test or two of each main path, through kube-apiserver, on the simulated Ironic.
heart() { IRONIC=sim e2e_test -p 2 ./test/e2e ./test/contract ./test/migrate -run "^Test($(heart_tests))\$"; }

heart_tests() {
	paste -sd '|' <<-'END'
		EnrolAndDelete|Life|PowerByKubectl|Inspect|WhatUsersType|ListsShowEachChange|ReadsAreNeverStale|ReadsGoOnWithoutIronic
		HostClaim|TwoHostsWithOneBMC|AnotherDeployment|NodeLostWhileProvisioned|DisksAreWrittenForImagesOnly|SpecChangeReachesIronic|Plugin
		Tables|ClientGoInformers|ClientGoListVersions|KubectlAsOnACustomResource|KubectlDiff
		KubectlGetFormats|CAPM3Machine|RuntimeController|EachFileIsInSeesCache|ThereAndBack
	END
}

# All unit tests, with the race detector, and the links of the documents.
unit() {
	local packages status=0
	mapfile -t packages < <(unit_packages | grep -vE "$engine_packages")
	race go_test -count=1 "${packages[@]}" || status=1
	hack/docs.sh || status=1
	return $status
}

engine() {
	local packages
	mapfile -t packages < <(unit_packages | grep -E "$engine_packages")
	# Their heaps are small and short-lived, so that Go would collect garbage all the time.
	GOGC=400 race go_test -count=1 -skip "$explorations" "${packages[@]}"
}

# The long explorations, without the race detector: all code that they run has run with it in engine.
explorations='^Test(Promises|KilledAnywhere|HardwareFromMutated|HugeInventory|ObserveIsIdempotent)$'
explore() { GOGC=400 go_test -count=1 -run "$explorations" ./pkg/ironicsync/reconcile ./pkg/ironicsync/lifecycle; }

# What clients of the CRDs rely on, the tutorials, of which one upgrades to a later version, and the demo.
contract() { IRONIC=sim LATER_SERVER=$PWD/bin/later/metal3-apiserver e2e_test ./test/contract ./test/demo; }

# Reads, actions, kubectl, outages, replicas, with the race detector.
e2e() { IRONIC=sim METAL3_APISERVER=$PWD/bin/race/metal3-apiserver race e2e_test ./test/e2e; }

# The page in Chromium.
ui() { IRONIC=sim race e2e_test ./test/ui; }

# From the CRDs and back.
migrate() { IRONIC=sim race e2e_test ./test/migrate; }

# What must never happen to a machine. The server has the race detector, a later version is tried beside it, and the real clusterctl
# moves hosts.
safety() { IRONIC=sim CLUSTERCTL=1 METAL3_APISERVER=$PWD/bin/race/metal3-apiserver LATER_SERVER=$PWD/bin/later/metal3-apiserver e2e_test ./test/safety; }

# Attacks. The server collects garbage as users have it, because its memory is looked at.
security() { IRONIC=sim race e2e_test ./test/security; }

# The installation on a node. In no tier.
cluster() { e2e_test ./test/cluster; }

# The same on the real Ironic of Debian RELEASE.
ironic_life() { IRONIC=$release e2e_test ./test/life; }
ironic_safety() { IRONIC=$release e2e_test ./test/safety; }
ironic_e2e() { IRONIC=$release e2e_test ./test/e2e; }

# What imitates parts for the suites above behaves like them. The other tests of test/security need the simulator, or Ironic makes
# no difference to them.
ironic_parts() {
	local status=0
	IRONIC_RELEASE=$release race e2e_test -p 1 -run Ironic ./test/bmcsim || status=1
	[ "$release" != trixie ] || IRONIC=$release race e2e_test ./test/security \
		-run '^Test(NodesOfOthers|AdoptedNodes.*|CertainNamespaces|SecretWrites.*|Redirect.*)$' || status=1
	return $status
}
