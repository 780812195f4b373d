// SPDX-License-Identifier: Apache-2.0

// Package contract uses metal3.io/v1alpha1 as the clients of its CRDs do, without
// a change to them: kubectl, client-go, controller-runtime, Cluster API Provider
// Metal3, and the admission policies and webhooks of users. They go through a real
// kube-apiserver; the Ironic is the simulator, which the tests of other packages
// hold to the real one.
//
// The tests whose results can depend on the watch cache run twice: with it, as the server is shipped, and without it.
package contract
