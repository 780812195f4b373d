// SPDX-License-Identifier: Apache-2.0

// Package ironic serves this server's own group: the Ironics that it uses beside that of its flags, and what is
// in them beside the hosts. Nothing that an Ironic says is stored: it is asked at each request.
//
// It does not import the engine. Start reading in storage.go; candidates.go has the nodes that no host has,
// and instances.go the IronicInstances.
package ironic
