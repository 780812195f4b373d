// Package limit bounds how many hosts are inspected, provisioned and
// deprovisioned at a time, and shares what there is between namespaces.
//
// It knows hosts by their names only. gate.go has the queue of the hosts, counts.go how many are at work, and
// places.go and ironics.go the places of what waits for BMCs.
package limit
