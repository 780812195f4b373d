// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/events"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
)

// No metric has a label for the host: with 10,000 of them, each such metric would be tens of
// thousands of time series. Those that the Bare Metal Operator has, too, have its names and its
// other labels, so that existing dashboards show them.

// durationBuckets are for what machines take: from half a minute to the day that the cleaning of
// large disks may last.
var durationBuckets = []float64{30, 60, 120, 180, 300, 420, 600, 900, 1200, 1800, 2700, 3600, 5400, 7200, 14400, 28800, 86400}

var (
	steps = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace:      "metal3",
		Subsystem:      "host",
		Name:           "steps_total",
		Help:           "Steps taken for hosts by the leader, by IronicInstance, what was done and the result: done, failed, or postponed because the host was written or the node was locked meanwhile.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"ironic", "action", "result"})

	hostErrors = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace:      "metal3",
		Subsystem:      "host",
		Name:           "error_total",
		Help:           "Errors of hosts, including those that another try has met again, by the reason of the event that tells of them.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"error_type"})

	timeToAvailable = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace:      "metal3",
		Subsystem:      "host",
		Name:           "time_to_available_seconds",
		Help:           "Time from the creation of a host until it became available for the first time.",
		Buckets:        durationBuckets,
		StabilityLevel: metrics.ALPHA,
	})

	timeToProvisioned = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace:      "metal3",
		Subsystem:      "host",
		Name:           "time_to_provisioned_seconds",
		Help:           "Time from the creation of a host until it was provisioned, of hosts that had never been deprovisioned before.",
		Buckets:        durationBuckets,
		StabilityLevel: metrics.ALPHA,
	})

	stateChanges = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace:      "metal3",
		Subsystem:      "provisioning",
		Name:           "state_change_total",
		Help:           "Changes of the provisioning states of hosts.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"prev_state", "new_state"})

	registerDuration = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace:      "metal3",
		Subsystem:      "operation",
		Name:           "register_duration_seconds",
		Help:           "Duration of registrations of hosts, as in status.operationHistory.",
		Buckets:        append([]float64{1, 2, 5, 10}, durationBuckets...),
		StabilityLevel: metrics.ALPHA,
	})
	inspectDuration = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace:      "metal3",
		Subsystem:      "operation",
		Name:           "inspect_duration_seconds",
		Help:           "Duration of inspections of hosts, as in status.operationHistory.",
		Buckets:        durationBuckets,
		StabilityLevel: metrics.ALPHA,
	})
	provisionDuration = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace:      "metal3",
		Subsystem:      "operation",
		Name:           "provision_duration_seconds",
		Help:           "Duration of the provisioning of hosts, as in status.operationHistory.",
		Buckets:        durationBuckets,
		StabilityLevel: metrics.ALPHA,
	})
	deprovisionDuration = metrics.NewHistogram(&metrics.HistogramOpts{
		Namespace:      "metal3",
		Subsystem:      "operation",
		Name:           "deprovision_duration_seconds",
		Help:           "Duration of the deprovisioning of hosts, as in status.operationHistory; of a deleted host, since its deletion.",
		Buckets:        durationBuckets,
		StabilityLevel: metrics.ALPHA,
	})
)

// Values of the label result of steps. A step is postponed if somebody has written the host
// meanwhile, or if Ironic has locked the node; the next step is then planned at once.
const (
	stepDone      = "done"
	stepPostponed = "postponed"
	stepFailed    = "failed"
)

func stepResult(err error) string {
	switch {
	case live.IgnoreNotFound(err) == nil:
		return stepDone
	case apierrors.IsConflict(err), ironic.IsLocked(err), errors.Is(err, ironic.ErrLookedTooLongAgo), errors.Is(err, ironic.ErrNotLeading):
		return stepPostponed
	}
	return stepFailed
}

// registerMetrics registers the metrics. Counters whose labels have few values
// are there from the beginning with 0, because rate() does not see the increase of one that begins
// with 1.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(steps, hostErrors, timeToAvailable, timeToProvisioned, stateChanges,
		registerDuration, inspectDuration, provisionDuration, deprovisionDuration)
	for _, reason := range events.FailureReasons() {
		hostErrors.WithLabelValues(reason)
	}
})

// countSteps begins to count the steps of the given actions in an Ironic.
func countSteps(ironic string, actions []lifecycle.Action) {
	for _, action := range actions {
		for _, result := range []string{stepDone, stepPostponed, stepFailed} {
			steps.WithLabelValues(ironic, string(action), result)
		}
	}
}

// forgetSteps removes what countSteps has begun. A driver that follows in the same Ironic begins again, as after a restart.
func forgetSteps(ironic string) {
	if steps.IsCreated() {
		steps.DeletePartialMatch(map[string]string{"ironic": ironic})
	}
}
