// SPDX-License-Identifier: Apache-2.0

// Package ironicsim is a simulated OpenStack Ironic for tests and demos: one
// process, no database, ten thousand nodes.
//
// It answers as Ironic 29.0 (API 1.96) does, error texts included, and aims
// never to be kinder: locks block and then refuse, 202 says nothing about
// success, failures appear in last_error, and two defects of 29.0 are there
// too (see Options.WithoutDefects). The conformance tests of this package run
// against a real Ironic as well, when IRONICSIM_REFERENCE names one.
//
// A Sim has three doors: the HTTP API of Ironic, Go methods that act behind
// that API's back (SetNode, LoseNode, AddBMC, SetFaults ...), and the same
// methods over HTTP under /_sim/ for the command.
package ironicsim
