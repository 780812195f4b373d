#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Plants faults in the code, one at a time, and reports which of them the unit tests notice:
#   hack/faults.sh [--nearby] [ID...]
#   hack/faults.sh --check
#   hack/faults.sh --build ID FILE
# The faults are in hack/faults/faults.txt. Without IDs, those run that have no result in
# .cache/faults yet, so that an interrupted run can be continued; remove the directory to run all
# of them again. With --nearby, only the quick tests of the changed package run; what they miss is
# tried with all others when it is called again without. With --check, as in lint, it only tells which faults
# do not fit the code any more. With --build, it builds metal3-apiserver with a fault, for example for
# make robustness, which is to find it. The working tree is not changed: go test reads the faults from an
# overlay.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/local/go/bin
. hack/goflags.sh
exec go run ./hack/faults "$@"
