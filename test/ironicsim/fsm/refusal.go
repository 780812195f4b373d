// SPDX-License-Identifier: Apache-2.0

package fsm

import (
	"fmt"
	"net/http"
)

// Refusal is an answer of Ironic's that is no success.
type Refusal struct {
	Status int
	// Text is the faultstring.
	Text string
}

func (r *Refusal) Error() string { return r.Text }

func refusal(status int, format string, args ...any) error {
	return &Refusal{Status: status, Text: fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) error {
	return refusal(http.StatusBadRequest, format, args...)
}

func conflict(format string, args ...any) error {
	return refusal(http.StatusConflict, format, args...)
}

func locked(n *Node) error {
	return conflict("Node %s is locked by host %s, please retry after the current operation is completed.", n.UUID, n.Reservation)
}

func protected(n *Node) error {
	return refusal(http.StatusForbidden, "Node %s is protected and cannot be undeployed, rebuilt or deleted", n.UUID)
}

func inMaintenance(n *Node, operation string) error {
	return badRequest("The %s operation can't be performed on node %s because it's in maintenance mode.", operation, n.UUID)
}

// invalidState is the refusal of an action that the state of a node does not
// allow. node is what the client has called it.
func invalidState(action, node, state string) error {
	return badRequest("The requested action %q can not be performed on node %q while it is in state %q.", orNone(action), node, orNone(state))
}

// orNone is null in Python's words.
func orNone(s string) string {
	if s == "" {
		return "None"
	}
	return s
}
