// SPDX-License-Identifier: Apache-2.0

// Package migrate moves a cluster from the CustomResourceDefinitions to our server,
// and back: on a real kube-apiserver with CRDs of all kinds, with the garbage
// collector of a real kube-controller-manager, and a simulated Ironic that has the
// hosts' nodes.
//
// There is one APIService of the group in a cluster, so the tests run one after the
// other, and each leaves the group to the CRDs.
package migrate
