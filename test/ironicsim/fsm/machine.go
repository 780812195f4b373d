// SPDX-License-Identifier: Apache-2.0

package fsm

import (
	"maps"
	"slices"
)

// The highest API version that a release serves stands for the release.
const (
	Ironic21 = 82  // 21.4, Debian 12
	Ironic29 = 96  // 29.0, Debian 13
	Ironic32 = 101 // 32.0
	Ironic39 = 115 // 39.0
)

// Machine is the state machine of a release.
type Machine struct {
	minor int
}

// Of returns the machine of the release whose highest API version is 1.minor.
func Of(minor int) Machine { return Machine{minor: minor} }

// verbs maps the targets of PUT states/provision to events of the machine.
// Ironic takes a target that is not here for an event of the same name.
var verbs = map[string]string{
	"active": "deploy", "deploy": "deploy", "deleted": "delete", "undeploy": "delete", "rebuild": "rebuild",
	"manage": "manage", "provide": "provide", "inspect": "inspect", "abort": "abort",
	"clean": "clean", "adopt": "adopt", "rescue": "rescue", "unrescue": "unrescue",
	"unhold": "unhold", "service": "service",
}

// Event is what Ironic calls the event that a verb causes.
func Event(verb string) string {
	if event, ok := verbs[verb]; ok {
		return event
	}
	return verb
}

// transitions is the newest machine: state, event, next state.
var transitions = map[string]map[string]string{
	Enroll:     {"manage": Verifying},
	Verifying:  {"done": Manageable, "fail": Enroll},
	Manageable: {"provide": Cleaning, "clean": Cleaning, "inspect": Inspecting, "adopt": Adopting},
	Available:  {"deploy": Deploying, "manage": Manageable},
	Active:     {"rebuild": Deploying, "delete": Deleting, "rescue": Rescuing, "service": Servicing},

	Deploying:  {"done": Active, "fail": DeployFail, "wait": DeployWait, "hold": DeployHold},
	DeployWait: {"resume": Deploying, "fail": DeployFail, "hold": DeployHold, "delete": Deleting, "abort": DeployFail},
	DeployHold: {"unhold": DeployWait, "abort": DeployFail},
	DeployFail: {"rebuild": Deploying, "deploy": Deploying, "delete": Deleting},
	Deleting:   {"fail": Error, "clean": Cleaning},
	Error:      {"rebuild": Deploying, "delete": Deleting},

	Cleaning:  {"done": Available, "manage": Manageable, "fail": CleanFail, "wait": CleanWait, "hold": CleanHold},
	CleanWait: {"resume": Cleaning, "fail": CleanFail, "abort": CleanFail, "hold": CleanHold},
	CleanHold: {"unhold": CleanWait, "abort": CleanFail},
	CleanFail: {"manage": Manageable},

	Inspecting:  {"done": Manageable, "fail": InspectFail, "wait": InspectWait},
	InspectWait: {"done": Manageable, "fail": InspectFail, "abort": InspectFail, "resume": Inspecting},
	InspectFail: {"manage": Manageable, "inspect": Inspecting},

	Adopting:  {"done": Active, "fail": AdoptFail},
	AdoptFail: {"adopt": Adopting, "manage": Manageable},

	Rescue:       {"rescue": Rescuing, "unrescue": Unrescuing, "delete": Deleting},
	Rescuing:     {"done": Rescue, "fail": RescueFail, "wait": RescueWait},
	RescueWait:   {"resume": Rescuing, "fail": RescueFail, "abort": RescueFail, "delete": Deleting},
	RescueFail:   {"rescue": Rescuing, "unrescue": Unrescuing, "delete": Deleting},
	Unrescuing:   {"done": Active, "fail": UnrescueFail},
	UnrescueFail: {"rescue": Rescuing, "unrescue": Unrescuing, "delete": Deleting},

	Servicing:   {"done": Active, "fail": ServiceFail, "wait": ServiceWait, "hold": ServiceHold},
	ServiceWait: {"resume": Servicing, "fail": ServiceFail, "abort": ServiceFail, "hold": ServiceHold, "delete": Deleting},
	ServiceHold: {"unhold": ServiceWait, "abort": ServiceFail, "service": Servicing, "fail": ServiceFail},
	ServiceFail: {"service": Servicing, "rescue": Rescuing, "delete": Deleting, "abort": Active, "wait": ServiceWait, "hold": ServiceHold},
}

// since is the version that brought a transition, where 21.4 does not have it.
func since(state, event string) int {
	switch {
	case state == ServiceFail && (event == "abort" || event == "wait" || event == "hold"), state == ServiceHold && event == "fail":
		return Ironic32
	case state == DeployWait && event == "abort":
		return 110
	case event == "service", state == Servicing, state == ServiceWait, state == ServiceFail, state == ServiceHold:
		return 87
	case event == "hold", event == "unhold", state == CleanHold, state == DeployHold:
		return 85
	case state == InspectWait && event == "resume":
		return 84
	}
	return 0
}

// Next is the state after an event.
func (m Machine) Next(state, event string) (next string, ok bool) {
	next, ok = transitions[state][event]
	return next, ok && m.minor >= since(state, event)
}

// Events are the events that a state has, sorted.
func (m Machine) Events(state string) []string {
	var events []string
	for _, event := range slices.Sorted(maps.Keys(transitions[state])) {
		if m.minor >= since(state, event) {
			events = append(events, event)
		}
	}
	return events
}

// States are the states of the release, sorted.
func (m Machine) States() []string {
	var states []string
	for _, state := range slices.Sorted(maps.Keys(transitions)) {
		if len(m.Events(state)) > 0 {
			states = append(states, state)
		}
	}
	return states
}

// Allows reports whether the machine has a transition for a verb in a state.
func (m Machine) Allows(state, verb string) bool {
	_, ok := m.Next(state, Event(verb))
	return ok
}

// AbortsService reports whether a service can be aborted so that the node becomes
// active again.
func (m Machine) AbortsService() bool { return m.minor >= Ironic32 }

// Move moves a node by an event; false, and nothing is changed, where the machine
// has no such event. target_provision_state is the goal of the new state, and
// null in a stable one. Only a manual clean keeps its own, which is manageable.
func (m Machine) Move(n *Node, event string) bool {
	next, ok := m.Next(n.ProvisionState, event)
	if !ok {
		return false
	}
	if goals[next] != Available || n.TargetProvisionState != Manageable || !isCleaned(n.ProvisionState) {
		n.TargetProvisionState = goals[next]
	}
	n.ProvisionState = next
	return true
}

func isCleaned(state string) bool {
	return state == Cleaning || state == CleanWait || state == CleanHold
}
