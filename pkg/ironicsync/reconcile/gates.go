// SPDX-License-Identifier: Apache-2.0

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
	// greed leaves a tenth of what there is to others than the namespace that takes most: 45 of these 50 tries are for one
	// namespace at most.
	greed = 9
	// minShared is the least provisioning limit of which a tenth is left to others.
	minShared = 10
	// maxWorking bounds the hosts for which a worker of Ironic's is busy, so that one tenant's BMCs that never answer leave
	// workers to others: 54 are for one namespace at most, and virtual drives take 36 others. A namespace that has Ironic to
	// itself has no bound.
	maxWorking = 60
	// retriesPerSecond bounds how fast such tries follow each other where they fail at
	// once: a single process of Ironic verifies some 37 BMCs per second and does
	// nothing else then.
	retriesPerSecond = 10
	// maxMoves bounds the hosts for which another Ironic is asked at a time whether it can take them, because it may hang.
	maxMoves = 10
)

// The groups of hosts that the gates count.
const (
	busyHosts    hostindex.Group = "busy"
	workerHosts  hostindex.Group = "worker"
	lockedHosts  hostindex.Group = "locked"
	managedHosts hostindex.Group = "managed"
	// registeredHosts are those whose nodes are in the Ironic, or were lost by it.
	registeredHosts hostindex.Group = "registered"
	// movingHosts are those on whose nodes the Ironic is at work.
	movingHosts hostindex.Group = "moving"
)

// newIndex returns an index of the hosts with the groups that the gates count.
func newIndex(hosts hostindex.ListWatcher, settings Settings) *hostindex.Index {
	return hostindex.New(hosts, map[hostindex.Group]func(*metal3.BareMetalHost) bool{
		busyHosts:    func(host *metal3.BareMetalHost) bool { return settings.manages(host) && isBusy(host) },
		workerHosts:  func(host *metal3.BareMetalHost) bool { return settings.manages(host) && hasWorker(host) },
		lockedHosts:  func(host *metal3.BareMetalHost) bool { return settings.manages(host) && isLocked(host) },
		managedHosts: settings.manages,
		registeredHosts: func(host *metal3.BareMetalHost) bool {
			return lifecycle.IsNodeExpected(host) && !host.IsDetached()
		},
		movingHosts: func(host *metal3.BareMetalHost) bool {
			s := host.Status.Ironic
			return s != nil && (ironic.ProvisionState(s.ProvisionState).IsInTransit() || s.TargetPowerState != "")
		},
	})
}

// gates bound how many hosts an Ironic works on at a time, and requeue those that wait when there is room.
type gates struct {
	ironic string
	hosts  *hostindex.Index
	queue  *Queue
	clock  clock.PassiveClock
	// provisioning bounds the hosts that the provisioning limit is about.
	provisioning *limit.Gate
	// retries bounds the tries of BMCs that were silent before; those that have waited
	// longest begin first.
	retries *limit.Gate
	// working bounds the hosts that occupy workers of Ironic's.
	working *limit.Gate
	// deployments are the places of steps that wait for image servers. As many connections to Ironic are for them.
	deployments *limit.Places
	// moves are the places of steps that wait for the Ironic to which a host is to be moved.
	moves *limit.Places
}

func newGates(ironicName string, hosts *hostindex.Index, queue *Queue, provisioningLimit int, clock clock.PassiveClock) *gates {
	g := &gates{ironic: ironicName, hosts: hosts, queue: queue, clock: clock}
	g.provisioning = limit.New(provisioningLimit, g.busy)
	if provisioningLimit >= minShared {
		g.provisioning.WithShares(g.greed)
	}
	g.retries = limit.NewPaced(maxRetrying, retriesPerSecond, g.retrying).WithShares(g.greed)
	g.working = limit.New(maxWorking, g.locked).WithShares(g.greed)
	wake := func(namespace, name string) { queue.Add(types.NamespacedName{Namespace: namespace, Name: name}) }
	g.deployments = limit.NewPlaces(ironic.DeploymentConnections, 1, wake)
	g.moves = limit.NewPlaces(maxMoves, 1, wake)
	return g
}

// mayTry reports whether a step may be taken now, given how many hosts with silent BMCs
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

// greed is the greed of a namespace if there are others with hosts.
func (g *gates) greed() int {
	if len(g.hosts.Namespaces(g.ironic, managedHosts)) > 1 {
		return greed
	}
	return 0
}

// mayWork reports whether a step may be taken now, given how many of Ironic's workers are busy. If not, the host is requeued when
// it may.
func (g *gates) mayWork(host *metal3.BareMetalHost, step lifecycle.Step) bool {
	switch {
	case step.OccupiesWorker():
		return isLocked(host) || g.greed() == 0 || g.working.TryStart(host.Namespace, host.Name)
	case !isLocked(host):
		g.leave(g.working, keyOf(host)) // it is done, or was not begun
	}
	return true
}

// locked counts the hosts on whose nodes Ironic works, by namespace.
func (g *gates) locked() map[string]int {
	counts := map[string]int{}
	now := g.clock.Now()
	for _, host := range g.hosts.InGroup(g.ironic, lockedHosts) {
		if since := host.Status.LastUpdated; since == nil || now.Sub(since.Time) <= ironic.SilentBMCLimit {
			counts[host.Namespace]++
		}
	}
	return counts
}

// busy counts the hosts that the provisioning limit is about, by namespace.
func (g *gates) busy() map[string]int { return g.hosts.Count(g.ironic, busyHosts) }

// retrying counts the hosts that maxRetrying is about, by namespace.
func (g *gates) retrying() map[string]int {
	counts := map[string]int{}
	now := g.clock.Now()
	for _, host := range g.hosts.InGroup(g.ironic, workerHosts) {
		if isRetrying(host, now) {
			counts[host.Namespace]++
		}
	}
	return counts
}

// hostChanged requeues the hosts that there is room for after a change of a host.
func (g *gates) hostChanged(before, host *metal3.BareMetalHost) {
	if before.Status.Record.Ironic != g.ironic && host.Status.Record.Ironic != g.ironic {
		return
	}
	now := g.clock.Now()
	g.passed(g.provisioning, host, isBusy(before), isBusy(host))
	g.passed(g.retries, host, isRetrying(before, now), isRetrying(host, now))
	g.passed(g.working, host, isLocked(before), isLocked(host))
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

// enterDeployment reports whether a deployment may be requested now, which waits for the server of an image. If not, the host is
// requeued when it may, and is to be delayed, so that it keeps no place from others until then: the server may never answer
// those that are before it.
func (g *gates) enterDeployment(host *metal3.BareMetalHost) bool {
	if !g.deployments.TryEnter(host.Namespace, host.Name) {
		g.leave(g.provisioning, keyOf(host))
		return false
	}
	if isExempt(host) || isBusy(host) || g.provisioning.TryStart(host.Namespace, host.Name) {
		return true
	}
	g.deployments.Leave(host.Namespace)
	return false
}

// leaveDeployment ends what enterDeployment has begun. A host whose deployment Ironic has accepted keeps its place until it is
// seen at work: by the index, which may lag behind several steps of the host.
func (g *gates) leaveDeployment(host *metal3.BareMetalHost, accepted bool) {
	g.deployments.Leave(host.Namespace)
	key := keyOf(host)
	if accepted && !isExempt(host) {
		g.provisioning.Keep(key.Namespace, key.Name)
		if !isBusy(g.hosts.Get(key)) {
			return
		}
	}
	g.leave(g.provisioning, key)
}

// hostGone frees the places of a host that is gone.
func (g *gates) hostGone(host types.NamespacedName) {
	g.leave(g.provisioning, host)
	g.leave(g.retries, host)
	g.leave(g.working, host)
	g.deployments.Forget(host.Namespace, host.Name)
	g.moves.Forget(host.Namespace, host.Name)
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
	g.wake(g.working)
	g.deployments.Wake()
	g.moves.Wake()
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

// isBusy reports whether Ironic is at work on the host in a way that the
// provisioning limit is about. Between its cleaning and its deployment a host keeps its
// place, unless it is delayed: another one that took it would be at work beside it.
func isBusy(host *metal3.BareMetalHost) bool {
	if host == nil || host.Status.Ironic == nil {
		return false
	}
	return limit.Counts(ironic.ProvisionState(host.Status.Ironic.ProvisionState), bootInterface(host)) ||
		isAboutToDeploy(host) && !isExempt(host)
}

// isAboutToDeploy reports whether a deployment of the host is the next step, and nothing
// keeps it back.
func isAboutToDeploy(host *metal3.BareMetalHost) bool {
	status := &host.Status
	return status.Provisioning.State == metal3.StateProvisioning && status.Ironic.ProvisionState == string(ironic.Available) &&
		status.OperationalStatus == metal3.OperationalStatusOK && !status.Ironic.Maintenance && !metal3.IsPaused(host)
}

// isRetrying reports whether one of Ironic's workers is busy with a BMC that may not
// answer, and not for longer than that can take.
func isRetrying(host *metal3.BareMetalHost, now time.Time) bool {
	if !hasWorker(host) {
		return false
	}
	since := host.Status.LastUpdated
	return since == nil || now.Sub(since.Time) <= ironic.SilentBMCLimit
}

// hasWorker reports whether one of Ironic's workers is busy with a BMC that may not answer.
func hasWorker(host *metal3.BareMetalHost) bool {
	if host == nil || host.Status.Ironic == nil || host.Status.Ironic.Reservation == "" {
		return false
	}
	return host.Status.ErrorCount > 0 || host.Status.Ironic.ProvisionState == string(ironic.Verifying)
}

// isLocked reports whether Ironic works on the host's node.
func isLocked(host *metal3.BareMetalHost) bool {
	return host != nil && host.Status.Ironic != nil && host.Status.Ironic.Reservation != ""
}

// isExempt reports whether the provisioning limit is not about the host.
func isExempt(host *metal3.BareMetalHost) bool { return limit.Exempt(bootInterface(host)) }

func bootInterface(host *metal3.BareMetalHost) string {
	access, err := bmc.Parse(host.Spec.BMC.Address, true)
	if err != nil {
		return ""
	}
	return access.BootInterface
}
