#!/usr/bin/env bash
# Builds metal3-apiserver of an earlier commit of this repository:
#   hack/build-old.sh PROGRAM [COMMIT]
# Without COMMIT, that is the one before RecordEpoch was last changed: the newest version whose
# records have another epoch than those of today.
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")/.."
commit=${2:-}
if [ -z "$commit" ]; then
	changed=$(git log -1 --format=%H -G '^const RecordEpoch = ' -- pkg/apis/metal3/v1alpha1/record_types.go)
	[ -n "$changed" ] || { echo "build-old.sh: no commit here has changed RecordEpoch; is this a shallow clone?" >&2; exit 1; }
	commit=$changed^
fi
source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT
git archive "$commit" | tar -x -C "$source"
echo "building metal3-apiserver of $(git log -1 --format='%h, %s' "$commit") (takes a few minutes the first time)" >&2
. hack/goflags.sh
GOGC=400 go build -C "$source" -o "$program" ./cmd/metal3-apiserver
