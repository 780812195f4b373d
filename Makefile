# Run `make` or `make help` for a list of the targets.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)
VERSION_FLAGS := $(foreach name,Version=$(VERSION) Commit=$(COMMIT),-X github.com/metal3-io/metal3-apiserver/pkg/version.$(name))
export GOFLAGS := $(shell . hack/goflags.sh && echo "$$GOFLAGS")
# The compiler takes a quarter less time if it collects garbage more rarely.
GO_BUILD := CGO_ENABLED=0 GOGC=400 go build -v -ldflags '-s -w $(VERSION_FLAGS)'
RELEASE ?= trixie
IMAGE ?= metal3-apiserver:$(VERSION)
CONTAINER_TOOL ?= docker
export PATH := $(PATH):/usr/local/go/bin

##@ Try it

.PHONY: demo
demo: demo-programs ## Run everything on this machine, with hosts to try out, until Ctrl-C. For a real Ironic, set IRONIC=debian or IRONIC_ENDPOINT=URL; for hosts in racks and a tenant, HOSTS=50; FLAGS are passed to metal3-apiserver
	@exec bin/demo $(FLAGS)

.PHONY: demo-programs
demo-programs: need-go
	@hack/tools/build.sh etcd kube-apiserver kubectl
	@echo "building metal3-apiserver and kubectl-bmh $(VERSION) into bin" >&2
	@$(GO_BUILD) -o bin/ ./cmd/metal3-apiserver ./cmd/kubectl-bmh ./test/demo 2>&1 | hack/progress.sh "metal3-apiserver, kubectl-bmh"
	@cp cmd/kubectl-bmh/kubectl_complete-bmh bin/

##@ Build

.PHONY: build
build: need-go ## Build bin/metal3-apiserver, statically linked
	@echo "building bin/metal3-apiserver $(VERSION) (takes a few minutes the first time)" >&2
	@$(GO_BUILD) -o bin/metal3-apiserver ./cmd/metal3-apiserver 2>&1 | hack/progress.sh metal3-apiserver

.PHONY: plugin
plugin: need-go ## Build bin/kubectl-bmh, the plugin of kubectl, and what kubectl needs to complete its arguments
	@echo "building bin/kubectl-bmh $(VERSION)" >&2
	@$(GO_BUILD) -o bin/kubectl-bmh ./cmd/kubectl-bmh 2>&1 | hack/progress.sh kubectl-bmh
	@cp cmd/kubectl-bmh/kubectl_complete-bmh bin/

.PHONY: krew
krew: need-go ## Build the archives of the plugin for all platforms, and krew's manifest, in bin/krew. Set VERSION, and URL to where they will be
	@VERSION=$(VERSION) URL=$(URL) hack/krew.sh

.PHONY: release
release: need-go ## Build everything that a release consists of in bin/release/VERSION, without a container engine (docs/releases.md). With REPRODUCE=1, twice, to compare
	@VERSION=$(VERSION) hack/release.sh

.PHONY: tools
tools: need-go ## Build the other programs that the tests and the demo run: bin/etcd, kube-apiserver, kubectl, kube-controller-manager, cert-manager
	@hack/tools/build.sh

.PHONY: image
image: ## Build the container image IMAGE with CONTAINER_TOOL (docker)
	@command -v $(CONTAINER_TOOL) >/dev/null || { echo "$(CONTAINER_TOOL) is not installed; to use another tool, set CONTAINER_TOOL (for example, to podman)." >&2; exit 1; }
	$(CONTAINER_TOOL) build --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) -t $(IMAGE) .

.PHONY: generate
generate: need-go ## Regenerate pkg/generated, the zz_generated files and docs/reference
	hack/update-codegen.sh
	go run ./hack/docs docs/reference metrics events errors

##@ Test

.PHONY: test
test: need-go ## Run lint, the unit tests, and an end-to-end test or two of each main path on the simulated Ironic. Needs Go only
	@hack/test.sh test

.PHONY: test-all
test-all: need-go ## Run everything, on the real Ironic of Debian trixie, too, or only the SUITES of hack/suites.sh. Needs root on Debian or Ubuntu
	@hack/test.sh $${SUITES:-test-all}

.PHONY: fuzz
fuzz: need-go ## Search for inputs that break the parsers of user input, for FUZZTIME (30s) per fuzz target
	@hack/fuzz.sh

.PHONY: test-ironic
test-ironic: need-go ## Run all end-to-end tests on a real Ironic, of RELEASE trixie, bookworm or sid; with AUTH=keystone, with a real Keystone. Needs root on Debian or Ubuntu
	@ALL=$${ALL:-1} RELEASE=$(RELEASE) hack/test.sh ironic-life ironic-safety ironic-e2e ironic-parts

.PHONY: test-ironics
test-ironics: need-go tools build ## Move a machine that runs between two real Ironics, of RELEASE and OTHER, behind one server. Needs root on Debian or Ubuntu
	METAL3_APISERVER=$(CURDIR)/bin/metal3-apiserver IRONIC=$(RELEASE) OTHER_IRONIC=$${OTHER:-bookworm} go test -count=1 -v -timeout 30m ./test/life -run TestTwoIronics

.PHONY: test-clusterctl
test-clusterctl: need-go tools build ## Have the real clusterctl move hosts between two clusters, and back, on the simulated Ironic or on the real one of Debian release IRONIC
	@hack/tools/build.sh clusterctl
	go -C hack/tools/clusterctl mod tidy -diff
	CLUSTERCTL=1 METAL3_APISERVER=$(CURDIR)/bin/metal3-apiserver go test -count=1 -v -timeout 30m ./test/safety -run '^TestClusterctlMove$$'

.PHONY: test-upgrade
test-upgrade: need-go tools build ## Replace replicas by those of a later version, and roll back, while hosts live. IRONIC as for test-clusterctl
	@hack/build-later.sh bin/later/metal3-apiserver
	LATER_SERVER=$(CURDIR)/bin/later/metal3-apiserver METAL3_APISERVER=$(CURDIR)/bin/metal3-apiserver go test -count=1 -v -timeout 30m ./test/safety -run '^TestUpgrade$$'

.PHONY: test-cluster
test-cluster: need-go ## Install metal3-apiserver on a real node of Kubernetes, as docs/install.md says. Needs root on Debian or Ubuntu, and cgroup v1
	@go -C hack/tools/node mod tidy -diff
	@hack/test.sh cluster

.PHONY: test-ha
test-ha: need-go tools build ## Kill and suspend each part of a highly available installation while hosts live, measure the interruptions, and move a fleet between both kinds of etcd
	HA=all METAL3_APISERVER=$(CURDIR)/bin/metal3-apiserver IRONIC=sim go test -count=1 -v -timeout 40m ./test/safety -run '^(TestPartsDie|TestMoved)$$'

.PHONY: soak
soak: need-go tools build ## Repeat for hours, on the simulated Ironic or on the real one of Debian release IRONIC, what make test-all does for minutes: kills, suspensions, restores, lists after changes, random scripts
	KILLS=$${KILLS:-1000} SUSPENSIONS=$${SUSPENSIONS:-100} RESTORE_HOSTS=$${RESTORE_HOSTS:-100} HOSTS=$${HOSTS:-20} go test -count=1 -v -timeout 12h ./test/safety
	go test -count=1 -v -timeout 2h -run '^TestLists' ./test/e2e -list-rounds 500
	go test -count=1 -timeout 12h -run '^TestPromises$$' ./pkg/ironicsync/reconcile -rapid.nofailfile -rapid.seed=$${SEED:-$$RANDOM} -rapid.checks=$${SCRIPTS:-100000}

.PHONY: robustness
robustness: need-go tools build ## Run random traffic and faults for TIME (10m), and have a program judge the record (docs/robustness.md). Set SEED to repeat a run, SCENARIO to run one scenario only
	@if [ -n "$${FAULT:-}" ]; then hack/faults.sh --build "$$FAULT" bin/faults/metal3-apiserver; fi
	TIME=$${TIME:-10m} METAL3_APISERVER=$(CURDIR)/bin/$${FAULT:+faults/}metal3-apiserver go test -count=1 -vet=off -v -timeout 24h ./test/robustness

.PHONY: bench
bench: need-go tools build ## Measure reads and watches with 1,000 and 10,000 hosts, and the time from create to provisioned compared with a plain client of Ironic
	go test -run '^$$' -bench . -benchtime 4s -timeout 40m ./test/bench

.PHONY: bench-100k
bench-100k: need-go tools build ## Measure what depends on the size of the fleet, with BENCH_HOSTS (100000) hosts in ten simulated Ironics. Needs 10 GB of memory and 10 GB of disk
	go test -run '^$$' -bench '^BenchmarkSize$$' -benchtime 1x -timeout 60m ./test/bench -hosts $${BENCH_HOSTS:-100000}

.PHONY: verify
verify: lint verify-generated ## Run lint, and check that go.mod and the generated code are up to date

.PHONY: verify-generated
verify-generated: need-go
	@status=0; \
	for folder in . docs/examples/* hack/tools hack/tools/cert-manager hack/tools/gitops hack/tools/helm hack/tools/krew hack/tools/lint hack/tools/olm; do \
		echo "go mod tidy in $$folder"; \
		go -C $$folder mod tidy -diff || status=1; \
	done; \
	echo "versions of hack/tools"; \
	hack/tools/verify-versions.sh || status=1; \
	echo "generated code"; \
	hack/verify-codegen.sh || status=1; \
	exit $$status

.PHONY: lint
lint: need-go ## Run gofmt, the analyzers of staticcheck, go vet and others, and check which packages may import which (.depguard.yaml)
	@hack/lint.sh

.PHONY: docs
docs: build ## Build the documents as a site in bin/docs, with the reference of the API, and check all links. Needs mkdocs
	@hack/docs.sh

.PHONY: vulncheck
vulncheck: need-go ## Look for known vulnerabilities in the code that this project calls
	@hack/vulncheck.sh

##@ Other

.PHONY: clean
clean: ## Remove what was built. Debian root file systems with Ironic stay in ~/.cache/metal3-apiserver
	rm -rf bin

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: need-go
need-go:
	@command -v go >/dev/null || { echo "Go was found neither in PATH nor in /usr/local/go. The version in go.mod or a later one is required: see https://go.dev/doc/install" >&2; exit 1; }
