// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// transfer says that the host is on its way to another Ironic.
func (e *hostExplanation) transfer() {
	record := &e.host.Status.Record
	if record.Transfer == nil {
		return
	}
	from, to := ironicName(record.Ironic), ironicName(record.Transfer.To)
	e.say("It has been on its way to %s%s: its node is removed from %s, and then created and adopted in the other, while the machine goes on running as it is.",
		to, e.lasting(record.Transfer.RequestedAt.Time), from)
	name := record.Ironic
	if name == "" {
		name = strconv.Quote(name)
	}
	callOff := e.command("transfer") + " --to " + name + " calls the move off."
	if e.isTransferRefused() {
		callOff = "The move goes on by itself when what is in its way has ended. " + callOff
	}
	e.say("%s", callOff)
}

// isTransferRefused reports whether something has come up against a move since it was requested.
func (s subject) isTransferRefused() bool {
	return s.condition(metal3.HeldCondition, metav1.ConditionTrue) != nil || s.condition(metal3.StepFailedCondition, metav1.ConditionTrue) != nil ||
		s.condition(metal3.IronicReachableCondition, metav1.ConditionFalse) != nil || s.host.Status.ErrorMessage != ""
}

// ironicName names an Ironic by that of its IronicInstance; empty is the one of the server's flags.
func ironicName(name string) string {
	if name == "" {
		return "the Ironic of the server's flags"
	}
	return "the Ironic " + name
}
