#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the other programs that the tests and the demo run, into bin/:
#   hack/tools/build.sh etcd kube-apiserver kubectl kube-controller-manager cert-manager clusterctl gitops helm krew olm node
# Without names, it builds all but clusterctl, gitops, helm, krew, olm and node, which few tests need. krew is
# kubectl-krew (bin/krew has the archives of hack/krew.sh) and validate-krew-manifest. node
# is all that makes a machine a node: kubelet, kube-proxy and kube-scheduler, and in bin/node
# containerd and what it runs. build.sh skips programs that are already there in the right version. The first time, this takes
# a few minutes and needs the network; later, Go's build cache makes a rebuild a matter
# of seconds. With cert-manager come its CustomResourceDefinitions, in
# bin/cert-manager-crds, and with clusterctl those of Cluster and Machine, in
# bin/clusterctl-crds.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bin=${BIN_DIR:-$here/../../bin}
mkdir -p "$bin"
bin=$(cd "$bin" && pwd)
cd "$here"
. ../goflags.sh

# Prints the version that a go.mod requires, such as v1.37.1. It does not use `go list`, which would need the network.
version_of() { awk -v module="$1" '$1 == "require" { $0 = $2 " " $3 } $1 == module && $2 ~ /^v/ { print $2; exit }' "$2"; }

# Puts what is to be known of a program into pkg, folder (of its go.mod), module and version.
describe() {
	folder=.
	case $1 in
	etcd) pkg=go.etcd.io/etcd/server/v3 module=$pkg ;;
	kube-apiserver | kube-controller-manager | kubectl | kubelet | kube-proxy | kube-scheduler) pkg=k8s.io/kubernetes/cmd/$1 module=k8s.io/kubernetes ;;
	cert-manager) pkg=. folder=cert-manager module=github.com/cert-manager/cert-manager ;;
	gitops) pkg=. folder=gitops module=github.com/fluxcd/pkg/runtime ;;
	helm) pkg=helm.sh/helm/v4/cmd/helm folder=helm module=helm.sh/helm/v4 ;;
	kubectl-krew) pkg=sigs.k8s.io/krew/cmd/krew folder=krew module=sigs.k8s.io/krew ;;
	validate-krew-manifest) pkg=sigs.k8s.io/krew/cmd/$1 folder=krew module=sigs.k8s.io/krew ;;
	olm) pkg=. folder=olm module=github.com/operator-framework/api ;;
	clusterctl) pkg=sigs.k8s.io/cluster-api/cmd/clusterctl folder=clusterctl module=sigs.k8s.io/cluster-api ;;
	*)
		echo "build.sh: unknown program \"$1\"; it must be etcd, kube-apiserver, kube-controller-manager, kubectl, cert-manager, clusterctl, gitops, helm, krew, olm or node" >&2
		return 2
		;;
	esac
	version=$(version_of "$module" "$folder/go.mod")
	[ -n "$version" ] || { echo "build.sh: no version of $module in $here/$folder/go.mod" >&2; return 1; }
	if [ "$pkg" = . ]; then
		version+=-$(cat "$folder/main.go" "$folder/go.mod" | sha256sum | cut -c 1-12) # its main.go is ours
	fi
}

# Builds those of the programs that are missing, all of one go.mod. Go then links one of them while it compiles
# the others.
build() {
	local name pkg folder module version new=() pkgs=() versions=() kubernetes='' started=$SECONDS i
	for name; do
		describe "$name"
		if [ ! -x "$bin/$name" ] || [ "$(cat "$bin/.$name.version" 2>/dev/null)" != "$version" ]; then
			new+=("$name") pkgs+=("$pkg") versions+=("$version")
		fi
		if [ "$module" = k8s.io/kubernetes ]; then
			# kube-apiserver derives its emulation version from gitVersion, and would not start without it.
			local v minor=${version#v1.}
			kubernetes='-s -w'
			for v in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
				kubernetes+=" -X $v.gitVersion=$version -X $v.gitMajor=1 -X $v.gitMinor=${minor%%.*} -X $v.gitTreeState=clean"
			done
		fi
	done
	[ ${#new[@]} -gt 0 ] || return 0
	echo "building ${new[*]} into $bin (takes a few minutes the first time)" >&2
	rm -rf "$bin/.new"
	GOGC=400 go build -C "$folder" -v -ldflags '-s -w' -ldflags "k8s.io/kubernetes/cmd/...=$kubernetes" \
		-o "$bin/.new/" "${pkgs[@]}" 2>&1 | ../progress.sh "${new[*]}"
	if [ -e "$bin/.new/server" ]; then mv "$bin/.new/server" "$bin/.new/etcd"; fi
	if [ -e "$bin/.new/krew" ]; then mv "$bin/.new/krew" "$bin/.new/kubectl-krew"; fi
	for i in "${!new[@]}"; do
		case ${new[i]} in
		cert-manager) sed -s '$a ---' "$(go list -C "$folder" -m -f '{{.Dir}}' "$module")"/deploy/crds/*.yaml >"$bin/cert-manager-crds" ;;
		clusterctl) sed -s '$a ---' "$(go list -C "$folder" -m -f '{{.Dir}}' "$module")"/core/config/crd/bases/cluster.x-k8s.io_{clusters,machines}.yaml >"$bin/clusterctl-crds" ;;
		esac
		mv "$bin/.new/${new[i]}" "$bin/${new[i]}"
		echo "${versions[i]}" >"$bin/.${new[i]}.version"
	done
	rm -r "$bin/.new"
	echo "built ${new[*]} in $((SECONDS - started)) s" >&2
}

# Builds what is below containerd into bin/node. Its programs have a go.mod of their own, which tells the version of all.
build_node() {
	local version
	version=$(cat node/go.mod node/runc/go.mod node/pause/main.go | sha256sum | cut -c 1-12)
	if [ "$(cat "$bin/.node.version" 2>/dev/null)" = "$version" ]; then return; fi
	echo "building containerd and runc into $bin/node (takes a few minutes the first time)" >&2
	rm -rf "$bin/node"
	mkdir -p "$bin/node"
	GOGC=400 go build -C node -v -ldflags '-s -w' -o "$bin/node/" tool ./pause 2>&1 | ../progress.sh "containerd"
	# runc needs libseccomp, without which it starts no pod with a seccomp profile.
	CGO_ENABLED=1 GOGC=400 go build -C node/runc -ldflags '-s -w -extldflags -static' -tags 'seccomp netgo osusergo' -o "$bin/node/" github.com/opencontainers/runc
	echo "$version" >"$bin/.node.version"
}

[ $# -gt 0 ] || set -- etcd kube-apiserver kubectl kube-controller-manager cert-manager
together=()
for name; do
	case $name in
	cert-manager | clusterctl | gitops | helm | olm) build "$name" ;;
	krew) build kubectl-krew validate-krew-manifest ;;
	node)
		build_node
		together+=(kubelet kube-proxy kube-scheduler)
		;;
	*) together+=("$name") ;;
	esac
done
build "${together[@]}"
