// SPDX-License-Identifier: Apache-2.0

package bmo

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// DefaultNamespaces are those in which the operator runs as its manifests, its Helm chart, OpenShift and older releases of
// Cluster API Provider Metal3 install it.
var DefaultNamespaces = []string{"baremetal-operator-system", "openshift-machine-api", "metal3-system", "capm3-system"}

const (
	// lookInterval is how often the Leases are looked at.
	lookInterval = 5 * time.Second
	// quiet is how long nothing must have been seen of the operator before it counts as gone. Its Lease lasts up to 137 s.
	quiet = 3 * time.Minute
	// lookTimeout limits a look.
	lookTimeout = 5 * time.Second
)

// advice ends all reasons.
const advice = "Two controllers of the same machines undo each other's work, so nothing is asked of Ironic for any host. Stop the operator for good (kubectl scale deployment --replicas=0), and what starts it again: GitOps, OLM, the cluster-baremetal-operator. This server goes on when it has seen nothing of the operator for three minutes"

// Watch looks for signs of the operator.
type Watch struct {
	leases     coordinationclient.LeasesGetter
	namespaces []string
	clock      clock.Clock
	changed    func(reason string)
	// seen has the Leases as they were at the last look, by namespace: nil where there was none, and nothing where no look was possible
	// yet. It and blind, which has the namespaces in which the Lease may not be read, are used by Learn and Run alone.
	seen  map[string]*coordinationv1.Lease
	blind map[string]bool

	mu     sync.Mutex
	reason string
	last   time.Time
}

// NewWatch returns a Watch that looks at the operator's Leases in the given namespaces. It calls changed whenever Reason has
// changed, which must not block.
func NewWatch(leases coordinationclient.LeasesGetter, namespaces []string, clock clock.Clock, changed func(reason string)) *Watch {
	return &Watch{leases: leases, namespaces: namespaces, clock: clock, changed: changed, seen: map[string]*coordinationv1.Lease{}, blind: map[string]bool{}}
}

// Reason returns that the operator is at work, and how that shows; it is empty if nothing was seen of it for a while.
func (w *Watch) Reason() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reason
}

// Learn finds out whether somebody renews one of the operator's Leases, which takes up to a minute for one that may be held. It
// must be called before machines are touched.
func (w *Watch) Learn(ctx context.Context) error {
	for _, namespace := range w.namespaces {
		lease, may, err := w.get(ctx, namespace)
		if err != nil {
			return err
		}
		if !may {
			continue
		}
		w.seen[namespace] = lease
		if lease == nil {
			continue
		}
		renewed, err := IsRenewed(ctx, w.leases, lease)
		if err != nil {
			return err
		}
		if renewed {
			w.noteLease(lease)
		}
	}
	return nil
}

// Run looks at the Leases until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.clock.After(wait.Jitter(lookInterval, 0.1)):
		}
		for _, namespace := range w.namespaces {
			w.look(ctx, namespace)
		}
		w.endIfQuiet()
	}
}

// look compares a Lease with what it was at the last look.
func (w *Watch) look(ctx context.Context, namespace string) {
	lease, may, err := w.get(ctx, namespace)
	if err != nil {
		if ctx.Err() == nil {
			klog.ErrorS(err, "Whether the Bare Metal Operator is at work is not known, and stays as it was")
		}
		return
	}
	if !may {
		return
	}
	before, known := w.seen[namespace]
	w.seen[namespace] = lease
	if !known || lease == nil {
		return // a Lease that could not be read until now may have been left over
	}
	if before == nil {
		before = &coordinationv1.Lease{} // it has been created since
	}
	if isRenewal(before, lease) {
		w.noteLease(lease)
	}
}

// get returns a Lease of the operator; nil if there is none. may is false if this server may not read it.
func (w *Watch) get(ctx context.Context, namespace string) (lease *coordinationv1.Lease, may bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	lease, err = w.leases.Leases(namespace).Get(ctx, Name, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		if !w.blind[namespace] {
			klog.ErrorS(err, "The Lease of the Bare Metal Operator may not be read, and the operator may not be noticed: apply the ClusterRole of this server", "namespace", namespace)
		}
		w.blind[namespace] = true
		return nil, false, nil
	case err != nil && !apierrors.IsNotFound(err):
		return nil, false, fmt.Errorf("looking for Lease %s/%s of the Bare Metal Operator: %w", namespace, Name, err)
	}
	if w.blind[namespace] {
		klog.InfoS("The Lease of the Bare Metal Operator may be read again", "namespace", namespace)
	}
	delete(w.blind, namespace)
	if err != nil {
		return nil, true, nil
	}
	return lease, true, nil
}

func (w *Watch) noteLease(lease *coordinationv1.Lease) {
	w.note(fmt.Sprintf("The Bare Metal Operator is running: Lease %s/%s is being renewed by %s. %s", lease.Namespace, lease.Name, holderOf(lease), advice))
}

// HostChanged notices that the operator has written the status of a host. old is nil if the host has just appeared, and host if it
// is gone.
func (w *Watch) HostChanged(old, host *metal3.BareMetalHost) {
	if old != nil && host != nil && old.UID == host.UID && WritesStatus(old, host) {
		klog.V(1).InfoS("The Bare Metal Operator has written the status of a host", "host", klog.KObj(host))
		// The host is not named, because the reason is shown in all namespaces.
		w.note("The Bare Metal Operator is running: it writes the statuses of hosts. " + advice)
	}
}

// Recall has signs count that a former leader has seen a moment ago: hosts are still held for them. It must be called before
// machines are touched.
func (w *Watch) Recall(hosts []*metal3.BareMetalHost) {
	for _, host := range hosts {
		if hold := host.Status.Record.Hold; hold != nil && hold.Reason == metal3.OperatorRunningReason {
			w.note(hold.Message)
			return
		}
	}
}

// WritesStatus reports whether the operator has written the status between two versions of a host. Whoever may not write the
// statuses of all namespaces cannot feign this: see the strategies of hosts.
func WritesStatus(old, host *metal3.BareMetalHost) bool {
	wrote := func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == Name && entry.Subresource == "status" && !slices.ContainsFunc(old.ManagedFields, func(before metav1.ManagedFieldsEntry) bool {
			return before.Manager == entry.Manager && before.Subresource == entry.Subresource && before.Operation == entry.Operation &&
				before.APIVersion == entry.APIVersion && before.Time.Equal(entry.Time)
		})
	}
	return slices.ContainsFunc(host.ManagedFields, wrote)
}

// note notes a sign. The reason remains that of the first one, so that hosts are not written again for each.
func (w *Watch) note(reason string) {
	w.mu.Lock()
	w.last = w.clock.Now()
	isNew := w.reason == ""
	if isNew {
		w.reason = reason
	}
	w.mu.Unlock()
	if isNew {
		klog.InfoS("All hosts are held", "reason", reason)
		w.changed(reason)
	}
}

func (w *Watch) endIfQuiet() {
	w.mu.Lock()
	ends := w.reason != "" && w.clock.Since(w.last) > quiet
	if ends {
		w.reason = ""
	}
	w.mu.Unlock()
	if ends {
		klog.InfoS("Nothing has been seen of the Bare Metal Operator for a while, and this server goes on", "time", quiet)
		w.changed("")
	}
}
