// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// blocks says what keeps the server from doing anything with the host, whatever its state is.
func (e *hostExplanation) blocks() {
	if value, paused := e.host.Annotations[metal3.PausedAnnotation]; paused {
		by := ""
		if value != "" {
			by = " by " + value
		}
		e.explain("It is paused%s: nothing is done with it until the annotation %s is removed. Whoever has set it usually removes it again.", by, metal3.PausedAnnotation)
	}
	ironic := e.host.Status.Ironic
	if c := e.condition(metal3.IronicReachableCondition, metav1.ConditionFalse); c != nil {
		e.unreachable(c)
	}
	// The server sets maintenance, too, while it removes a node: the condition is about others' alone.
	if ironic != nil && e.condition(metal3.InMaintenanceCondition, metav1.ConditionTrue) != nil {
		reason := "and gave no reason"
		if ironic.MaintenanceReason != "" {
			reason = "because: " + e.quote(ironic.MaintenanceReason)
		}
		help := ""
		if e.host.DeletionTimestamp == nil { // if the deletion waits for it, heldHelp says so, and what follows
			help = " To end it: " + e.command("maintenance off")
		}
		e.explain("Somebody has set the node to maintenance in Ironic, %s. The server respects that and does nothing until maintenance is ended.%s", reason, help)
	}
	if c := e.condition(metal3.ImageBuiltCondition, metav1.ConditionFalse); c != nil {
		e.explain("It has waited for its ramdisk image%s: %s. It goes on by itself when the controller that builds such images (docs/kinds.md#preprovisioningimage) has built it. "+
			"If that takes long, look at the controller's log, and at the image: kubectl get preprovisioningimage %s -n %s -o yaml",
			e.lasting(c.LastTransitionTime.Time), e.quote(c.Message), e.host.Name, e.host.Namespace)
	}
}

// unreachable says why Ironic tells nothing of the host, and who can mend that: not all of it ends by itself.
func (e *hostExplanation) unreachable(c *metav1.Condition) {
	name, inspect := "Ironic", ""
	secret := "the Secret that has the server's credentials for Ironic (metal3-apiserver-ironic)"
	if ironic := e.host.Status.Ironic; ironic != nil && ironic.Instance != "" {
		name, inspect = "Ironic "+ironic.Instance, " An administrator sees what is wrong with it: kubectl bmh ironics"
		secret = "the Secret of its IronicInstance"
	}
	what, help := "has not answered", "It goes on by itself when Ironic is back."+inspect
	switch c.Reason {
	case metal3.RefusedReason:
		what, help = "has refused the server", "That does not end by itself: an administrator corrects the user name or the password in "+secret+", or what that user may do in Ironic."+inspect
	case metal3.NodeUnreadableReason:
		what = "answers, but has not shown the node of this host"
		help = fmt.Sprintf("That does not end by itself: `openstack baremetal node show %s` fails as well, and Ironic's log has the reason. Whoever administers Ironic mends its records of the node.", e.host.Status.Provisioning.ID)
	case metal3.NoIronicReason:
		what, help = "has not been asked", "That does not end by itself: an administrator makes its IronicInstance usable again, and sees what is wrong with it: kubectl bmh ironics"
	}
	e.explain("%s %s%s, so all of this is as it was then: %s. %s", name, what, e.lasting(c.LastTransitionTime.Time), e.quote(c.Message), help)
}

// problem says what is wrong with the host, since when, and what would help. The order is that in
// which the server itself looks for the error of a host.
func (e *hostExplanation) problem() {
	if c := e.condition(metal3.HeldCondition, metav1.ConditionTrue); c != nil {
		e.explain("The server has held it back%s: %s.", e.lasting(c.LastTransitionTime.Time), e.inCommands(e.quote(e.rendered(c.Message))))
		for _, text := range e.heldHelp(c.Reason, c.Message) {
			e.say("%s", text)
		}
		return
	}
	if c := e.condition(metal3.RegisteredCondition, metav1.ConditionFalse); c != nil {
		e.registration(c)
		return
	}
	if c := e.condition(metal3.StepFailedCondition, metav1.ConditionTrue); c != nil {
		e.explain("A step has failed%s (%s): %s.", e.lasting(c.LastTransitionTime.Time), c.Reason, e.quote(e.said(c.Message)))
		e.help(append(e.stepHelp(c.Reason, c.Message), e.registrationNote())...)
		return
	}
	status := &e.host.Status
	if status.OperationalStatus == metal3.OperationalStatusError || status.ErrorMessage != "" {
		e.explain("It has had %s%s: %s.", errorName(status.ErrorType), e.lasting(e.errorSince()), e.quote(e.said(status.ErrorMessage)))
		e.help(append(e.errorHelp(status.ErrorType, status.ErrorMessage), e.registrationNote())...)
		return
	}
	if c := e.condition(metal3.InventoryReadCondition, metav1.ConditionFalse); c != nil {
		e.explain("What the inspection found cannot be used%s: %s. To have it inspected again: %s", e.lasting(c.LastTransitionTime.Time), e.quote(c.Message), e.command("inspect"))
	}
	if c := e.condition(metal3.InventoryReadCondition, metav1.ConditionTrue); c != nil {
		e.say("%s.", e.quote(c.Message))
	}
	if c := e.condition(metal3.HealthyCondition, metav1.ConditionFalse); c != nil {
		e.say("The BMC reports that the health of the machine is not good%s (%s): look at the BMC's own log.", e.lasting(c.LastTransitionTime.Time), c.Reason)
	}
	if c := e.condition(metal3.NetworkInterfacesValidCondition, metav1.ConditionFalse); c != nil {
		e.say("The switch ports of its spec.networkInterfaces are not configured%s (%s): %s.", e.lasting(c.LastTransitionTime.Time), c.Reason, e.quote(c.Message))
	}
	if c := e.condition(metal3.MachineUniqueCondition, metav1.ConditionFalse); c != nil {
		e.say("%s.", e.quote(c.Message)) // which says that nothing waits for it
	}
	if c := e.condition(metal3.PowerSyncedCondition, metav1.ConditionFalse); c != nil {
		e.say("%s", c.Message)
	}
	if note := e.registrationNote(); note != "" {
		e.say("%s", note)
	}
}

// registrationNote says what a host that is registered lacks all the same; empty if it lacks nothing. That may be why something fails.
func (e *hostExplanation) registrationNote() string {
	if c := e.condition(metal3.RegisteredCondition, metav1.ConditionTrue); c != nil && c.Message != "" {
		return fmt.Sprintf("Of its registration: %s.", e.quote(c.Message))
	}
	return ""
}

// help says what would help, and that the server tries again by itself.
func (e *hostExplanation) help(paragraphs ...string) {
	for _, text := range paragraphs {
		if text != "" {
			e.say("%s", text)
		}
	}
	if n := e.host.Status.ErrorCount; n > 1 {
		e.say("It has failed %d times in a row.", n)
	}
	e.say("To have it tried at once: %s", e.command("retry"))
}

// errorName returns the type of an error with its article.
func errorName(errorType metal3.ErrorType) string {
	switch {
	case errorType == "":
		return "an error"
	case strings.HasPrefix(string(errorType), "i"):
		return "an " + string(errorType)
	}
	return "a " + string(errorType)
}

// registration says why a host is not registered.
func (e *hostExplanation) registration(c *metav1.Condition) {
	since := e.lasting(c.LastTransitionTime.Time)
	if c.Reason == metal3.NodeLostReason {
		if c.Message == "" {
			e.explain("Ironic has lost its node, which is being created again%s.", since)
		} else { // it was moved to another Ironic, or lost
			e.explain("Its node is being created again%s: %s.", since, e.quote(c.Message))
		}
		return
	}
	message := c.Message
	if message == "" {
		message = e.host.Status.ErrorMessage
	}
	e.explain("It is not registered in Ironic%s (%s): %s.", since, c.Reason, e.quote(e.said(message)))
	if help := e.registrationHelp(c.Reason, message); help != "" {
		e.say("%s", help)
	}
}
