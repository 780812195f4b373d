// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"time"

	"k8s.io/component-base/metrics"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// measure counts what a change of a host means for the metrics. What a new leader finds is no
// change, so nothing is counted twice.
func measure(before, after *metal3.BareMetalHost, now time.Time) {
	previous, current := &before.Status.OperationHistory, &after.Status.OperationHistory
	for _, operation := range []struct {
		duration          *metrics.Histogram
		previous, current metal3.OperationMetric
	}{
		{registerDuration, previous.Register, current.Register},
		{inspectDuration, previous.Inspect, current.Inspect},
		{provisionDuration, previous.Provision, current.Provision},
		{deprovisionDuration, previous.Deprovision, current.Deprovision},
	} {
		if start, end := operation.current.Start, operation.current.End; !start.IsZero() && !end.IsZero() && !end.Equal(&operation.previous.End) {
			operation.duration.Observe(seconds(end.Sub(start.Time)))
		}
	}
	from, to := before.Status.Provisioning.State, after.Status.Provisioning.State
	if from == to {
		return
	}
	stateChanges.WithLabelValues(stateLabel(from), stateLabel(to)).Inc()
	age := seconds(now.Sub(after.CreationTimestamp.Time))
	switch {
	case to == metal3.StateAvailable && from != metal3.StateDeprovisioning && before.Status.Record.FirstAvailableAt == nil:
		timeToAvailable.Observe(age)
	case to == metal3.StateProvisioned && from == metal3.StateProvisioning && current.Deprovision.Start.IsZero():
		timeToProvisioned.Observe(age)
	}
}

// enteredState returns when a host came into its provisioning state.
func enteredState(host *metal3.BareMetalHost) time.Time {
	entered := host.CreationTimestamp.Time
	if state := host.Status.Record.State; state != nil && state.Since.After(entered) {
		entered = state.Since.Time
	}
	return entered
}

// isLeftAlone reports whether nothing is done for a host because somebody wants it so: it is paused, detached or in a maintenance that
// Ironic has not begun itself; or it is deleted, and waits only for the finalizers of others.
func isLeftAlone(host *metal3.BareMetalHost) bool {
	return metal3.IsPaused(host) || host.IsDetached() || lifecycle.IsInMaintenance(host) ||
		host.DeletionTimestamp != nil && !slices.Contains(host.Finalizers, metal3.BareMetalHostFinalizer)
}

// isBMCUnreachable reports whether Ironic does not get through to a host's BMC: it is silent, refuses the user, or has no TLS in common
// with Ironic. The type of the host's error does not tell: it is that of what Ironic was about to do, and that of a hold is the same as
// of a registration. What fails behind a hold counts, too.
func isBMCUnreachable(host *metal3.BareMetalHost) bool {
	status := &host.Status
	if status.Record.Hold != nil {
		status = lifecycle.BehindHold(host)
	}
	for _, cause := range []metal3.ErrorCause{metal3.BMCSilent, metal3.BMCSilentOrRefuses, metal3.BMCRefuses, metal3.BMCNoAccess} {
		if hasCause(status, cause) {
			return true
		}
	}
	// Ironic sets this fault, and tries the BMC again every five minutes. Its words for it are those of the driver.
	return status.Ironic != nil && status.Ironic.Fault == ironic.FaultPowerFailure
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
	if slices.Contains(known, value) {
		return string(value)
	}
	return "other"
}
