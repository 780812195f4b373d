// SPDX-License-Identifier: Apache-2.0

// Package dataimage puts the image of a DataImage into a virtual drive of the host with the same
// name, and takes it out again.
//
// A drive is changed only while the machine is off: just before a provisioned host is switched on
// (BeforePowerOn), or, if the DataImage is being deleted, while the host is off anyway. A running
// operating system may have mounted the image.
//
//	controller.go  owner, finalizer, deletion
//	drive.go       what is in the virtual drive, and what has to be done there
//	record.go      the status and the events
package dataimage
