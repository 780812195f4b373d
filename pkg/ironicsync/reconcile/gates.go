package reconcile

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/hostindex"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/limit"
)

const (
	// maxRetrying bounds the tries to reach BMCs that were silent before. Each keeps a
	// worker of Ironic's busy until the BMC's time-out, a minute or more, and these are
	// half of the workers that Ironic 21.4 has ([conductor]workers_pool_size, 100).
	maxRetrying = 50
	// retriesPerSecond bounds how fast such tries follow each other where they fail at
	// once: a single process of Ironic verifies some 37 BMCs per second and does
	// nothing else then.
	retriesPerSecond = 10
)

// The groups of hosts that the gates count.
const (
	busyHosts   hostindex.Group = "busy"
	workerHosts hostindex.Group = "worker"
)

// newIndex returns an index of the hosts with the groups that the gates count.
func newIndex(hosts hostindex.ListWatcher, settings Settings) *hostindex.Index {
	return hostindex.New(hosts, map[hostindex.Group]func(*metal3.BareMetalHost) bool{
		busyHosts:   func(host *metal3.BareMetalHost) bool { return settings.manages(host) && isBusy(host) },
		workerHosts: func(host *metal3.BareMetalHost) bool { return settings.manages(host) && hasWorker(host) },
	})
}

// gates bound how many hosts Ironic works on at a time, and requeue those that wait when there is room.
type gates struct {
	hosts *hostindex.Index
	queue *Queue
	clock clock.PassiveClock
	// provisioning bounds the hosts that the provisioning limit is about.
	provisioning *limit.Gate
	// retries bounds the tries of BMCs that were silent before; those that have waited
	// longest begin first.
	retries *limit.Gate
}

func newGates(hosts *hostindex.Index, queue *Queue, provisioningLimit int, clock clock.PassiveClock) *gates {
	g := &gates{hosts: hosts, queue: queue, clock: clock}
	g.provisioning = limit.New(provisioningLimit, g.busy)
	g.retries = limit.NewPaced(maxRetrying, retriesPerSecond, g.retrying)
	return g
}

// mayTry tells whether a step may be taken now, given how many hosts with silent BMCs
// are being tried at the moment. If not, the host is requeued when there
// is room. A host of which something was changed (retryNow) does not wait for others.
func (g *gates) mayTry(host *metal3.BareMetalHost, step lifecycle.Step, retryNow bool) bool {
	if !step.Retry {
		// The try is over, or is not wanted any more. (One that goes on keeps its place
		// until the informer, by which tries are counted, shows it.)
		if step.Do == lifecycle.Wait && !isRetrying(host, g.clock.Now()) {
			g.retries.Forget(host.Namespace, host.Name)
		}
		return true
	}
	return retryNow || !mayBeSilentBMC(&host.Status) || g.retries.TryStart(host.Namespace, host.Name)
}

// busy counts the hosts that the provisioning limit is about, by namespace.
func (g *gates) busy() map[string]int { return g.hosts.Count(busyHosts) }

// retrying counts the hosts that maxRetrying is about, by namespace.
func (g *gates) retrying() map[string]int {
	counts := map[string]int{}
	now := g.clock.Now()
	for _, host := range g.hosts.InGroup(workerHosts) {
		if isRetrying(host, now) {
			counts[host.Namespace]++
		}
	}
	return counts
}

// hostChanged requeues the hosts that there is room for after a change of a host.
func (g *gates) hostChanged(before, host *metal3.BareMetalHost) {
	now := g.clock.Now()
	g.passed(g.provisioning, host, isBusy(before), isBusy(host))
	g.passed(g.retries, host, isRetrying(before, now), isRetrying(host, now))
}

// passed tells a gate whether a host was and is among those that it counts.
func (g *gates) passed(gate *limit.Gate, host *metal3.BareMetalHost, wasCounted, isCounted bool) {
	switch {
	case isCounted && !wasCounted:
		gate.Seen(host.Namespace, host.Name)
		g.wake(gate) // until now it was counted as started, too
	case wasCounted && !isCounted:
		g.wake(gate)
	}
}

// hostGone frees the places of a host that is gone.
func (g *gates) hostGone(host *metal3.BareMetalHost) {
	g.leave(g.provisioning, keyOf(host))
	g.leave(g.retries, keyOf(host))
}

// leave frees the place of a host that does not want to start any more.
func (g *gates) leave(gate *limit.Gate, key types.NamespacedName) {
	gate.Forget(key.Namespace, key.Name)
	g.wake(gate)
}

// wakeAll requeues the waiting hosts that there is room for now.
func (g *gates) wakeAll() {
	g.wake(g.provisioning)
	g.wake(g.retries)
}

func (g *gates) wake(gate *limit.Gate) {
	for {
		namespace, name, ok := gate.NextReady()
		if !ok {
			return
		}
		g.queue.Add(types.NamespacedName{Namespace: namespace, Name: name})
	}
}

// isBusy tells whether Ironic is at work on the host in a way that the
// provisioning limit is about. Between its cleaning and its deployment a host keeps
// its place: another one that took it would be at work beside it.
func isBusy(host *metal3.BareMetalHost) bool {
	if host == nil || host.Status.Ironic == nil {
		return false
	}
	return limit.Counts(ironic.ProvisionState(host.Status.Ironic.ProvisionState), bootInterface(host)) ||
		isAboutToDeploy(host) && !isExempt(host)
}

// isAboutToDeploy tells whether a deployment of the host is the next step, and nothing
// keeps it back.
func isAboutToDeploy(host *metal3.BareMetalHost) bool {
	status := &host.Status
	return status.Provisioning.State == metal3.StateProvisioning && status.Ironic.ProvisionState == string(ironic.Available) &&
		status.OperationalStatus == metal3.OperationalStatusOK && !status.Ironic.Maintenance && !metal3.IsPaused(host)
}

// isRetrying tells whether one of Ironic's workers is busy with a BMC that may not
// answer, and not for longer than that can take.
func isRetrying(host *metal3.BareMetalHost, now time.Time) bool {
	if !hasWorker(host) {
		return false
	}
	since := host.Status.LastUpdated
	return since == nil || now.Sub(since.Time) <= ironic.SilentBMCLimit
}

// hasWorker tells whether one of Ironic's workers is busy with a BMC that may not answer.
func hasWorker(host *metal3.BareMetalHost) bool {
	if host == nil || host.Status.Ironic == nil || host.Status.Ironic.Reservation == "" {
		return false
	}
	return host.Status.ErrorCount > 0 || host.Status.Ironic.ProvisionState == string(ironic.Verifying)
}

// isExempt tells whether the provisioning limit is not about the host.
func isExempt(host *metal3.BareMetalHost) bool { return limit.Exempt(bootInterface(host)) }

func bootInterface(host *metal3.BareMetalHost) string {
	access, err := bmc.Parse(host.Spec.BMC.Address, true)
	if err != nil {
		return ""
	}
	return access.BootInterface
}
