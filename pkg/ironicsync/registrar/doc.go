// SPDX-License-Identifier: Apache-2.0

// Package registrar gives each host its node in Ironic: it finds or creates the node, tells Ironic how to
// reach the BMC and which MAC addresses the machine has, and decides which host may have a node or a BMC.
//
// What it knows of other hosts and nodes it gathers in claims.go; the decision is ClaimOf in lifecycle. It
// may not import executor, which uses it. Start reading with Register in register.go, then find.go and
// create.go.
package registrar
