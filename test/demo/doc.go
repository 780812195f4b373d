// SPDX-License-Identifier: Apache-2.0

// Command demo, which `make demo` runs, demonstrates metal3-apiserver on one machine. It starts a
// kube-apiserver, metal3-apiserver with its embedded etcd behind an APIService, an Ironic, and hosts
// to try out. It runs until Ctrl-C and leaves nothing behind.
//
//	IRONIC=sim              a simulated Ironic, which is the default
//	IRONIC=debian           a real Ironic of Debian trixie; needs root on Debian or Ubuntu
//	IRONIC=bookworm|sid     the Ironic of another release
//	IRONIC_ENDPOINT=URL     your own Ironic
//	HOSTS=50                so many hosts in racks, with the simulated Ironic, and a tenant (docs/talk.md)
//
// Arguments are passed to metal3-apiserver, for example flags with the credentials for your own
// Ironic.
package main
