// SPDX-License-Identifier: Apache-2.0

// Package hostnetwork records in Ironic how the switch ports of hosts are to be configured: those of
// spec.networkInterfaces, as their HostNetworkAttachments say. Ironic's networking service, part of Ironic
// since 34.0, then configures the switches, for nodes with the network interface ironic-networking.
//
//	controller.go  the ports of a host's node, and the condition of the host
//	switchport.go  the configuration of a port in Ironic (pure)
package hostnetwork
