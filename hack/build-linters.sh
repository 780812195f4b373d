#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the linters and gotestsum, in the versions of hack/tools/lint/go.mod,
# into bin/lint/.
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/goflags.sh
GOGC=400 go build -C hack/tools/lint -v -ldflags '-s -w' -o "$PWD/bin/lint/" . tool 2>&1 | hack/progress.sh linters
