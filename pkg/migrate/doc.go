// Package migrate moves the objects of metal3.io/v1alpha1 from a cluster's
// CustomResourceDefinitions into our server's storage, and back.
//
// Import is check, copy, compare; with Switch also the APIService, and then
// served: false in the CRDs. Export is the way back. Each begins with looking at how
// far the cluster is, so that it can be run again after it was killed anywhere.
//
// What keeps objects from being lost on the way:
//
//   - The garbage collector deletes an object whose owner is not found, or has another
//     UID. So imported objects keep their UIDs, and whenever kube-apiserver hands the
//     group from one server to the other, both have all of them.
//   - Our leader drives hosts. It must not see half of them, so its Lease is held for
//     as long as a migration is under way (lease.go); the operator must be stopped.
//   - Clients cannot reach the custom resources any more once the APIService is ours.
//     We can, through a version of its own that the CRDs get for the time (version.go).
package migrate
