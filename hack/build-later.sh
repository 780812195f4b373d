#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds metal3-apiserver as a later version would be, for TestUpgrade and the tutorial upgrade.md: records have the next epoch, and one
# more field. It says that it is v0.2.0.
#   hack/build-later.sh PROGRAM
# The work tree is not changed: the compiler reads the two changed files from an overlay.
set -euo pipefail
program=$(realpath -m "$1")
cd "$(dirname "$0")/.."
changed=$(mktemp -d)
trap 'rm -rf "$changed"' EXIT

# Writes a file of the overlay, and fails if nothing in it has changed.
change() {
	sed -E "$2" "$1" >"$changed/$(basename "$1")"
	! cmp -s "$1" "$changed/$(basename "$1")" || { echo "build-later.sh: $1 has no line for \"$2\"" >&2; exit 1; }
	overlay+=${overlay:+,}"\"$PWD/$1\": \"$changed/$(basename "$1")\""
}
overlay=''
change pkg/apis/metal3/v1alpha1/record_types.go \
	's/^const RecordEpoch = .*/&+1/; s/^type HostRecord struct \{/&\n\t\/\/ Future is what only the later version knows.\n\tFuture string `json:"future,omitempty"`\n/'
change pkg/ironicsync/lifecycle/conditions.go 's/^\trecord.Epoch = metal3.RecordEpoch$/&\n\trecord.Future = "known"/'
echo "{\"Replace\": {$overlay}}" >"$changed/overlay.json"
. hack/goflags.sh
GOGC=400 go build -overlay "$changed/overlay.json" -ldflags '-s -w -X github.com/metal3-io/metal3-apiserver/pkg/version.Version=v0.2.0' -o "$program" ./cmd/metal3-apiserver
