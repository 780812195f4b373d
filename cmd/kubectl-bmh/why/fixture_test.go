// SPDX-License-Identifier: Apache-2.0

package why

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func minutesAgo(n int) metav1.Time {
	return metav1.NewTime(now.Add(-time.Duration(n) * time.Minute))
}

// host returns a host in a state, for five minutes.
func host(state metal3.ProvisioningState, change ...func(*metal3.BareMetalHost)) *metal3.BareMetalHost {
	h := &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "worker-0", CreationTimestamp: minutesAgo(5)},
		Spec:       metal3.BareMetalHostSpec{Online: true, BMC: metal3.BMCDetails{Address: "ipmi://192.0.2.1", CredentialsName: "bmc-secret"}},
		Status: metal3.BareMetalHostStatus{
			OperationalStatus: metal3.OperationalStatusOK,
			Provisioning:      metal3.ProvisionStatus{State: state, ID: "the-uuid"},
			OperationHistory: metal3.OperationHistory{
				Register: metal3.OperationMetric{Start: minutesAgo(5)}, Inspect: metal3.OperationMetric{Start: minutesAgo(5)},
				Provision: metal3.OperationMetric{Start: minutesAgo(5)}, Deprovision: metal3.OperationMetric{Start: minutesAgo(5)},
			},
		},
	}
	h.Status.Record.State = &metal3.TimeInState{Name: state, Since: minutesAgo(5)}
	for _, conditionType := range []string{metal3.ProgressingCondition, metal3.ProvisionedCondition, metal3.AvailableForProvisioningCondition} {
		h.Status.Conditions = append(h.Status.Conditions, metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, LastTransitionTime: minutesAgo(5)})
	}
	for _, c := range change {
		c(h)
	}
	return h
}

func ironic(state string, change ...func(*metal3.IronicStatus)) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) {
		h.Status.Ironic = &metal3.IronicStatus{ProvisionState: state, PowerState: "power on"}
		for _, c := range change {
			c(h.Status.Ironic)
		}
	}
}

func step(name string) func(*metal3.IronicStatus) {
	return func(s *metal3.IronicStatus) { s.Step = name }
}

func condition(conditionType string, status metav1.ConditionStatus, reason, message string) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) {
		h.Status.Conditions = append(h.Status.Conditions, metav1.Condition{
			Type: conditionType, Status: status, Reason: reason, Message: message, LastTransitionTime: minutesAgo(2),
		})
	}
}

func failed(errorType metal3.ErrorType, message string) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) {
		h.Status.OperationalStatus, h.Status.ErrorType, h.Status.ErrorMessage = metal3.OperationalStatusError, errorType, message
		condition(metal3.ReadyCondition, metav1.ConditionFalse, metal3.ErrorReason, message)(h)
	}
}

func moving(to string) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) {
		h.Status.Record.Transfer = &metal3.Transfer{To: to, RequestedAt: metav1.NewTime(now.Add(-2 * time.Minute))}
	}
}
