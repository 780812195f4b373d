// SPDX-License-Identifier: Apache-2.0

// Package life takes hosts through their lives on a real Ironic: kubectl's API,
// kube-apiserver, our server, Ironic from the packages of a Debian release, and
// simulated machines with Redfish BMCs whose ramdisks call Ironic back.
//
// IRONIC says which release: trixie, bookworm or sid. Without it, or with sim, the
// tests are left out.
package life
