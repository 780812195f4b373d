// SPDX-License-Identifier: Apache-2.0

// Package migrate moves the objects of metal3.io/v1alpha1 from a cluster's
// CustomResourceDefinitions into the storage of metal3-apiserver, and back.
//
// Import checks the cluster, copies the objects and compares them. With Switch, it also
// points the APIService to metal3-apiserver and sets served: false in the CRDs. Export is
// the way back. Both begin by finding out what an earlier run has already done, so that
// they can be run again after being killed at any point.
//
// The following keeps objects from being lost during a migration:
//
//   - The garbage collector deletes an object whose owner does not exist or has another
//     UID. For that reason, imported objects keep their UIDs, and whenever kube-apiserver
//     stops routing the group to one server and routes it to the other, both servers have
//     all objects.
//   - The leader of metal3-apiserver acts on hosts, and must not do so while only some of
//     them have been copied. Its Lease is therefore held for as long as a migration is in
//     progress (lease.go), and the operator must be stopped.
//   - Once the APIService points to metal3-apiserver, clients can no longer reach the
//     custom resources. This package can, through an additional version that the CRDs
//     serve during the migration (crds.go).
package migrate
