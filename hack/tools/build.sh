#!/usr/bin/env bash
# Builds the other programs that the tests and the demo run, into bin/:
#   hack/tools/build.sh etcd kube-apiserver kubectl kube-controller-manager cert-manager
# Without names, it builds all five. It skips programs that are already there in the
# right version. The first time, this takes a few minutes and needs the network; later,
# Go's build cache makes a rebuild a matter of seconds. With cert-manager come its
# CustomResourceDefinitions, in bin/cert-manager-crds.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bin=${BIN_DIR:-$here/../../bin}
mkdir -p "$bin"
bin=$(cd "$bin" && pwd)
cd "$here"

# Prints the version that a go.mod requires, such as v1.37.1. It does not use `go list`, which would need the network.
version_of() { awk -v module="$1" '$1 == "require" { $0 = $2 " " $3 } $1 == module && $2 ~ /^v/ { print $2; exit }' "$2"; }

build() {
	local name=$1 folder=. pkg module version ldflags='-s -w'
	case $name in
	etcd)
		pkg=go.etcd.io/etcd/server/v3 module=$pkg
		;;
	kube-apiserver | kube-controller-manager | kubectl)
		pkg=k8s.io/kubernetes/cmd/$name module=k8s.io/kubernetes
		;;
	cert-manager)
		folder=cert-manager pkg=. module=github.com/cert-manager/cert-manager
		;;
	*)
		echo "build.sh: unknown program \"$name\"; it must be etcd, kube-apiserver, kube-controller-manager, kubectl or cert-manager" >&2
		return 2
		;;
	esac
	version=$(version_of "$module" "$folder/go.mod")
	[ -n "$version" ] || { echo "build.sh: no version of $module in $here/$folder/go.mod" >&2; return 1; }
	if [ "$name" = cert-manager ]; then
		version+=-$(cat cert-manager/main.go cert-manager/go.mod | sha256sum | cut -c 1-12) # its main.go is ours
	fi
	if [ -x "$bin/$name" ] && [ "$(cat "$bin/.$name.version" 2>/dev/null)" = "$version" ]; then
		return 0
	fi
	if [ "$module" = k8s.io/kubernetes ]; then
		# kube-apiserver derives its emulation version from gitVersion, and would not start without it.
		local v minor=${version#v1.}
		for v in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
			ldflags+=" -X $v.gitVersion=$version -X $v.gitMajor=1 -X $v.gitMinor=${minor%%.*} -X $v.gitTreeState=clean"
		done
	fi
	echo "building $name $version into $bin (takes a few minutes the first time)" >&2
	local started=$SECONDS
	CGO_ENABLED=0 go build -C "$folder" -v -trimpath -buildvcs=false -ldflags "$ldflags" -o "$bin/.$name.new" "$pkg" 2>&1 | ../progress.sh "$name"
	if [ "$name" = cert-manager ]; then
		sed -s '$a ---' "$(go list -C "$folder" -m -f '{{.Dir}}' "$module")"/deploy/crds/*.yaml >"$bin/cert-manager-crds"
	fi
	mv "$bin/.$name.new" "$bin/$name"
	echo "$version" >"$bin/.$name.version"
	echo "built $name $version in $((SECONDS - started)) s" >&2
}

[ $# -gt 0 ] || set -- etcd kube-apiserver kubectl kube-controller-manager cert-manager
for name; do
	build "$name"
done
