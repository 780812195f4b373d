// SPDX-License-Identifier: Apache-2.0

// Package console opens serial consoles of nodes, which Ironic serves at a TCP port, and shares
// them among users.
//
// Ironic serves one connection to a console at a time, without a password. So a console is enabled
// only while somebody uses it, and by one replica of the server only, which holds the claim of the
// node (see Claims).
package console
