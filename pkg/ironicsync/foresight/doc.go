// SPDX-License-Identifier: Apache-2.0

// Package foresight says of hosts that another operator manages until now what this server will refuse, hold, or do first, and of
// hosts of this server what the Bare Metal Operator would do to machines that this server leaves alone.
//
// The migration shows it before the switch, and before the way back. It goes by the rules of lifecycle, and does nothing. Start
// reading with Checks and UnderOperator.
package foresight
