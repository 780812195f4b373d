// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"net/http"
	"time"
)

// Event is one thing that happened in a Sim. Exactly one of the pointers is set.
type Event struct {
	// At is by the real clock, with its monotonic reading.
	At      time.Time
	Node    *NodeVersion
	Request *RequestEnd
	Machine *MachineTouch
}

// NodeVersion is what a write to the database has made of a node, from the moment of the event on.
type NodeVersion struct {
	UUID string `json:"uuid"`
	// Gone is set if the node was deleted. Everything else is then as it was before.
	Gone                 bool   `json:"gone,omitempty"`
	ProvisionState       string `json:"provisionState,omitempty"`
	TargetProvisionState string `json:"targetProvisionState,omitempty"`
	PowerState           string `json:"powerState,omitempty"`
	TargetPowerState     string `json:"targetPowerState,omitempty"`
	Maintenance          bool   `json:"maintenance,omitempty"`
	Reservation          string `json:"reservation,omitempty"`
	InstanceUUID         string `json:"instanceUUID,omitempty"`
	// BMC is the address of the BMC that the node's driver_info leads to; empty if there is none.
	BMC string `json:"bmc,omitempty"`
}

// RequestEnd is a request that has been executed. The event is at the end of it.
type RequestEnd struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	// Target is what PUT states/provision and states/power ask for.
	Target string `json:"target,omitempty"`
	Status int    `json:"status"`
	// Arrived is when the request had arrived, and Began when its execution began: later if a fault has made it late.
	Arrived time.Time `json:"-"`
	Began   time.Time `json:"-"`
	// Peer is the address that the connection came from.
	Peer string `json:"peer"`
}

// MachineTouch is something that was done to a machine.
type MachineTouch struct {
	// BMC is the address of its BMC.
	BMC string `json:"bmc"`
	// State is the provision state of the node that it was done for.
	State string `json:"state"`
	// PowerCut is set if a machine that was on was switched off.
	PowerCut bool `json:"powerCut,omitempty"`
	// Step is the step that has written to its disks, and Image what it has deployed, if it has.
	Step  string `json:"step,omitempty"`
	Image string `json:"image,omitempty"`
}

// tell tells whoever keeps a trail. Events of nodes and machines are told in the order in which they happened,
// with s.mu held, so the receiver must not call the Sim.
func (s *Sim) tell(e Event) {
	if s.opts.Trail != nil {
		e.At = time.Now()
		s.opts.Trail(e)
	}
}

// tellNode reports what has become of a node. s.mu must be held.
func (s *Sim) tellNode(n *node, gone bool) {
	if s.opts.Trail == nil {
		return
	}
	version := &NodeVersion{
		UUID: n.UUID, Gone: gone, ProvisionState: n.ProvisionState, TargetProvisionState: n.TargetProvisionState,
		PowerState: n.PowerState, TargetPowerState: n.TargetPowerState, Maintenance: n.Maintenance,
		Reservation: n.Reservation, InstanceUUID: n.InstanceUUID,
	}
	if b, _ := s.bmcOf(n); b != nil {
		version.BMC = b.address
	}
	s.tell(Event{Node: version})
}

// tellRequest reports a request that was executed.
func (s *Sim) tellRequest(c *call, r *http.Request, arrived, began time.Time, status int) {
	if s.opts.Trail == nil {
		return
	}
	target, _ := c.args["target"].(string)
	s.tell(Event{Request: &RequestEnd{Method: r.Method, Path: r.URL.Path, Target: target, Status: status, Arrived: arrived, Began: began, Peer: r.RemoteAddr}})
}
