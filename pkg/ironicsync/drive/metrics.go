package drive

import (
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/drive/events"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
)

// No metric has a label for the host: with 10,000 of them, each such metric would be tens of
// thousands of time series. Those that the Bare Metal Operator has, too, have its names and its
// other labels, so that existing dashboards show them.

// durationBuckets are for what machines take: from half a minute to the day that the cleaning of
// large disks may last.
var durationBuckets = []float64{30, 60, 120, 180, 300, 420, 600, 900, 1200, 1800, 2700, 3600, 5400, 7200, 14400, 28800, 86400}

var (
	heldSteps = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace:      "metal3",
		Subsystem:      "host",
		Name:           "held_total",
		Help:           "How often a host was found whose machine is left alone, because what is recorded of it contradicts what Ironic says, by the reason of the condition Held.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"reason"})

	steps = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace:      "metal3",
		Subsystem:      "host",
		Name:           "steps_total",
		Help:           "Steps taken for hosts by the leader, by what was done and the result: done, failed, or postponed because the host was written or the node was locked meanwhile.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"action", "result"})

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

	powerChanges = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace:      "metal3",
		Subsystem:      "operation",
		Name:           "power_change_total",
		Help:           "Machines that were switched on or off because of spec.online.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"on_off"})

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
		Help:           "Duration of the deprovisioning of hosts, as in status.operationHistory.",
		Buckets:        durationBuckets,
		StabilityLevel: metrics.ALPHA,
	})
)

// Values of the label result of steps. A step is postponed if somebody has written the host
// meanwhile, or if Ironic has locked the node; it is then planned again at once.
const (
	stepDone      = "done"
	stepPostponed = "postponed"
	stepFailed    = "failed"
)

func stepResult(err error) string {
	switch {
	case live.IgnoreNotFound(err) == nil:
		return stepDone
	case apierrors.IsConflict(err), ironic.IsLocked(err), errors.Is(err, errLookedTooLongAgo), errors.Is(err, errNotLeading):
		return stepPostponed
	}
	return stepFailed
}

// registerMetrics registers the metrics. Counters whose labels have few values
// are there from the beginning with 0, because rate() does not see the increase of one that begins
// with 1.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(heldSteps, steps, hostErrors, timeToAvailable, timeToProvisioned, stateChanges, powerChanges,
		registerDuration, inspectDuration, provisionDuration, deprovisionDuration)
	for _, reason := range []string{metal3.RestoredReason, metal3.AnotherDeploymentReason, metal3.AnotherBMCReason, metal3.BMCInUseReason, metal3.NodeOfAnotherHostReason, metal3.NodeOfAnotherClusterReason} {
		heldSteps.WithLabelValues(reason)
	}
	for action := range executors {
		for _, result := range []string{stepDone, stepPostponed, stepFailed} {
			steps.WithLabelValues(string(action), result)
		}
	}
	for _, reason := range events.FailureReasons() {
		hostErrors.WithLabelValues(reason)
	}
	for _, onOff := range []string{"on", "off"} {
		powerChanges.WithLabelValues(onOff)
	}
})
