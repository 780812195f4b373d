#!/usr/bin/env bash
# Builds the archives of kubectl bmh for all platforms, and the manifest with which krew installs
# them, in bin/krew. VERSION must be a version such as v0.1.0, and URL the address of the folder to
# which the archives will be uploaded:
#   VERSION=v0.1.0 URL=https://example.com/download hack/krew.sh
# To try an archive: kubectl krew install --manifest=bin/krew/bmh.yaml --archive=bin/krew/ARCHIVE
set -euo pipefail
cd "$(dirname "$0")/.."

if ! [[ ${VERSION:-} =~ ^v[0-9]+\.[0-9]+\.[0-9]+ ]]; then
	echo "krew.sh: VERSION must be a version such as v0.1.0, not \"${VERSION:-}\"" >&2
	exit 1
fi
: "${URL:?"krew.sh: URL must be the address of the folder with the archives"}"

out=bin/krew
rm -rf "$out"
mkdir -p "$out"
cp artifacts/krew/bmh.yaml "$out/bmh.yaml"
sed -i.bak "s|@VERSION@|$VERSION|g; s|@URL@|${URL%/}|g" "$out/bmh.yaml"
for platform in linux_amd64 linux_arm64 darwin_amd64 darwin_arm64 windows_amd64; do
	folder=$(mktemp -d)
	program=kubectl-bmh
	[ "${platform%_*}" = windows ] && program=kubectl-bmh.exe
	echo "building $program for $platform" >&2
	CGO_ENABLED=0 GOOS=${platform%_*} GOARCH=${platform#*_} go build -trimpath -buildvcs=false \
		-ldflags "-s -w -X github.com/metal3-io/metal3-apiserver/pkg/version.Version=$VERSION -X github.com/metal3-io/metal3-apiserver/pkg/version.Commit=$(git rev-parse HEAD)" -o "$folder/$program" ./cmd/kubectl-bmh
	cp LICENSE cmd/kubectl-bmh/kubectl_complete-bmh "$folder"
	archive=$out/kubectl-bmh_${VERSION}_$platform.tar.gz
	tar -C "$folder" -czf "$archive" "$program" kubectl_complete-bmh LICENSE
	rm -rf "$folder"
	sed -i.bak "s|@SHA256_$platform@|$(sha256sum "$archive" | cut -d' ' -f1)|" "$out/bmh.yaml"
done
rm "$out/bmh.yaml.bak"
if grep -n '@[A-Za-z0-9_]*@' "$out/bmh.yaml" >&2; then
	echo "krew.sh: not everything in $out/bmh.yaml was replaced" >&2
	exit 1
fi
ls -l "$out"
