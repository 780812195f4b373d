# `make` or `make help` lists what there is.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
VERSION_FLAG := -X github.com/metal3-io/metal3-apiserver/cmd/metal3-apiserver/app.Version=$(VERSION)
RELEASE ?= trixie
IMAGE ?= metal3-apiserver:$(VERSION)
CONTAINER_TOOL ?= docker
export PATH := $(PATH):/usr/local/go/bin

##@ To try it

.PHONY: demo
demo: tools build ## Run all of it on this machine, with hosts to play with, until Ctrl-C. IRONIC=debian or IRONIC_ENDPOINT=URL for a real Ironic; FLAGS for metal3-apiserver
	@go build -buildvcs=false -o bin/demo ./test/demo
	@exec bin/demo $(FLAGS)

##@ To build

.PHONY: build
build: need-go ## Build bin/metal3-apiserver, static
	@echo "building bin/metal3-apiserver $(VERSION) (some minutes the first time)" >&2
	@CGO_ENABLED=0 go build -v -trimpath -buildvcs=false -ldflags '-s -w $(VERSION_FLAG)' -o bin/metal3-apiserver ./cmd/metal3-apiserver 2>&1 | hack/progress.sh metal3-apiserver

.PHONY: tools
tools: need-go ## Build what tests and the demo run beside it: bin/etcd, kube-apiserver, kubectl, kube-controller-manager
	@hack/tools/build.sh

.PHONY: image
image: ## Build a container image with CONTAINER_TOOL (docker), named IMAGE
	@command -v $(CONTAINER_TOOL) >/dev/null || { echo "There is no $(CONTAINER_TOOL) here; CONTAINER_TOOL=podman, for instance, names another one." >&2; exit 1; }
	$(CONTAINER_TOOL) build --build-arg VERSION=$(VERSION) -t $(IMAGE) .

.PHONY: generate
generate: need-go ## Generate pkg/generated and the zz_generated files anew
	hack/update-codegen.sh

##@ To test

.PHONY: test
test: need-go ## All of it: verify, unit tests, end-to-end tests on the simulated and on the real Ironic of Debian trixie
	@hack/test.sh unit e2e ironic-trixie+verify

.PHONY: test-unit
test-unit: need-go ## Tests of the packages, with the race detector; fuzz targets with the inputs that are known
	@hack/test.sh unit

.PHONY: fuzz
fuzz: need-go ## Search at random for what breaks the parsers of user input, FUZZTIME (30s) for each fuzz target
	@hack/fuzz.sh

.PHONY: test-e2e
test-e2e: need-go ## End-to-end tests on the simulated Ironic
	@hack/test.sh e2e

.PHONY: test-ironic
test-ironic: need-go ## End-to-end tests on a real Ironic, RELEASE=trixie, bookworm or sid. As root, on Debian or Ubuntu
	@REQUIRE_IRONIC=1 hack/test.sh ironic-$(RELEASE)

.PHONY: bench
bench: need-go tools build ## Measure: reads and watches at 1,000 and 10,000 hosts, and from create to provisioned beside a plain client of Ironic
	go test -run '^$$' -bench . -benchtime 4s -timeout 40m ./test/bench

.PHONY: verify
verify: need-go ## lint, and that go.mod and the generated code are up to date
	@status=0; \
	hack/lint.sh || status=1; \
	echo "go mod tidy"; \
	go mod tidy -diff || status=1; \
	go -C hack/tools mod tidy -diff || status=1; \
	go -C hack/tools/lint mod tidy -diff || status=1; \
	echo "versions of hack/tools"; \
	hack/tools/verify-versions.sh || status=1; \
	echo "generated code"; \
	hack/verify-codegen.sh || status=1; \
	exit $$status

.PHONY: lint
lint: need-go ## gofmt, go vet, staticcheck, and what may import what (.depguard.yaml)
	@hack/lint.sh

.PHONY: vulncheck
vulncheck: need-go ## Look for known vulnerabilities in what we call
	@hack/vulncheck.sh

##@ Else

.PHONY: clean
clean: ## Remove what was built. Debian folders with Ironic stay in ~/.cache/metal3-apiserver
	rm -rf bin

.PHONY: help
help: ## This list
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: need-go
need-go:
	@command -v go >/dev/null || { echo "Go is needed, in the version that go.mod names or newer, and is neither in PATH nor in /usr/local/go: see https://go.dev/doc/install" >&2; exit 1; }
