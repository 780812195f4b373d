#!/usr/bin/env bash

# Generates the zz_generated files of pkg/apis and everything in pkg/generated.

set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

MODULE=$(go list -m)
BOILERPLATE=$PWD/hack/boilerplate.go.txt

# The generators are of the same release as the libraries. They are built from
# their own module, so go.mod does not need them.
VERSION=$(go list -m -f '{{.Version}}' k8s.io/apiserver)
CODEGEN=$(go mod download -json "k8s.io/code-generator@$VERSION" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",$/\1/p')

# kube_codegen.sh installs the generators into GOBIN. They are kept between
# runs, apart from the user's own programs.
export GOBIN=${CODEGEN_BIN:-$PWD/bin/codegen}
mkdir -p "$GOBIN"
# shellcheck disable=SC1091
source "$CODEGEN/kube_codegen.sh"

kube::codegen::gen_helpers --boilerplate "$BOILERPLATE" pkg/apis

kube::codegen::gen_openapi \
  --boilerplate "$BOILERPLATE" \
  --extra-pkgs k8s.io/apimachinery/pkg/util/intstr \
  --output-dir pkg/generated/openapi \
  --output-pkg "$MODULE/pkg/generated/openapi" \
  --output-model-name-file zz_generated.model_name.go \
  --report-filename hack/api-violations.list \
  --update-report \
  pkg/apis

# Kinds whose plural is the singular.
PLURALS=HardwareData:HardwareData,HostFirmwareComponents:HostFirmwareComponents,HostFirmwareSettings:HostFirmwareSettings

kube::codegen::gen_client \
  --boilerplate "$BOILERPLATE" \
  --plural-exceptions "$PLURALS" \
  --with-watch \
  --output-dir pkg/generated \
  --output-pkg "$MODULE/pkg/generated" \
  pkg/apis
