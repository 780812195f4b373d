// SPDX-License-Identifier: Apache-2.0

// Command kubectl-bmh is a plugin of kubectl for BareMetalHosts: kubectl bmh. It is a client of
// the API like any other.
//
// Start reading in the package app.
package main
