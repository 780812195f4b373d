#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes a node of Kubernetes of the folder NODE, in namespaces and cgroups of its own, and runs a control plane on it. The programs
# are in BIN. Its network and its sysctls are its own, and all ends with its first process. Needs root and cgroup v1.
#   node.sh up      becomes the node; ends with it
#   node.sh down    removes the cgroups, when the node has ended
set -euo pipefail

cgroups=/sys/fs/cgroup
hierarchies=(cpu cpuacct cpuset memory devices freezer blkio pids systemd)

# Prints the folder of this process's cgroup in a hierarchy.
cgroup() { awk -F: -v h="$1" -v top="$cgroups/$1" '("," $2 ",") ~ "," h "," || $2 == "name=" h { print top ($3 == "/" ? "" : $3) }' /proc/self/cgroup; }

up() { echo "$cgroups/$1$(sed -n "s/^[0-9]*:\(.*,\)\?\(name=\)\?$1\(,.*\)\?:\(.*\)/\4/p" /proc/self/cgroup | sed 's:^/$::')/$name"; }

up() {
	[ -d $cgroups/memory ] || { echo "node.sh: there is no cgroup v1 at $cgroups" >&2; return 1; }
	local hierarchy folder
	for hierarchy in "${hierarchies[@]}"; do
		folder=$(cgroup $hierarchy)/metal3-node-$$
		mkdir -p "$folder"
		if [ $hierarchy = cpuset ]; then
			cat "$folder/../cpuset.cpus" >"$folder/cpuset.cpus"
			cat "$folder/../cpuset.mems" >"$folder/cpuset.mems"
			echo 1 >"$folder/cgroup.clone_children"
		fi
		echo "$folder"
	done >"$NODE/cgroups"
	while read -r folder; do echo $$ >"$folder/cgroup.procs"; done <"$NODE/cgroups"
	exec unshare --mount --net --pid --uts --ipc --cgroup --fork --kill-child bash "$0" init
}

down() {
	local folder
	while read -r folder; do
		if [ -d "$folder" ]; then find "$folder" -depth -type d -exec rmdir {} +; fi
	done <"$NODE/cgroups"
}

# Is process 1 of the node.
init() {
	mount_all
	network
	control_plane
	: >"$NODE/started"
	trap 'exit 0' TERM
	while :; do
		sleep 5 &
		wait $!
	done
}

mount_all() {
	mount -t proc proc /proc
	mount -t sysfs sysfs /sys
	mount -t tmpfs -o mode=755 tmpfs $cgroups
	local hierarchy options file
	for hierarchy in "${hierarchies[@]}"; do
		options=$hierarchy
		[ $hierarchy != systemd ] || options=none,name=systemd
		mkdir $cgroups/$hierarchy
		mount -t cgroup -o $options cgroup $cgroups/$hierarchy
	done
	mount -t tmpfs -o mode=755 tmpfs /run
	# The kubelet sets these for the whole machine. It gets files instead.
	mkdir /run/sys
	for file in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
		cat "/proc/sys/$file" >"/run/sys/${file//\//.}"
		mount --bind "/run/sys/${file//\//.}" "/proc/sys/$file"
	done
	# What is mounted for a pod's volumes is seen in its containers.
	mkdir -p "$NODE/kubelet"
	mount --bind "$NODE/kubelet" "$NODE/kubelet"
	mount --make-rshared /
	: >/run/resolv.conf
	mount --bind /run/resolv.conf "$(readlink -f /etc/resolv.conf)"
	hostname node1
}

network() {
	ip link set lo up
	ip link add node0 type bridge
	ip address add "$NODE_IP/24" dev node0
	ip link set node0 up
	ip route add default dev node0 # without one, the Service addresses cannot be reached
	sysctl -q -w net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1
}

# start NAME PROGRAM [ARG...]
start() {
	local name=$1
	shift
	"$@" >"$NODE/$name.log" 2>&1 &
}

control_plane() {
	export PATH=$BIN:$BIN/node:/usr/sbin:/usr/bin:/sbin:/bin
	start etcd etcd --data-dir="$NODE/etcd" --unsafe-no-fsync --log-level=warn
	start kube-apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 --secure-port=6443 --advertise-address="$NODE_IP" \
		--tls-cert-file="$NODE/apiserver.crt" --tls-private-key-file="$NODE/apiserver.key" --client-ca-file="$NODE/ca.crt" \
		--authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true \
		--kubelet-client-certificate="$NODE/kubelet-client.crt" --kubelet-client-key="$NODE/kubelet-client.key" \
		--kubelet-preferred-address-types=InternalIP --service-cluster-ip-range=10.96.0.0/16 \
		--service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$NODE/service-accounts.key" \
		--service-account-signing-key-file="$NODE/service-accounts.key" \
		--proxy-client-cert-file="$NODE/front-proxy.crt" --proxy-client-key-file="$NODE/front-proxy.key" \
		--requestheader-client-ca-file="$NODE/front-proxy-ca.crt" --requestheader-allowed-names=front-proxy-client \
		--requestheader-username-headers=X-Remote-User --requestheader-uid-headers=X-Remote-Uid \
		--requestheader-group-headers=X-Remote-Group --requestheader-extra-headers-prefix=X-Remote-Extra-
	start containerd containerd --config "$NODE/containerd.toml"
	until kubectl --kubeconfig="$NODE/admin.kubeconfig" get --raw /readyz >/dev/null 2>&1; do sleep 0.5; done
	start kube-controller-manager kube-controller-manager --kubeconfig="$NODE/kube-controller-manager.kubeconfig" --leader-elect=false \
		--use-service-account-credentials --service-account-private-key-file="$NODE/service-accounts.key" --root-ca-file="$NODE/ca.crt" \
		--cert-dir=/run/kube-controller-manager
	start kube-scheduler kube-scheduler --kubeconfig="$NODE/kube-scheduler.kubeconfig" --leader-elect=false --cert-dir=/run/kube-scheduler
	until ctr --address /run/containerd/containerd.sock version >/dev/null 2>&1; do sleep 0.5; done
	start kubelet kubelet --config="$NODE/kubelet.yaml" --kubeconfig="$NODE/kubelet.kubeconfig" --root-dir="$NODE/kubelet" \
		--cert-dir=/run/kubelet --hostname-override=node1 --node-ip="$NODE_IP"
	start kube-proxy kube-proxy --config="$NODE/kube-proxy.yaml"
}

"$1"
