// SPDX-License-Identifier: Apache-2.0

// Package failure tells from the text of an error what has happened and what helps. The text is that of Ironic, or of what
// Ironic quotes: sushy, ipmitool, the ramdisk, and the libraries of Python under them. No field of Ironic's API has this. The
// package only computes.
//
// A text that is not known has no meaning: no hint is better than a wrong one. Nothing is decided here that is done to a
// machine; the rules for that are in pkg/ironic/quirks.go.
//
// Start reading with Meaning in failure.go; bmc.go, image.go and ramdisk.go have the texts.
package failure
