// SPDX-License-Identifier: Apache-2.0

// Package foresight says of hosts that another operator manages until now what this server will refuse, hold, or do first.
//
// The migration shows it before the switch. It goes by the rules of lifecycle, and does nothing. Start
// reading with Checks.
package foresight
