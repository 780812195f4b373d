// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// Problem says what is wrong with a host, or returns an empty text. The first of several
// problems is the one that has to be solved before the others. PowerSynced is no problem of the
// host: with Ironic 29.0 it is False for all of them.
func Problem(host *metal3.BareMetalHost) string {
	if problem := hindrance(host); problem != "" {
		return problem
	}
	if c := Condition(host, metal3.InventoryReadCondition); c != nil && c.Status == metav1.ConditionFalse {
		return cmp.Or(c.Message, c.Reason)
	}
	if ironic := host.Status.Ironic; ironic != nil && ironic.Maintenance {
		return "in maintenance: " + cmp.Or(ironic.MaintenanceReason, ironic.Fault, "no reason was given")
	}
	if c := Condition(host, metal3.HealthyCondition); c != nil && c.Status == metav1.ConditionFalse {
		return "the BMC reports that the machine's health is " + healthWord(c.Reason)
	}
	if value, paused := host.Annotations[metal3.PausedAnnotation]; paused {
		return "paused by " + cmp.Or(value, "an annotation")
	}
	return ""
}

// hindrance says what keeps a host from going on, or returns an empty text. What a user only has to know may last for ever, such as
// a warning light, and is none.
func hindrance(host *metal3.BareMetalHost) string {
	if host.Status.ErrorMessage != "" {
		return host.Status.ErrorMessage
	}
	if host.Status.OperationalStatus == metal3.OperationalStatusError {
		return string(host.Status.ErrorType)
	}
	for _, c := range []struct {
		conditionType string
		bad           metav1.ConditionStatus
	}{
		{metal3.HeldCondition, metav1.ConditionTrue},
		{metal3.StepFailedCondition, metav1.ConditionTrue},
		{metal3.IronicReachableCondition, metav1.ConditionFalse},
		{metal3.ImageBuiltCondition, metav1.ConditionFalse},
	} {
		if condition := Condition(host, c.conditionType); condition != nil && condition.Status == c.bad {
			return cmp.Or(condition.Message, condition.Reason)
		}
	}
	return ""
}

func healthWord(reason string) string {
	if reason == metal3.CriticalErrorReason {
		return "critical"
	}
	return "degraded (warning)"
}
