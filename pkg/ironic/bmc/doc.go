// SPDX-License-Identifier: Apache-2.0

// Package bmc understands BMC addresses: which Ironic driver an address asks
// for, what that driver can do, and the driver_info that it needs. It also knows
// what of a text keeps it from being sent to a BMC.
//
// It imports nothing of this project. Start reading with Parse; key.go says when two addresses mean one BMC.
package bmc
