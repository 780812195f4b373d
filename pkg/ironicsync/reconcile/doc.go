// SPDX-License-Identifier: Apache-2.0

// Package reconcile is the leader's work: it makes Ironic follow the specs of hosts, and
// makes changes in Ironic visible to those who watch hosts.
//
// It puts the packages below it together: the planner asks lifecycle what to do, and the executor does it.
// Start reading with advance in advance.go, which takes one host from step to step; driver.go is the loop for
// one Ironic, queue.go and gates.go say whose turn it is, backoff.go when to try again, and situation.go
// collects what a plan depends on.
package reconcile
