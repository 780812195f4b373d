// SPDX-License-Identifier: Apache-2.0

// Package firmware keeps the HostFirmwareSettings of hosts with their FirmwareSchemas, and their
// HostFirmwareComponents, up to date with Ironic. What is to be done about them is computed by the package
// settings.
//
//	keeper.go      the objects of a kind, of which each host has one of its name
//	bios.go        what is particular to HostFirmwareSettings
//	components.go  what is particular to HostFirmwareComponents
//	lists.go       Ironic's lists
//	read.go        objects that are about to be read
//	preview.go     what a change would do to the machine
//	watch.go       what the leader needs to know of a host
//	policy.go      what may be changed while a host runs something
package firmware
