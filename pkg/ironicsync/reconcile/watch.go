// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/events"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/hostindex"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/panics"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/registrar"
)

// hostChanged reports a change in events and metrics, and has the drivers plan the hosts whose next step depends on it.
func (c *Reconciler) hostChanged(before, host *metal3.BareMetalHost) {
	c.deps.Operator.HostChanged(before, host)
	c.report(before, host)
	if host == nil {
		c.hardware.left.Add(keyOf(before)) // which may have been deleted before its host
	}
	for _, d := range c.running() {
		d.watcher.hostChanged(before, host)
	}
}

// report reports a change in events and metrics. If it panics, the host is planned all the same.
func (c *Reconciler) report(before, host *metal3.BareMetalHost) {
	defer panics.Catch(context.Background(), nil, "host", klog.KObj(cmp.Or(host, before)))
	if before != nil && host != nil {
		for _, event := range events.Changes(before, host) {
			c.deps.Events.Record(host, event)
			if event.Failure {
				hostErrors.WithLabelValues(event.Reason).Inc()
			}
		}
		measure(before, host, c.clock.Now())
	}
}

// secretChanged requeues the hosts that name a Secret.
func (c *Reconciler) secretChanged(namespace, name string) {
	hosts := c.index.WithSecret(namespace, name)
	for _, d := range c.running() {
		d.watcher.requeue(hosts)
	}
}

// requeueAll requeues every host.
func (c *Reconciler) requeueAll() {
	for _, d := range c.running() {
		d.watcher.requeueAll()
	}
}

// watcher requeues the hosts of a driver when something changes on which their next step depends.
type watcher struct {
	isMine func(*metal3.BareMetalHost) bool
	queue  *Queue
	hosts  *hostindex.Index
	claims *registrar.Claims
	gates  *gates
}

// hostChanged requeues a host that has changed, and those that wait for it. If it panics, the host itself is planned all the same.
func (w *watcher) hostChanged(before, host *metal3.BareMetalHost) {
	known := cmp.Or(host, before)
	defer panics.Catch(context.Background(), func(error) { w.requeue([]*metal3.BareMetalHost{known}) }, "host", klog.KObj(known))
	switch {
	case host == nil:
		w.requeue(w.claims.SharingBMC(before))
		w.forget(keyOf(before))
		return
	case before == nil:
	case lifecycle.OnlyAsked(before, host): // by the step that is being taken, which says when to plan again
		w.gates.hostChanged(before, host)
		if len(host.Status.Record.PowerOns) > 0 && w.isMine(host) { // or by the subresource power, for which nobody plans
			w.queue.AddAfter(keyOf(host), powerOnLook)
		}
		return
	case before.Spec.BMC.Address != host.Spec.BMC.Address, lifecycle.KeptBMC(before) != lifecycle.KeptBMC(host):
		w.requeue(w.claims.SharingBMC(before))
	}
	w.requeue([]*metal3.BareMetalHost{host})
	if before != nil {
		w.gates.hostChanged(before, host)
	}
}

// powerOnLook is after what time it is looked whether a recorded request to switch a machine on has got its answer. Requests of the
// subresource power have by then (actionTimeout of its package), unless they get none.
const powerOnLook = 20 * time.Second

// forget drops what is remembered of a host that is gone.
func (w *watcher) forget(key types.NamespacedName) {
	w.gates.hostGone(key)
	w.queue.forgetBackoff(key)
}

// requeueAll requeues every host of the driver.
func (w *watcher) requeueAll() { w.requeue(w.hosts.All()) }

// requeue requeues those of the hosts that are the driver's.
func (w *watcher) requeue(hosts []*metal3.BareMetalHost) {
	for _, host := range hosts {
		if w.isMine(host) {
			w.queue.Add(keyOf(host))
		}
	}
}
