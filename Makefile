# Run `make` or `make help` for a list of the targets.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
VERSION_FLAGS := $(foreach program,metal3-apiserver kubectl-bmh,-X github.com/metal3-io/metal3-apiserver/cmd/$(program)/app.Version=$(VERSION))
# With the same flags for all programs, what they have in common is compiled only once. The compiler takes a
# quarter less time if it collects garbage more rarely.
GO_BUILD := CGO_ENABLED=0 GOGC=400 go build -v -trimpath -buildvcs=false -ldflags '-s -w $(VERSION_FLAGS)'
RELEASE ?= trixie
IMAGE ?= metal3-apiserver:$(VERSION)
CONTAINER_TOOL ?= docker
export PATH := $(PATH):/usr/local/go/bin

##@ Try it

.PHONY: demo
demo: demo-programs ## Run everything on this machine, with hosts to try out, until Ctrl-C. For a real Ironic, set IRONIC=debian or IRONIC_ENDPOINT=URL; FLAGS are passed to metal3-apiserver
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

.PHONY: tools
tools: need-go ## Build the other programs that the tests and the demo run: bin/etcd, kube-apiserver, kubectl, kube-controller-manager, cert-manager
	@hack/tools/build.sh

.PHONY: image
image: ## Build the container image IMAGE with CONTAINER_TOOL (docker)
	@command -v $(CONTAINER_TOOL) >/dev/null || { echo "$(CONTAINER_TOOL) is not installed; to use another tool, set CONTAINER_TOOL (for example, to podman)." >&2; exit 1; }
	$(CONTAINER_TOOL) build --build-arg VERSION=$(VERSION) -t $(IMAGE) .

.PHONY: generate
generate: need-go ## Regenerate pkg/generated and the zz_generated files
	hack/update-codegen.sh

##@ Test

.PHONY: test
test: need-go ## Run everything: verify, unit tests, and end-to-end tests on the simulated Ironic and on the real one of Debian trixie
	@hack/test.sh unit e2e ironic-trixie+engine+verify

.PHONY: check
check: need-go ## Run what a change is most likely to break: lint, unit tests, and the heart of the end-to-end tests on the simulated Ironic
	@hack/test.sh heart quick-unit lint

.PHONY: test-unit
test-unit: need-go ## Run the unit tests with the race detector, and the fuzz targets with the known inputs
	@hack/test.sh unit engine

.PHONY: fuzz
fuzz: need-go ## Search for inputs that break the parsers of user input, for FUZZTIME (30s) per fuzz target
	@hack/fuzz.sh

.PHONY: test-e2e
test-e2e: need-go ## Run the end-to-end tests on the simulated Ironic
	@hack/test.sh e2e

.PHONY: test-ironic
test-ironic: need-go ## Run all end-to-end tests on a real Ironic, of RELEASE trixie, bookworm or sid; with AUTH=keystone, with a real Keystone. Needs root on Debian or Ubuntu
	@REQUIRE_IRONIC=1 ALL=$${ALL:-1} hack/test.sh ironic-$(RELEASE)

.PHONY: soak
soak: need-go tools build ## Repeat for hours, on the simulated Ironic or on the real one of Debian release IRONIC, what make test does for minutes: kills, suspensions, restores, lists after changes, random scripts
	KILLS=$${KILLS:-1000} SUSPENSIONS=$${SUSPENSIONS:-100} RESTORE_HOSTS=$${RESTORE_HOSTS:-100} HOSTS=$${HOSTS:-20} go test -count=1 -v -timeout 12h ./test/safety
	go test -count=1 -v -timeout 2h -run '^TestLists' ./test/e2e -list-rounds 500
	go test -count=1 -timeout 12h -run '^TestPromises$$' ./pkg/ironicsync/reconcile -rapid.nofailfile -rapid.seed=$${SEED:-$$RANDOM} -rapid.checks=$${SCRIPTS:-100000}

.PHONY: bench
bench: need-go tools build ## Measure reads and watches with 1,000 and 10,000 hosts, and the time from create to provisioned compared with a plain client of Ironic
	go test -run '^$$' -bench . -benchtime 4s -timeout 40m ./test/bench

.PHONY: verify
verify: need-go ## Run lint, and check that go.mod and the generated code are up to date
	@status=0; \
	hack/lint.sh || status=1; \
	echo "go mod tidy"; \
	go mod tidy -diff || status=1; \
	go -C hack/tools mod tidy -diff || status=1; \
	go -C hack/tools/cert-manager mod tidy -diff || status=1; \
	go -C hack/tools/lint mod tidy -diff || status=1; \
	echo "versions of hack/tools"; \
	hack/tools/verify-versions.sh || status=1; \
	echo "generated code"; \
	hack/verify-codegen.sh || status=1; \
	exit $$status

.PHONY: lint
lint: need-go ## Run gofmt, go vet, staticcheck, and check which packages may import which (.depguard.yaml)
	@hack/lint.sh

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
