// SPDX-License-Identifier: Apache-2.0

package fsm

// Check is what the API process refuses of PUT states/provision before the node
// is locked.
func (m Machine) Check(n *Node, verb string) error {
	switch {
	case (verb == "active" || verb == "rebuild") && n.Maintenance:
		return inMaintenance(n, "provisioning")
	case m.Allows(n.ProvisionState, verb):
		return nil
	case n.Reservation != "": // a busy node says 409 where an idle one would say 400
		return locked(n)
	}
	return invalidState(verb, n.UUID, n.ProvisionState)
}

// Admit is what the conductor refuses of a verb when it has locked the node.
// What its drivers refuse beside that comes after.
func (m Machine) Admit(n *Node, verb string) error {
	switch {
	case verbs[verb] == "":
		// The state machine has events that are no verbs: done, fail, wait ...
		return badRequest(`The requested action "%s" could not be understood.`, verb)
	case n.Protected && (verb == "rebuild" || Event(verb) == "delete"):
		return protected(n)
	case n.Maintenance && (verb == "rebuild" || Event(verb) == "deploy"):
		return inMaintenance(n, "provisioning")
	case n.Maintenance && maintained[verb] != "":
		return inMaintenance(n, maintained[verb])
	case n.Retired && verb == "provide":
		return badRequest("The providing operation can't be performed on node %s because it is retired.", n.UUID)
	case !m.Allows(n.ProvisionState, verb):
		return invalidState(Event(verb), n.UUID, n.ProvisionState)
	case n.Maintenance && verb == "abort" && n.ProvisionState == ServiceFail:
		return conflict("Can not abort service on node \"%s\" while it is in maintenance mode. Please remove the node from maintenance prior to issuing the request to abort the service operation.", n.UUID)
	}
	return nil
}

// maintained are further verbs that maintenance forbids, with their names in the refusal.
var maintained = map[string]string{"clean": "cleaning", "service": "service", "rescue": "rescuing"}

// Start begins what a verb asks for that was admitted. It reports whether there
// is work to do; the lock is kept for that.
func (m Machine) Start(n *Node, verb string) (works bool) {
	switch {
	case verb == "abort":
		return m.abort(n)
	case verb == "manage" && n.ProvisionState != Enroll, verb == "unhold": // the last error stays
		m.Move(n, verb)
		return false
	}
	m.Move(n, Event(verb))
	n.LastError = ""
	if verb == "clean" {
		n.TargetProvisionState = Manageable
	}
	return true
}

func (m Machine) abort(n *Node) (works bool) {
	switch n.ProvisionState {
	case InspectWait:
		n.LastError = "Inspection was aborted by request."
	case CleanWait, CleanHold:
		n.LastError = "By request, the clean operation was aborted"
		works = true // the machine leaves the ramdisk
	case ServiceWait:
		if m.AbortsService() {
			return m.Move(n, "fail")
		}
	case ServiceFail:
		return true
	}
	// Of the others, service wait goes to service failed without an error text.
	m.Move(n, "abort")
	return works
}
