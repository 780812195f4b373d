// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UpToDateCondition is False on an object with settings while Ironic does not give what the machine has. The Bare Metal Operator
// does not have it.
const UpToDateCondition = "UpToDate"

const notGivenReason = "NotGivenByIronic"

// Unread records in the conditions of an object of a generation that Ironic does not give what the machine has. What is
// recorded of that remains.
func Unread(conditions *[]metav1.Condition, generation int64, message string, now metav1.Time) {
	setConditions(conditions, generation, now, metav1.Condition{
		Type: UpToDateCondition, Status: metav1.ConditionFalse, Reason: notGivenReason, Message: cut(message),
	})
}

// setConditions sets conditions of an object of a generation.
func setConditions(conditions *[]metav1.Condition, generation int64, now metav1.Time, current ...metav1.Condition) {
	for _, c := range current {
		c.ObservedGeneration, c.LastTransitionTime = generation, now
		meta.SetStatusCondition(conditions, c)
	}
}
