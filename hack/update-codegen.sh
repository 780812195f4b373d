#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Generates the zz_generated files of pkg/apis and everything in pkg/generated. The
# generators are tools in go.mod, so their versions and hashes are pinned like those of
# the libraries. (kube_codegen.sh of k8s.io/code-generator runs the same generators, but
# installs them according to the go.sum of its own module.)
set -euo pipefail
cd "$(dirname "$0")/.."

module=$(go list -m)
types=$module/pkg/apis/metal3/v1alpha1
# These are few, and for administrators: clients use the dynamic client.
ironic_types=$module/pkg/apis/ironic/v1alpha1
# Kinds whose plural is the same as their singular.
plurals=HardwareData:HardwareData,HostFirmwareComponents:HostFirmwareComponents,HostFirmwareSettings:HostFirmwareSettings

# generate TOOL [FLAG...] PACKAGE...
generate() {
	echo "$1"
	go tool "$1" --go-header-file hack/boilerplate.go.txt "${@:2}"
}

# Remove files that are no longer generated.
find pkg/apis -name 'zz_generated.*.go' -delete
rm -rf pkg/generated

generate deepcopy-gen --output-file zz_generated.deepcopy.go "$types" "$ironic_types"
generate defaulter-gen --output-file zz_generated.defaults.go "$types"

# The types of this API use types of apimachinery, which are in the read-only module cache.
libraries=(
	k8s.io/apimachinery/pkg/api/resource
	k8s.io/apimachinery/pkg/apis/meta/v1
	k8s.io/apimachinery/pkg/runtime
	k8s.io/apimachinery/pkg/util/intstr
	k8s.io/apimachinery/pkg/version
)
generate openapi-gen \
	--output-file zz_generated.openapi.go \
	--output-dir pkg/generated/openapi \
	--output-pkg "$module/pkg/generated/openapi" \
	--output-model-name-file zz_generated.model_name.go \
	--report-filename hack/api-violations.list \
	"${libraries[@]/#/--readonly-pkg=}" "${libraries[@]}" "$types" "$ironic_types"

generate client-gen \
	--output-dir pkg/generated/clientset \
	--output-pkg "$module/pkg/generated/clientset" \
	--clientset-name versioned \
	--input-base "" \
	--input "$types" \
	--plural-exceptions "$plurals"
generate lister-gen \
	--output-dir pkg/generated/listers \
	--output-pkg "$module/pkg/generated/listers" \
	--plural-exceptions "$plurals" \
	"$types"
generate informer-gen \
	--output-dir pkg/generated/informers \
	--output-pkg "$module/pkg/generated/informers" \
	--versioned-clientset-package "$module/pkg/generated/clientset/versioned" \
	--listers-package "$module/pkg/generated/listers" \
	--plural-exceptions "$plurals" \
	"$types"
