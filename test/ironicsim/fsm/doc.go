// SPDX-License-Identifier: Apache-2.0

// Package fsm is the state machine of an OpenStack Ironic: its states, which
// verb is allowed where, and what each transition does to a node, its lock and
// its last error included. It has no clock, no goroutine, no BMC and no HTTP:
// the simulator (package ironicsim) adds these, and the planner's tests play
// with it move by move.
//
// Its table is compared with those of three releases, recorded from Ironic; what
// a move does is checked on a real Ironic, through the conformance tests of the
// simulator.
package fsm
