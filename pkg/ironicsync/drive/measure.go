package drive

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// measure counts what a change of a host means for the metrics. What a new leader finds is no
// change, so nothing is counted twice.
func measure(before, after *metal3.BareMetalHost, now time.Time) {
	was, is := &before.Status, &after.Status
	for _, operation := range []struct {
		duration *metrics.Histogram
		was, is  metal3.OperationMetric
	}{
		{registerDuration, was.OperationHistory.Register, is.OperationHistory.Register},
		{inspectDuration, was.OperationHistory.Inspect, is.OperationHistory.Inspect},
		{provisionDuration, was.OperationHistory.Provision, is.OperationHistory.Provision},
		{deprovisionDuration, was.OperationHistory.Deprovision, is.OperationHistory.Deprovision},
	} {
		if start, end := operation.is.Start, operation.is.End; !start.IsZero() && !end.IsZero() && !end.Equal(&operation.was.End) {
			operation.duration.Observe(seconds(end.Sub(start.Time)))
		}
	}
	if was.Provisioning.State == is.Provisioning.State {
		return
	}
	stateChanges.WithLabelValues(stateLabel(was.Provisioning.State), stateLabel(is.Provisioning.State)).Inc()
	age := seconds(now.Sub(after.CreationTimestamp.Time))
	switch {
	case is.Provisioning.State == metal3.StateAvailable && isFirstTimeAvailable(was):
		timeToAvailable.Observe(age)
	case is.Provisioning.State == metal3.StateProvisioned && was.Provisioning.State == metal3.StateProvisioning && is.OperationHistory.Deprovision.Start.IsZero():
		timeToProvisioned.Observe(age)
	}
}

// isFirstTimeAvailable tells whether a host that becomes available now has never been so before,
// given its status until then. Both conditions are first set at the same time, so they have the
// same time as long as neither has ever been true.
func isFirstTimeAvailable(was *metal3.BareMetalHostStatus) bool {
	available := meta.FindStatusCondition(was.Conditions, metal3.AvailableForProvisioningCondition)
	provisioned := meta.FindStatusCondition(was.Conditions, metal3.ProvisionedCondition)
	return was.Provisioning.State != metal3.StateDeprovisioning &&
		available != nil && provisioned != nil && available.Status == metav1.ConditionFalse &&
		available.LastTransitionTime.Equal(&provisioned.LastTransitionTime)
}

// enteredState returns when a host came into its provisioning state, as far as its status tells.
// It needs nothing that is kept in memory, so a new leader knows it as well.
func enteredState(host *metal3.BareMetalHost) time.Time {
	status := &host.Status
	history := &status.OperationHistory
	transition := func(conditionType string) time.Time {
		if c := meta.FindStatusCondition(status.Conditions, conditionType); c != nil {
			return c.LastTransitionTime.Time
		}
		return time.Time{}
	}
	var entered time.Time
	switch status.Provisioning.State {
	case metal3.StateRegistering:
		entered = history.Register.Start.Time
	case metal3.StateInspecting:
		entered = history.Inspect.Start.Time
	case metal3.StatePreparing:
		// Progressing has been true since the host began to register, or since it was available.
		entered = latest(history.Register.End.Time, history.Inspect.End.Time, history.Deprovision.End.Time, transition(metal3.ProgressingCondition))
	case metal3.StateAvailable, metal3.StateReady:
		entered = transition(metal3.AvailableForProvisioningCondition)
	case metal3.StateProvisioning:
		entered = history.Provision.Start.Time
	case metal3.StateProvisioned, metal3.StateExternallyProvisioned:
		entered = transition(metal3.ProvisionedCondition)
	case metal3.StateDeprovisioning:
		entered = history.Deprovision.Start.Time
	case metal3.StateDeleting, metal3.StatePoweringOffBeforeDelete:
		if host.DeletionTimestamp != nil {
			entered = latest(host.DeletionTimestamp.Time, history.Deprovision.End.Time)
		}
	}
	return latest(entered, host.CreationTimestamp.Time) // a status that was restored may be older
}

func latest(times ...time.Time) (latest time.Time) {
	for _, t := range times {
		if t.After(latest) {
			latest = t
		}
	}
	return latest
}

// seconds is a duration for a metric. Times in a status may be those of other replicas, whose
// clocks may differ.
func seconds(d time.Duration) float64 { return max(d.Seconds(), 0) }

// provisioningStates are the states that are values of labels.
var provisioningStates = []metal3.ProvisioningState{
	metal3.StateUnmanaged, metal3.StateRegistering, metal3.StateInspecting, metal3.StateMatchProfile, metal3.StatePreparing,
	metal3.StateReady, metal3.StateAvailable, metal3.StateProvisioning, metal3.StateProvisioned, metal3.StateExternallyProvisioned,
	metal3.StateDeprovisioning, metal3.StatePoweringOffBeforeDelete, metal3.StateDeleting,
}

// operationalStatuses and errorTypes are likewise values of labels.
var (
	operationalStatuses = []metal3.OperationalStatus{
		metal3.OperationalStatusOK, metal3.OperationalStatusDiscovered, metal3.OperationalStatusError,
		metal3.OperationalStatusDelayed, metal3.OperationalStatusDetached, metal3.OperationalStatusServicing,
	}
	errorTypes = []metal3.ErrorType{
		metal3.RegistrationError, metal3.ProvisionedRegistrationError, metal3.InspectionError, metal3.PreparationError,
		metal3.ProvisioningError, metal3.PowerManagementError, metal3.ServicingError, metal3.DetachError,
	}
)

func stateLabel(state metal3.ProvisioningState) string { return labelValue(state, provisioningStates) }

// labelValue returns a value as that of a label: "none" if it is empty, and "other" if it is not
// known. A status can be restored by users, so that it may say anything, and the number of time
// series must stay bounded.
func labelValue[T ~string](value T, known []T) string {
	if value == "" {
		return "none"
	}
	for _, k := range known {
		if k == value {
			return string(value)
		}
	}
	return "other"
}
