// SPDX-License-Identifier: Apache-2.0

// Package e2e uses the whole thing as a user would: kubectl and client-go, a real
// kube-apiserver with the aggregation layer and RBAC, our server as the service
// account that the manifests name, etcd, and an Ironic.
//
// The Ironic is the simulator, or, with IRONIC=bookworm, trixie or sid, a real one
// from the packages of that Debian release. The tests are the same, but for those
// that need what only the simulator has. Its machines have IPMI BMCs and boot nothing:
// the life of a host whose machine boots is in test/life.
package e2e
