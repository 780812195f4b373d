// SPDX-License-Identifier: Apache-2.0

// Package firmware serves HostFirmwareSettings and HostFirmwareComponents, which are brought up to
// date with Ironic before they are read.
//
// What brings them up to date is pkg/ironicsync/firmware, which this package knows as an interface.
package firmware
