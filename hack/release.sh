#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds a release into bin/release/VERSION, or into OUT, without a container engine and without a registry. docs/releases.md
# says what it contains and how it is made:
#   VERSION=v0.1.0 hack/release.sh
# URL is where the archives will be, for krew's manifest. REPOSITORY is the name of the image in the manifests, without a tag.
# With REPRODUCE=1, everything is made twice, in folders, time zones and build caches and with umasks of their own, and compared.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "release.sh: $1" >&2; exit 1; }
[[ ${VERSION:-} =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || fail "VERSION must be a version such as v0.1.0, not \"${VERSION:-}\""
commit=$(git rev-parse HEAD)
[ -z "$(git status --porcelain)" ] || fail "the work tree has changes, which the commit $commit does not have"
tagged=$(git rev-parse -q --verify "refs/tags/$VERSION^{commit}" || echo "$commit")
[ "$tagged" = "$commit" ] || fail "the tag $VERSION is of $tagged, and not of what is checked out, $commit"
grep -qwF "$VERSION" CHANGELOG.md || fail "CHANGELOG.md does not name $VERSION"
out=$(realpath -m "${OUT:-bin/release/$VERSION}")
[ ! -e "$out" ] || [ -e "$out/BUILD" ] || [ -z "$(ls -A "$out")" ] || fail "$out is there, and is no release: set OUT to another folder"

# What is not a part of the release.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "${REPRODUCE:-}" ]; then
	REPRODUCE='' OUT=$out hack/release.sh
	(umask 077 && REPRODUCE='' TZ=Pacific/Kiritimati GOCACHE=$work/cache OUT=$work/again hack/release.sh)
	diff -r "$out" "$work/again" || fail "the second time, not all bytes were the same"
	echo "All bytes were the same the second time."
	exit
fi

# Of the builder's settings, only those by which Go finds modules may count.
for name in GOPROXY GOSUMDB GOPRIVATE GONOPROXY GOINSECURE GOAUTH GOMODCACHE GOCACHE; do
	value=$(go env "$name")
	export "$name=$value"
done
unset GOAMD64 GOARM64 GOEXPERIMENT GOFIPS140 GOFLAGS
export GOENV=off GOWORK=off
. hack/goflags.sh
. hack/toolchain.sh
export VERSION LC_ALL=C RELEASE_COMMIT=$commit
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
export URL=${URL:-https://github.com/metal3-io/metal3-apiserver/releases/download/$VERSION}
repository=${REPOSITORY:-metal3-apiserver}

rm -rf "$out"
mkdir -p "$out" "$work/source"
touch "$out/BUILD" # so that a release that has failed is known as one
# The files of the commit, and no others: git ignores the private keys that make-certs.sh has made in the work tree, and perhaps more.
git archive HEAD | tar -x -C "$work/source"
cd "$work/source"
hack/tools/build.sh kubectl
go build -o "$work/release" ./hack/release

# The server.
version=github.com/metal3-io/metal3-apiserver/pkg/version
for arch in amd64 arm64; do
	echo "building metal3-apiserver for linux/$arch" >&2
	GOGC=400 GOOS=linux GOARCH=$arch go build -ldflags "-s -w -X $version.Version=$VERSION -X $version.Commit=$commit" \
		-o "$out/metal3-apiserver_${VERSION}_linux_$arch" ./cmd/metal3-apiserver
done
digest=$("$work/release" image "$out/metal3-apiserver_${VERSION}_image.tar" "$repository" "$VERSION" "$commit" \
	amd64="$out/metal3-apiserver_${VERSION}_linux_amd64" arm64="$out/metal3-apiserver_${VERSION}_linux_arm64")

# The plugin.
OUT=$work/krew GOGC=400 hack/krew.sh
cp "$work"/krew/* "$out"

# What the programs consist of. Their SBOMs have the names of the programs, with which the plugin's archives begin.
mkdir "$work/programs"
for archive in "$out"/kubectl-bmh_*.tar.gz; do
	program=$(tar -tzf "$archive" | grep -x 'kubectl-bmh\(\.exe\)\?')
	tar -xzOf "$archive" "$program" >"$work/programs/$(basename "$archive" .tar.gz)"
done
cp "$out"/metal3-apiserver_*_linux_* "$work/programs"
"$work/release" sbom "$VERSION" "$work/licenses" "$work"/programs/*
cp "$work"/programs/*.spdx.json "$out"
cp LICENSE "$work/licenses"
"$work/release" pack "$out/metal3-apiserver_${VERSION}_licenses.tar.gz" "$work/licenses"

# The manifests. Of the overlays, those with make-certs.sh are left out: they contain a private key, which each site has to make.
"$work/release" kustomize "$out/metal3-apiserver_${VERSION}_kustomize.tar.gz" artifacts "$digest" apiservice crds gitops monitoring
pinned=artifacts/pinned
mkdir "$pinned"
# Prints a folder of artifacts/apiservice as kustomize renders it, with the image of this release.
render() {
	cat >"$pinned/kustomization.yaml" <<-END
		apiVersion: kustomize.config.k8s.io/v1beta1
		kind: Kustomization
		resources: [../apiservice/$1]
		images: [{name: metal3-apiserver, newName: $repository, digest: "$digest"}]
	END
	bin/kubectl kustomize "$pinned"
}
render . >"$out/install.yaml"
for overlay in embedded-etcd high-availability; do
	render overlays/$overlay >"$out/install-$overlay.yaml"
done
bin/kubectl kustomize artifacts/apiservice >"$work/default.yaml"
"$work/release" chart "$work/chart/metal3-apiserver" "$VERSION" "$repository" "$digest" "$work/default.yaml"
"$work/release" pack "$out/metal3-apiserver-${VERSION#v}.tgz" "$work/chart"
"$work/release" olm "$work/olm" "$VERSION" "$out/install.yaml"
"$work/release" pack "$out/metal3-apiserver_${VERSION}_olm.tar.gz" "$work/olm"

# What the bytes depend on.
cat >"$out/BUILD" <<-END
	version: $VERSION
	commit: $commit
	date: $(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
	go: $(go env GOVERSION)
	image: $repository@$digest
	url: $URL
END

"$work/release" pack "$out/metal3-apiserver_${VERSION}_docs.tar.gz" . README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE docs

# Everything for a site without the internet. The image has the programs.
bundle=$work/bundle/metal3-apiserver_$VERSION
mkdir -p "$bundle"
cp "$out"/* "$bundle"
rm "$bundle"/metal3-apiserver_*_linux_{amd64,arm64}
(cd "$bundle" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
"$work/release" pack "$out/metal3-apiserver_${VERSION}_bundle.tar" "$work/bundle"
(cd "$out" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
ls -l "$out"
