// SPDX-License-Identifier: Apache-2.0

// Package networkswitch writes how Ironic's networking service reaches the BareMetalSwitches of a
// namespace into two Secrets of that namespace, which are mounted into the service: the
// configuration, and the private keys of the switches that have one. Ironic itself is not asked
// for anything.
//
//	controller.go  the switches of a namespace, and their conditions
//	render.go      the configuration (pure)
package networkswitch
