package reconcile

import (
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/events"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/hostindex"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/registrar"
)

// watcher requeues hosts when something changes on which their next step depends, and tells of changes
// in events and metrics.
type watcher struct {
	queue  *Queue
	hosts  *hostindex.Index
	claims *registrar.Claims
	gates  *gates
	events EventSink
	clock  clock.PassiveClock
}

// hostChanged requeues a host that has changed, and those that wait for it.
func (w *watcher) hostChanged(before, host *metal3.BareMetalHost) {
	switch {
	case host == nil:
		w.requeueSharing(before)
		w.gates.hostGone(before)
		w.queue.forgetBackoff(keyOf(before))
	case before == nil:
		w.queue.Add(keyOf(host))
	default:
		for _, event := range events.Changes(before, host) {
			w.events.Record(host, event)
			if event.Failure {
				hostErrors.WithLabelValues(event.Reason).Inc()
			}
		}
		measure(before, host, w.clock.Now())
		if !lifecycle.OnlyAsked(before, host) { // by the step that is being taken, which says when to plan again
			w.queue.Add(keyOf(host))
		}
		if before.Spec.BMC.Address != host.Spec.BMC.Address {
			w.requeueSharing(before)
		}
		w.gates.hostChanged(before, host)
	}
}

// requeueSharing requeues the hosts that wait for the host's BMC.
func (w *watcher) requeueSharing(host *metal3.BareMetalHost) {
	for _, other := range w.claims.SharingBMC(host) {
		w.queue.Add(keyOf(other))
	}
}

// secretChanged requeues the hosts that name a Secret.
func (w *watcher) secretChanged(namespace, name string) {
	for _, host := range w.hosts.WithSecret(namespace, name) {
		w.queue.Add(keyOf(host))
	}
}

// requeueAll requeues every host.
func (w *watcher) requeueAll() {
	for _, host := range w.hosts.All() {
		w.queue.Add(keyOf(host))
	}
}
