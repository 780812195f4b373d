// SPDX-License-Identifier: Apache-2.0

// Package hostclaim gives HostClaims the hosts that they ask for, and passes on to the hosts what the
// claims want of them: what to run, power and reboots. A tenant who may write claims uses machines in this way
// without any permission on hosts.
//
// A host belongs to the claim that its consumerRef names. That is set with a compare-and-swap on the
// version of the host that was found to be free, so a host is never given to two claims, or to a claim
// and to Cluster API Provider Metal3. Before that, the choice is recorded in the status of the claim, in
// the same way, so a claim never gets two hosts, also when a leader is replaced without knowing it.
//
//	choose.go      which host a claim gets (pure)
//	allocator.go   which hosts are free, which claims wait, and whose turn it is
//	controller.go  what is done for a claim
//	bind.go        from the choice of a host to its consumerRef
//	apply.go       what a claim wants of its host (pure)
//	hardware.go    the HardwareData of a claim
//	copies.go      the Secrets of a claim in the namespace of its host
//	retries.go     when they are copied again that could not be
//	release.go     how a host is given back
//	status.go      what a claim shows of its host (pure)
package hostclaim
