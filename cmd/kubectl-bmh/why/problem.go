// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/hosts"
)

// blocks says what keeps the server from doing anything with the host, whatever its state is.
func (e *explanation) blocks() {
	if value, paused := e.host.Annotations[metal3.PausedAnnotation]; paused {
		by := ""
		if value != "" {
			by = " by " + value
		}
		e.explain("It is paused%s: nothing is done with it until the annotation %s is removed. Whoever has set it usually removes it again.", by, metal3.PausedAnnotation)
	}
	ironic := e.host.Status.Ironic
	if c := e.condition(metal3.IronicReachableCondition, metav1.ConditionFalse); c != nil {
		name, help := "Ironic", ""
		if ironic != nil && ironic.Instance != "" {
			name, help = "Ironic "+ironic.Instance, " An administrator sees what is wrong with it: kubectl bmh ironics"
		}
		e.explain("%s has not answered%s, so all of this is as it was then: %s. It goes on by itself when Ironic is back.%s", name, e.lasting(c.LastTransitionTime.Time), e.quote(c.Message), help)
	}
	if ironic != nil && ironic.Maintenance && ironic.Fault == "" {
		reason := "and gave no reason"
		if ironic.MaintenanceReason != "" {
			reason = "because: " + e.quote(ironic.MaintenanceReason)
		}
		e.explain("Somebody has set the node to maintenance in Ironic, %s. The server respects that and does nothing until maintenance is ended.", reason)
	}
	if c := e.condition(metal3.ImageBuiltCondition, metav1.ConditionFalse); c != nil {
		e.explain("It has waited for its ramdisk image%s: %s. It goes on by itself when the controller that builds such images (docs/kinds.md#preprovisioningimage) has built it. "+
			"If that takes long, look at the controller's log, and at the image: kubectl get preprovisioningimage %s -n %s -o yaml",
			e.lasting(c.LastTransitionTime.Time), e.quote(c.Message), e.host.Name, e.host.Namespace)
	}
}

// condition returns a condition if it has that status.
func (e *explanation) condition(conditionType string, status metav1.ConditionStatus) *metav1.Condition {
	if c := hosts.Condition(e.host, conditionType); c != nil && c.Status == status {
		return c
	}
	return nil
}

// problem says what is wrong with the host, since when, and what would help. The order is that in
// which the server itself looks for the error of a host.
func (e *explanation) problem() {
	if c := e.condition(metal3.HeldCondition, metav1.ConditionTrue); c != nil {
		e.explain("The server has held it back%s: %s.", e.lasting(c.LastTransitionTime.Time), e.quote(withoutAdvice(e.rendered(c.Message))))
		e.say("%s", e.heldHelp(c.Reason))
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
func (e *explanation) registrationNote() string {
	if c := e.condition(metal3.RegisteredCondition, metav1.ConditionTrue); c != nil && c.Message != "" {
		return fmt.Sprintf("Of its registration: %s.", e.quote(c.Message))
	}
	return ""
}

// help says what would help, and that the server tries again by itself.
func (e *explanation) help(paragraphs ...string) {
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

// errorSince returns since when the host has an error, as far as that was recorded.
func (e *explanation) errorSince() time.Time {
	if c := e.condition(metal3.ReadyCondition, metav1.ConditionFalse); c != nil && c.Reason == metal3.ErrorReason {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
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

// heldHelp says what would help a host that is held.
func (e *explanation) heldHelp(reason string) string {
	confirm := fmt.Sprintf("If the machine is this host's all the same, look at it, make the spec say what it runs, and confirm its node %s: %s (which takes the role metal3-baremetalhosts-takeover)", e.host.Status.Provisioning.ID, e.command("takeover"))
	switch reason {
	case metal3.RestoredReason:
		return "The server's etcd was restored from a backup, and all hosts wait until an administrator has compared them with the machines: docs/restore.md shows how."
	case metal3.OperatorRunningReason:
		return "The Bare Metal Operator drives the machines, too, and all hosts wait until an administrator has stopped it: docs/migration.md#the-operator-comes-back says how it is started again. The server goes on three minutes later."
	case metal3.NodeOfAnotherHostReason:
		return "Another host owns the node in Ironic. Delete the one that is wrong. Nobody can confirm the node for this one while the other one has it."
	case metal3.NodeOfAnotherClusterReason:
		return "The server of another cluster has marked the node. Remove the host from that cluster first. " + confirm +
			fmt.Sprintf(". If this cluster replaces that one, its other hosts are held, too: kubectl bmh takeover --all -n %s shows what is known of each, and asks once", e.host.Namespace)
	case metal3.AnotherBMCReason:
		return "Ironic reaches the node through another BMC than spec.bmc.address, or does not say through which one. Correct the address that is wrong. " + confirm
	case metal3.BMCInUseReason:
		return "Delete the host, or the node in Ironic, that is too many, or correct its address. " + confirm
	case metal3.DeploymentGoneReason:
		if e.ironicState() == "active" {
			return "Another user of Ironic has rebuilt or deployed the node, and it is active again. If the machine runs what the spec says, you only have to confirm that: " + e.command("takeover") +
				" (which takes the role metal3-baremetalhosts-takeover). To have the image written again: " + e.command("rebuild") + ". To give it up, remove the image from the spec."
		}
		return "Another user of Ironic has undeployed, deployed, rebuilt or rescued the node: Ironic's log has the request, and `openstack baremetal node history list` may name the user. To have the image written again: " + e.command("rebuild") + ". To give it up, remove the image from the spec. " + confirm
	case metal3.AnotherDeploymentReason:
		return "Somebody has deployed something else on the machine, perhaps an operator in Ironic for this very host, and the server does not wipe that. " + confirm
	case metal3.AnotherIronicReason:
		return "The address of the host's Ironic leads to an Ironic that has none of this server's nodes, but others. An administrator has to correct it: spec.endpoint of the IronicInstance, or the server's flags. docs/several-ironics.md says what to do if that Ironic has lost its database."
	case metal3.StatusUnreadableReason:
		return fmt.Sprintf("The host brings along a status that cannot be read: compare its annotation %s with the status in the cluster from which it comes.", metal3.StatusAnnotation)
	case metal3.NodeInMaintenanceReason:
		return "Its deletion goes on when the maintenance ends: " + e.command("maintenance off") + " ends one that was asked for here, and `openstack baremetal node maintenance unset` one that was asked for in Ironic. To delete the host without touching the machine, detach it."
	}
	return confirm
}

// registration says why a host is not registered.
func (e *explanation) registration(c *metav1.Condition) {
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

func (e *explanation) registrationHelp(reason, message string) string {
	switch reason {
	case metal3.SecretNotFoundReason:
		return "Create the Secret that is missing. The host goes on at once."
	case metal3.SecretIncompleteReason:
		return "Add what is missing to the Secret, or correct it. The host goes on at once."
	case metal3.NetworkDataUnusableReason:
		return "Create or correct the Secret that spec.preprovisioningNetworkDataName names. The host goes on at once."
	case metal3.InvalidAddressReason:
		return "Correct spec.bmc.address."
	case metal3.AddressNotAllowedReason:
		return "The administrator of the server decides to which addresses Ironic may connect: docs/configuration.md."
	case metal3.PortConflictReason:
		return "Another node in Ironic has this boot MAC address. spec.bootMACAddress cannot be changed: delete the host that has the wrong one, and create it again."
	case metal3.BMCInUseReason:
		return "Two hosts, or a host and another node in Ironic, have the same BMC. Delete the one that is too many, or correct its address."
	case metal3.NoIronicReason:
		return "The administrator of the server decides which of several Ironics has which hosts: docs/several-ironics.md. kubectl bmh ironics shows them."
	case metal3.NamespaceNotManagedReason:
		return "The administrator of the server decides which namespaces it manages (--namespaces)."
	case metal3.RequestFailedReason:
		return e.requestHelp(message)
	case metal3.IronicRefusedReason:
		if strings.Contains(message, "spec.bootMACAddress") {
			return "spec.bootMACAddress cannot be changed: delete the host, and create it again with the right one."
		}
		return cmp.Or(e.helpAgainst(message), "Ironic does not accept what the spec makes of the node: correct what the message names.")
	}
	return e.helpAgainst(message)
}
