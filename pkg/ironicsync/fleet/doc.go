// SPDX-License-Identifier: Apache-2.0

// Package fleet knows the Ironics behind this server: that of the server's flags, which has no name, and those of
// the IronicInstances. Whoever asks Ironic about a host asks it for the host's own.
//
//	fleet.go      follows the IronicInstances
//	known.go      which Ironics there are: all that others ask
//	connect.go    the client for an IronicInstance
//	object.go     Ironic objects of the Ironic Standalone Operator, which an IronicInstance can name
//	selection.go  in which Ironic a host is to be registered
//	reads.go      reads of hosts, each from its own Ironic
//
// A host whose node is in an Ironic stays there (HostRecord.Ironic), whatever selectors say later: another Ironic would say
// that it has no such node, and the machine would be registered, and perhaps cleaned, a second time.
package fleet
