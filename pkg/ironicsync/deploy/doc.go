// SPDX-License-Identifier: Apache-2.0

// Package deploy translates a BareMetalHost into what Ironic has to be told to
// configure and deploy its node. It is pure: it reads no Secret and asks no
// Ironic. It is given what they said, and returns what to send.
//
//	wanted.go        what the host is to run, what it runs, and whether that differs
//	instanceinfo.go  instance_info: the image and how to check it
//	patches.go       what of it differs from what Ironic has
//	rootdevice.go    root device hints and hardware profiles
//	driverinfo.go    driver_info: the ramdisk, boot devices
//	hostimage.go     a ramdisk that was built for one host
//	capabilities.go  properties/capabilities: the boot mode
//	configdrive.go   the config drive, from Secrets
//	networkdata.go   network_data of the ramdisk, from a Secret
//	pullsecret.go    credentials for an OCI registry, from a Secret
package deploy
