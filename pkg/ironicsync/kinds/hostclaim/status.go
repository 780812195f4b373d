// SPDX-License-Identifier: Apache-2.0

package hostclaim

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/events"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// The conditions of claims. Provisioned and Ready are named like those of hosts.
const (
	// AssociatedCondition is True when the claim has a host.
	AssociatedCondition = "Associated"
	// SynchronizedCondition is True when what the claim asks for was passed on to its host.
	SynchronizedCondition = "Synchronized"
)

// The reasons of conditions, which are those of the Bare Metal Operator except for
// PullSecretSyncFailure.
const (
	BareMetalHostAssociatedReason      = "BareMetalHostAssociated"
	NoBareMetalHostReason              = "NoBareMetalHost"
	MissingBareMetalHostReason         = "MissingBareMetalHost"
	HostClaimDeletingReason            = "HostClaimDeleting"
	HostClaimDeletionFailedReason      = "HostClaimDeletionFailed"
	HostPausedReason                   = "HostPaused"
	ConfigurationSyncedReason          = "ConfigurationSynced"
	BareMetalHostNotSynchronizedReason = "BareMetalHostNotSynchronized"
	UserDataSecretSyncFailureReason    = "UserDataSecretSyncFailure"
	MetaDataSecretSyncFailureReason    = "MetaDataSecretSyncFailure"
	NetworkDataSecretSyncFailureReason = "NetworkDataSecretSyncFailure"
	PullSecretSyncFailureReason        = "PullSecretSyncFailure"
	// The reasons of Ready are those of the summaries of Cluster API.
	InfoReportedReason   = "InfoReported"
	IssuesReportedReason = "IssuesReported"
)

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: lifecycle.CutMessage(message)}
}

func unsynchronized(reason, message string) metav1.Condition {
	return condition(SynchronizedCondition, metav1.ConditionFalse, reason, message)
}

// result is what was reached for a claim.
type result struct {
	// host and hardware are nil if there are none.
	host     *metal3.BareMetalHost
	hardware *metal3.ObjectReference
	// synchronized is empty if it was not tried.
	associated, synchronized metav1.Condition
}

// setStatus sets the status of a claim, and reports whether that is a change. Nothing is shown of the
// host's BMC, nor the texts of errors, in which Ironic and BMCs may name anything.
func setStatus(claim *metal3.HostClaim, reached result) bool {
	before := claim.Status.DeepCopy()
	status := &claim.Status
	status.HardwareData, status.PoweredOn = reached.hardware, false
	conditions := []metav1.Condition{reached.associated}
	switch host := reached.host; {
	case host != nil:
		status.BareMetalHost = &metal3.ObjectReference{Namespace: host.Namespace, Name: host.Name}
		status.PoweredOn = host.Status.PoweredOn
		if reached.synchronized.Type != "" {
			conditions = append(conditions, reached.synchronized)
		}
		conditions = append(conditions, provisioned(claim, host))
	case reached.associated.Reason != MissingBareMetalHostReason && reached.associated.Reason != HostClaimDeletionFailedReason:
		status.BareMetalHost = nil
	}
	kept := status.Conditions
	status.Conditions = nil
	for _, c := range append(conditions, ready(conditions)) {
		if former := meta.FindStatusCondition(kept, c.Type); former != nil {
			status.Conditions = append(status.Conditions, *former)
		}
		c.ObservedGeneration = claim.Generation
		meta.SetStatusCondition(&status.Conditions, c)
	}
	return !equality.Semantic.DeepEqual(before, status)
}

// stateReasons are the reasons of Provisioned for the states of hosts. Other states have the reason
// NotProvisioned.
var stateReasons = map[metal3.ProvisioningState]string{
	metal3.StatePreparing:      metal3.PreparingReason,
	metal3.StateAvailable:      metal3.AvailableReason,
	metal3.StateReady:          metal3.AvailableReason,
	metal3.StateProvisioning:   metal3.ProvisioningReason,
	metal3.StateProvisioned:    metal3.ProvisionedReason,
	metal3.StateDeprovisioning: metal3.DeprovisioningReason,
}

// provisioned returns the condition Provisioned: whether the host runs what the claim asks for.
func provisioned(claim *metal3.HostClaim, host *metal3.BareMetalHost) metav1.Condition {
	state := host.Status.Provisioning.State
	reason, known := stateReasons[state]
	if !known {
		reason = metal3.NotProvisionedReason
	}
	message := "The host is " + string(state)
	switch {
	case deployedByOthers(host):
		message = deployedPastServer
		reason = metal3.NotProvisionedReason
	case host.Status.ErrorType != "":
		reason = metal3.ErrorReason
		message += fmt.Sprintf(", with a %s, about which its owner can find out more", host.Status.ErrorType)
	case host.IsDetached():
		message += ", and detached"
	case state == metal3.StateProvisioned && runs(host, claim):
		return condition(metal3.ProvisionedCondition, metav1.ConditionTrue, reason, "")
	case state == metal3.StateProvisioned:
		message = "The host does not run yet what the claim asks for"
		reason = metal3.NotProvisionedReason
	}
	return condition(metal3.ProvisionedCondition, metav1.ConditionFalse, reason, message)
}

// deployedPastServer says of a host that is deployedByOthers what has to be done.
const deployedPastServer = "The host runs something that was deployed in Ironic past this server, and is left alone. Its owner can have it undeployed there, or confirm it for the host"

// deployedByOthers reports whether somebody has deployed the host in Ironic, and nobody has said what it runs, so that it does not come to
// run what its claim asks for.
func deployedByOthers(host *metal3.BareMetalHost) bool {
	return host.Status.Provisioning.State == metal3.StateProvisioned && !deploy.Deployed(host)
}

// runs reports whether a provisioned host runs what its claim asks for.
func runs(host *metal3.BareMetalHost, claim *metal3.HostClaim) bool {
	status := &host.Status.Provisioning
	if claim.Spec.Image != nil && status.Image.URL != claim.Spec.Image.URL {
		return false
	}
	if claim.Spec.CustomDeploy != nil && !equality.Semantic.DeepEqual(status.CustomDeploy, claim.Spec.CustomDeploy) {
		return false
	}
	return isDeploying(claim)
}

// ready returns the summary of the other conditions.
func ready(conditions []metav1.Condition) metav1.Condition {
	if associated := conditions[0]; associated.Status != metav1.ConditionTrue {
		return condition(metal3.ReadyCondition, metav1.ConditionFalse, associated.Reason, associated.Message)
	}
	var issues []string
	for _, c := range conditions {
		if c.Status != metav1.ConditionTrue {
			issues = append(issues, fmt.Sprintf("* %s: %s", c.Type, c.Message))
		}
	}
	if len(issues) > 0 {
		return condition(metal3.ReadyCondition, metav1.ConditionFalse, IssuesReportedReason, strings.Join(issues, "\n"))
	}
	return condition(metal3.ReadyCondition, metav1.ConditionTrue, InfoReportedReason, "")
}

// eventTypes are the types of events whose messages are those of conditions, by their reasons.
var eventTypes = map[string]string{
	HostClaimDeletingReason: corev1.EventTypeNormal,
	NoBareMetalHostReason:   corev1.EventTypeNormal,
	HostPausedReason:        corev1.EventTypeNormal,

	MissingBareMetalHostReason:         corev1.EventTypeWarning,
	HostClaimDeletionFailedReason:      corev1.EventTypeWarning,
	BareMetalHostNotSynchronizedReason: corev1.EventTypeWarning,
	UserDataSecretSyncFailureReason:    corev1.EventTypeWarning,
	MetaDataSecretSyncFailureReason:    corev1.EventTypeWarning,
	NetworkDataSecretSyncFailureReason: corev1.EventTypeWarning,
	PullSecretSyncFailureReason:        corev1.EventTypeWarning,
}

// changes records events for a change of the status of a claim. What becomes of the host is in the
// events of the host.
func (c *Controller) changes(before, after *metal3.HostClaim) {
	for _, kind := range []string{AssociatedCondition, SynchronizedCondition} {
		old, current := meta.FindStatusCondition(before.Status.Conditions, kind), meta.FindStatusCondition(after.Status.Conditions, kind)
		if current == nil || old != nil && old.Status == current.Status && old.Reason == current.Reason ||
			old == nil && kind == SynchronizedCondition && current.Status == metav1.ConditionTrue {
			continue
		}
		switch current.Reason {
		case BareMetalHostAssociatedReason:
			c.event(after, corev1.EventTypeNormal, BareMetalHostAssociatedReason,
				fmt.Sprintf("Host %s/%s is the claim's", after.Status.BareMetalHost.Namespace, after.Status.BareMetalHost.Name))
		case ConfigurationSyncedReason:
			c.event(after, corev1.EventTypeNormal, ConfigurationSyncedReason, "What the claim asks for was passed on to its host")
		default:
			c.event(after, eventTypes[current.Reason], current.Reason, current.Message)
		}
	}
}

func (c *Controller) event(claim *metal3.HostClaim, eventType, reason, message string) {
	c.Events.RecordObject(kinds.ReferenceTo("HostClaim", claim), events.Event{Type: eventType, Reason: reason, Message: message})
}
