// SPDX-License-Identifier: Apache-2.0

package history

import "github.com/metal3-io/metal3-apiserver/test/ironicsim"

// Time is nanoseconds since the beginning of a run.
type Time int64

// Never is the end of what has not ended within the run.
const Never Time = 1<<63 - 1

// Entry is one line of a record. Exactly one of its fields is set.
type Entry struct {
	Operation *Operation  `json:"operation,omitempty"`
	Watch     *WatchEvent `json:"watch,omitempty"`
	Stored    *Stored     `json:"stored,omitempty"`
	Node      *Node       `json:"node,omitempty"`
	Request   *Request    `json:"request,omitempty"`
	Machine   *Machine    `json:"machine,omitempty"`
	Lease     *Lease      `json:"lease,omitempty"`
	Fault     *Fault      `json:"fault,omitempty"`
	Final     *Final      `json:"final,omitempty"`
}

// Outcome reports what a client knows of its request when it has ended.
type Outcome string

const (
	// OK is an answer that says that the request was carried out.
	OK Outcome = "ok"
	// Refused is an answer that says that the request was not and will not be carried out.
	Refused Outcome = "refused"
	// Unknown is anything else: no answer, or one that leaves it open.
	Unknown Outcome = "unknown"
)

// The verbs of an Operation.
const (
	Create  = "create"
	Get     = "get"
	List    = "list"
	Update  = "update" // with the resourceVersion of an earlier read
	Patch   = "patch"  // without a resourceVersion
	Delete  = "delete"
	Power   = "power"   // the action
	Inspect = "inspect" // the action
)

// Operation is a request of a client.
type Operation struct {
	Client int    `json:"client"`
	Server string `json:"server"`
	Verb   string `json:"verb"`
	// Name is that of the host; empty for a list.
	Name  string `json:"name,omitempty"`
	Start Time   `json:"start"`
	End   Time   `json:"end"`
	// Write is what create, update and patch make of the host.
	Write *Write `json:"write,omitempty"`
	// Base is the Token of the version that an update is based on.
	Base string `json:"base,omitempty"`
	// Version is the resourceVersion that a read has asked for, and Limit the size of its pages.
	Version *string `json:"version,omitempty"`
	Limit   int64   `json:"limit,omitempty"`

	Outcome Outcome `json:"outcome"`
	// Reason and Message are those of a Status; Message is also any other error.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Warned is set if the answer had a warning.
	Warned bool `json:"warned,omitempty"`
	// ListVersion is the resourceVersion of a list.
	ListVersion int64 `json:"listVersion,omitempty"`
	// Hosts are what the answer shows.
	Hosts []Host `json:"hosts,omitempty"`
}

// Write is the part of a spec that clients change.
type Write struct {
	// Token is different for each write.
	Token string `json:"token"`
	// TokenOnly is set if nothing else is written.
	TokenOnly bool   `json:"tokenOnly,omitempty"`
	Online    bool   `json:"online"`
	Image     string `json:"image,omitempty"`
	// Reboot asks for a reboot by the annotation.
	Reboot bool `json:"reboot,omitempty"`
}

// Host is a host as it was shown to a client, or stored.
type Host struct {
	Name     string `json:"name"`
	UID      string `json:"uid"`
	Version  int64  `json:"version"`
	Deleting bool   `json:"deleting,omitempty"`
	// Write is what the spec says.
	Write Write `json:"write"`
	// Hash is that of all of its content.
	Hash string `json:"hash"`
	// BMC is the address in the spec.
	BMC string `json:"bmc"`
	// State, Image and Trouble are status.provisioning.state, the image there, and errorMessage.
	State   string `json:"state,omitempty"`
	Image   string `json:"image,omitempty"`
	Trouble string `json:"trouble,omitempty"`
	// ID is status.provisioning.ID, and Node what status.ironic says; nil if it is absent or conceals the node.
	ID   string                 `json:"id,omitempty"`
	Node *ironicsim.NodeVersion `json:"node,omitempty"`
	// Concealed is set if status.ironic conceals the node.
	Concealed bool `json:"concealed,omitempty"`
}

// The types of a WatchEvent beside those of Kubernetes.
const (
	// Started begins a stream. Its Host.Version is the resourceVersion from which it was asked for.
	Started = "STARTED"
	// Ended ends a stream.
	Ended = "ENDED"
)

// WatchEvent is something that a watch has shown.
type WatchEvent struct {
	// Stream is different for each request.
	Stream int    `json:"stream"`
	Server string `json:"server"`
	At     Time   `json:"at"`
	Type   string `json:"type"`
	Host   Host   `json:"host"`
}

// Stored is a version of a host in etcd's own history.
type Stored struct {
	At       Time   `json:"at"`
	Revision int64  `json:"revision"`
	Name     string `json:"name"`
	// Created is set if there was no such key before, Deleted if there is none since.
	Created bool `json:"created,omitempty"`
	Deleted bool `json:"deleted,omitempty"`
	// Token is the one in the stored object; that of the last one if it was deleted.
	Token string `json:"token"`
}

// Node is a version of a node in Ironic, from At on.
type Node struct {
	At Time `json:"at"`
	ironicsim.NodeVersion
}

// Request is a request that Ironic has executed.
type Request struct {
	// Arrived is when Ironic had it, Start and End when it was executed.
	Arrived Time `json:"arrived"`
	Start   Time `json:"start"`
	End     Time `json:"end"`
	// Server is the replica that has sent it; empty if nobody knows.
	Server string `json:"server"`
	ironicsim.RequestEnd
}

// Machine is something that was done to a machine.
type Machine struct {
	At Time `json:"at"`
	ironicsim.MachineTouch
}

// Lease is a version of the Lease, as kube-apiserver has shown it.
type Lease struct {
	At Time `json:"at"`
	// Server is the replica that holds it; empty if none does.
	Server      string `json:"server"`
	Transitions int32  `json:"transitions"`
}

// Fault is something that was done to the programs or the connections between them.
type Fault struct {
	Start Time   `json:"start"`
	End   Time   `json:"end"`
	What  string `json:"what"`
}

// Final is a host as it is when all faults have ended and it has had its time to come to rest.
type Final struct {
	Host Host `json:"host"`
	// Complaint is why it is not as its spec asks; empty if it is.
	Complaint string `json:"complaint,omitempty"`
}
