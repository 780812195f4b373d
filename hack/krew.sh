#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the archives of kubectl bmh for all platforms, and the manifest with which krew installs
# them, in bin/krew or in OUT. The same commit gives the same bytes. VERSION must be a version such as
# v0.1.0, and URL the address of the folder to which the archives will be uploaded:
#   VERSION=v0.1.0 URL=https://example.com/download hack/krew.sh
# To try an archive: kubectl krew install --manifest=bin/krew/bmh.yaml --archive=bin/krew/ARCHIVE
set -euo pipefail
cd "$(dirname "$0")/.."

if ! [[ ${VERSION:-} =~ ^v[0-9]+\.[0-9]+\.[0-9]+ ]]; then
	echo "krew.sh: VERSION must be a version such as v0.1.0, not \"${VERSION:-}\"" >&2
	exit 1
fi
: "${URL:?"krew.sh: URL must be the address of the folder with the archives"}"

. hack/goflags.sh
# hack/release.sh sets these, in a folder that is no checkout.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
commit=${RELEASE_COMMIT:-$(git rev-parse HEAD)}
version=github.com/metal3-io/metal3-apiserver/pkg/version
out=${OUT:-bin/krew}
if [ -e "$out" ] && [ ! -e "$out/bmh.yaml" ] && [ -n "$(ls -A "$out")" ]; then
	echo "krew.sh: $out is there, and has no bmh.yaml: set OUT to another folder" >&2
	exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/release" ./hack/release
rm -rf "$out"
mkdir -p "$out"
cp artifacts/krew/bmh.yaml "$out/bmh.yaml"
sed -i.bak "s|@VERSION@|$VERSION|g; s|@URL@|${URL%/}|g" "$out/bmh.yaml"
for platform in linux_amd64 linux_arm64 darwin_amd64 darwin_arm64 windows_amd64; do
	folder=$work/$platform
	mkdir "$folder"
	program=kubectl-bmh
	[ "${platform%_*}" = windows ] && program=kubectl-bmh.exe
	echo "building $program for $platform" >&2
	CGO_ENABLED=0 GOOS=${platform%_*} GOARCH=${platform#*_} go build \
		-ldflags "-s -w -X $version.Version=$VERSION -X $version.Commit=$commit" -o "$folder/$program" ./cmd/kubectl-bmh
	cp LICENSE cmd/kubectl-bmh/kubectl_complete-bmh "$folder"
	archive=$out/kubectl-bmh_${VERSION}_$platform.tar.gz
	"$work/release" pack "$archive" "$folder"
	sed -i.bak "s|@SHA256_$platform@|$(sha256sum "$archive" | cut -d' ' -f1)|" "$out/bmh.yaml"
done
rm "$out/bmh.yaml.bak"
if grep -n '@[A-Za-z0-9_]*@' "$out/bmh.yaml" >&2; then
	echo "krew.sh: not everything in $out/bmh.yaml was replaced" >&2
	exit 1
fi
ls -l "$out" >&2
