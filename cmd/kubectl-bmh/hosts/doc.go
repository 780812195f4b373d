// SPDX-License-Identifier: Apache-2.0

// Package hosts puts the state of a BareMetalHost into a few words for people. It only
// computes: it reads no clock and asks nobody.
//
// Start reading with State in state.go; target.go has what a user can wait for.
package hosts
