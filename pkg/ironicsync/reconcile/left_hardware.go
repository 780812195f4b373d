// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
)

// The finalizer of a HardwareData is removed with that of its host (executor/release.go). A host whose finalizer
// somebody else has removed, because its Ironic will never come back, leaves it behind, and its namespace could never
// be deleted.

// newLeftQueue returns the queue of the HardwareData to look at. Their retries are those of other kinds.
func newLeftQueue() workqueue.TypedRateLimitingInterface[types.NamespacedName] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](time.Second, 5*time.Minute))
}

// run works until ctx ends, and returns when everything it started has ended.
func (g *givenHardware) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { g.informer.RunWithContext(ctx) })
	running.Go(func() {
		for g.letNextGo(ctx) {
		}
	})
	<-ctx.Done()
	g.left.ShutDown() // wakes letNextGo up
}

// letNextGo works on the next one that is left. It returns false if there will be none.
func (g *givenHardware) letNextGo(ctx context.Context) bool {
	key, shutdown := g.left.Get()
	if shutdown {
		return false
	}
	defer g.left.Done(key)
	limited, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	if err := g.letGo(limited, key); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Info("The finalizer of a HardwareData without a host cannot be removed now, trying again", "hardwareData", key, "err", err)
		g.left.AddRateLimited(key)
		return true
	}
	g.left.Forget(key)
	return true
}

// letGo removes our finalizer from a HardwareData that is being deleted and has no host. The host is read after the
// HardwareData, and that is written only as it was read: it may be a new host's by then.
func (g *givenHardware) letGo(ctx context.Context, key types.NamespacedName) error {
	if known, exists := g.known(key); !exists || known.DeletionTimestamp.IsZero() {
		return nil
	}
	data, err := g.store.Get(ctx, key.Namespace, key.Name)
	if err != nil || data.DeletionTimestamp.IsZero() {
		return kinds.IgnoreNotFound(err)
	}
	switch _, err := g.hosts.Get(ctx, key.Namespace, key.Name); {
	case err == nil:
		return nil // it is looked at again when the host is gone
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("reading host %s: %w", key, err)
	}
	return kinds.RemoveFinalizer(ctx, g.store, data, metal3.HardwareDataFinalizer)
}
