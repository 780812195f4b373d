// SPDX-License-Identifier: Apache-2.0

// Package kinds is what the small controllers of the kinds other than BareMetalHost share: an
// informer, a queue with a back-off, places for each Ironic, metrics. Each kind has a package of its own that
// supplies the function to reconcile one object. They run on the leader only.
//
// Start reading in controller.go; proven.go has what must be known of a node before one of them uses it.
package kinds
