// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/component-base/metrics"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

const (
	// maxPollTime is when a poll that has not ended counts as stuck. If Ironic hangs, a poll waits
	// for one of the earlier observations to give up and then for its own, two minutes each, and
	// after that writes for half a minute at most that Ironic is away.
	maxPollTime = 15 * time.Minute
	// maxQueueTime is when a queue of which no worker has taken a host counts as stuck. If Ironic
	// or the cluster hangs, each worker takes another host after stepTimeout.
	maxQueueTime = 10 * time.Minute
	// maxStartTime is when a leader that drives nothing yet counts as stuck. It gives the Lease up by itself
	// after syncTimeout.
	maxStartTime = 2 * time.Minute
)

// LeaderStatus is what metrics and health checks, which exist all the time, say of the Reconciler that
// runs in this process while it leads.
type LeaderStatus struct {
	metrics.BaseStableCollector
	running atomic.Pointer[Reconciler]
	// since is when it began to run.
	since atomic.Pointer[time.Time]
}

// Run runs a Reconciler until ctx ends.
func (s *LeaderStatus) Run(ctx context.Context, c *Reconciler) error {
	s.since.Store(new(c.clock.Now()))
	s.running.Store(c)
	defer s.running.Store(nil)
	return c.Run(ctx)
}

// Name is the name of the health check.
func (s *LeaderStatus) Name() string { return "leader-progress" }

// Check fails if the poll or the queue no longer moves, which only a restart can change. Neither
// an Ironic nor an etcd that hangs makes it fail: all requests to them have time limits.
func (s *LeaderStatus) Check(*http.Request) error {
	c := s.running.Load()
	if c == nil {
		return nil
	}
	drivers := c.running()
	drives := slices.ContainsFunc(drivers, func(d *driver) bool { return d.poller.progress.hasBegun() })
	if since := c.clock.Since(*s.since.Load()); since > maxStartTime && !drives {
		return fmt.Errorf("this replica has been the leader for %s, and drives nothing", since.Round(time.Second))
	}
	for _, d := range drivers {
		err := d.checkProgress()
		if err != nil && d.member.Name != "" {
			err = fmt.Errorf("%s: %w", ironic.DescribeInstance(d.member.Name), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkProgress returns an error if the poll or the queue of a driver no longer moves.
func (c *driver) checkProgress() error {
	if polling := c.poller.progress.since(c.clock.Now()); polling > maxPollTime {
		return fmt.Errorf("the poll of Ironic has not moved for %s", polling.Round(time.Second))
	}
	if stuck := c.queue.waiting.stuckFor(); stuck > maxQueueTime {
		return fmt.Errorf("no worker has taken a host from the queue, which is not empty, for %s", stuck.Round(time.Second))
	}
	return nil
}

// heartbeat reports how long ago a loop last began a round.
type heartbeat struct {
	mu   sync.Mutex
	last time.Time // zero while the loop does not run
	// begun is set after the first round has begun, and stays so.
	begun bool
}

func (h *heartbeat) beat(now time.Time) { h.set(now) }
func (h *heartbeat) stop()              { h.set(time.Time{}) }

func (h *heartbeat) set(last time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last, h.begun = last, true
}

// hasBegun reports whether the loop runs, or has run.
func (h *heartbeat) hasBegun() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begun
}

// since returns the time since the last round began, or 0 if the loop does not run.
func (h *heartbeat) since(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last.IsZero() {
		return 0
	}
	return now.Sub(h.last)
}

var (
	hostsDesc = metrics.NewDesc("metal3_hosts",
		"Hosts by IronicInstance, provisioning state and operational status. Only on the leader.",
		[]string{"ironic", "state", "operational_status"}, nil, metrics.ALPHA, "")
	hostsInErrorDesc = metrics.NewDesc("metal3_hosts_in_error",
		"Hosts with an error, by status.errorType. Only on the leader.",
		[]string{"error_type"}, nil, metrics.ALPHA, "")
	unreachableDesc = metrics.NewDesc("metal3_hosts_bmc_unreachable",
		"Hosts whose BMC does not answer Ironic, refuses its user or has no TLS in common with it, by IronicInstance. Only on the leader.",
		[]string{"ironic"}, nil, metrics.ALPHA, "")
	heldDesc = metrics.NewDesc("metal3_hosts_held",
		"Hosts whose machines are left alone, because what is recorded of them contradicts what Ironic says, by the reason of the condition Held. Only on the leader.",
		[]string{"reason"}, nil, metrics.ALPHA, "")
	longestInStateDesc = metrics.NewDesc("metal3_hosts_longest_in_state_seconds",
		"How long the host has been in the provisioning state that has been there longest, without those that are paused, detached, in maintenance or delayed. Only on the leader.",
		[]string{"state"}, nil, metrics.ALPHA, "")
	slotsDesc = metrics.NewDesc("metal3_provisioning_slots",
		"How many hosts may be inspected, provisioned and deprovisioned at a time (--provisioning-limit), by Ironic; 0 is no limit. Only on the leader.",
		[]string{"ironic"}, nil, metrics.ALPHA, "")
	slotsInUseDesc = metrics.NewDesc("metal3_provisioning_slots_in_use",
		"Hosts that are being inspected, provisioned or deprovisioned and count towards the limit, by Ironic. Only on the leader.",
		[]string{"ironic"}, nil, metrics.ALPHA, "")
	oldestQueuedDesc = metrics.NewDesc("metal3_host_queue_oldest_seconds",
		"For how long the first host in the work queue has been waiting, by Ironic. Only on the leader.",
		[]string{"ironic"}, nil, metrics.ALPHA, "")
	longestStepDesc = metrics.NewDesc("metal3_host_longest_step_seconds",
		"For how long the step for a host that began first, of those that have not ended, has been under way, by Ironic. Only on the leader.",
		[]string{"ironic"}, nil, metrics.ALPHA, "")
)

// DescribeWithStability describes the metrics about all hosts.
func (s *LeaderStatus) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, desc := range []*metrics.Desc{hostsDesc, hostsInErrorDesc, unreachableDesc, heldDesc, longestInStateDesc, slotsDesc, slotsInUseDesc, oldestQueuedDesc, longestStepDesc} {
		ch <- desc
	}
}

// CollectWithStability computes the metrics about all hosts from those that the leader has in
// memory. It makes no request.
func (s *LeaderStatus) CollectWithStability(ch chan<- metrics.Metric) {
	c := s.running.Load()
	if c == nil || !c.index.HasSynced() {
		return
	}
	gauge := func(desc *metrics.Desc, value float64, labels ...string) {
		ch <- metrics.NewLazyConstMetric(desc, metrics.GaugeValue, value, labels...)
	}
	drivers := c.running()
	ironics := make([]string, len(drivers))
	for i, d := range drivers {
		ironics[i] = d.member.Name
	}
	f := countHosts(c.index.All(), ironics, c.clock.Now())
	for key, n := range f.hosts {
		gauge(hostsDesc, float64(n), key.ironic, key.state, key.operationalStatus)
	}
	for errorType, n := range f.inError {
		gauge(hostsInErrorDesc, float64(n), errorType)
	}
	for reason, n := range f.held {
		gauge(heldDesc, float64(n), reason)
	}
	for ironic, n := range f.unreachable {
		gauge(unreachableDesc, float64(n), ironic)
	}
	for state, longest := range f.longest {
		gauge(longestInStateDesc, longest, state)
	}
	for _, d := range drivers {
		inUse := 0
		for _, n := range d.gates.busy() {
			inUse += n
		}
		gauge(slotsDesc, float64(d.settings.ProvisioningLimit), d.member.Name)
		gauge(slotsInUseDesc, float64(inUse), d.member.Name)
		gauge(oldestQueuedDesc, d.queue.waiting.oldest().Seconds(), d.member.Name)
		gauge(longestStepDesc, d.queue.waiting.longestWork().Seconds(), d.member.Name)
	}
}

// fleet is what the metrics say about all hosts. The states that are usual, in each Ironic, all types of errors and
// all reasons to hold a host are always there, so that alerts need not tell 0 from absent.
type fleet struct {
	hosts   map[fleetKey]int
	inError map[string]int
	held    map[string]int
	// unreachable are those whose BMCs Ironic does not get through to, by Ironic.
	unreachable map[string]int
	// longest is how long a host has been in a state at most, of those that the server works on. What somebody has it leave alone stays
	// where it is for as long as they like, and what is delayed for as long as those before it take, which count themselves.
	longest map[string]float64
}

type fleetKey struct{ ironic, state, operationalStatus string }

// countHosts counts hosts, of which each may have its node in an Ironic that is none of the given ones.
func countHosts(hosts []*metal3.BareMetalHost, ironics []string, now time.Time) fleet {
	f := fleet{hosts: map[fleetKey]int{}, inError: map[string]int{}, held: map[string]int{}, unreachable: map[string]int{}, longest: map[string]float64{}}
	for _, ironic := range ironics {
		for _, state := range provisioningStates {
			f.hosts[fleetKey{ironic, string(state), string(metal3.OperationalStatusOK)}] = 0
		}
		f.unreachable[ironic] = 0
	}
	for _, errorType := range errorTypes {
		f.inError[string(errorType)] = 0
	}
	reasons := lifecycle.HoldReasons()
	for _, reason := range reasons {
		f.held[reason] = 0
	}
	for _, host := range hosts {
		status := &host.Status
		state := stateLabel(status.Provisioning.State)
		f.hosts[fleetKey{status.Record.Ironic, state, labelValue(status.OperationalStatus, operationalStatuses)}]++
		if !isLeftAlone(host) && status.OperationalStatus != metal3.OperationalStatusDelayed {
			f.longest[state] = max(f.longest[state], seconds(now.Sub(enteredState(host))))
		}
		if status.ErrorType != "" {
			f.inError[labelValue(status.ErrorType, errorTypes)]++
		}
		if hold := status.Record.Hold; hold != nil {
			f.held[labelValue(hold.Reason, reasons)]++
		}
		if isBMCUnreachable(host) {
			f.unreachable[status.Record.Ironic]++
		}
	}
	return f
}
