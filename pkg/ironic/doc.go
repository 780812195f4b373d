// SPDX-License-Identifier: Apache-2.0

// Package ironic has the types of OpenStack Ironic's API: nodes, their states, what
// is sent to change them, and the errors that Ironic answers with. It has no client,
// so that what only computes need not know one: that is in pkg/ironic/client.
//
// It imports nothing of the API of hosts. What one release of Ironic does differently is in quirks.go
// (defects) and features.go (what came when); fence.go has what a changing request must carry.
package ironic
