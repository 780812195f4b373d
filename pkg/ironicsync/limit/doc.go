// SPDX-License-Identifier: Apache-2.0

// Package limit bounds how many hosts are inspected, provisioned and
// deprovisioned at a time, and shares what there is between namespaces.
//
// A semaphore or a rate limiter does not do that: what others have started counts, too, whose turn it is depends on
// that, and no goroutine waits for it. The fair queues of k8s.io/apiserver hold requests, which wait in goroutines.
//
// It knows hosts by their names only. gate.go has the queue of the hosts, counts.go how many are at work, and
// places.go and ironics.go the places of what waits for BMCs.
package limit
