// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	listers "github.com/metal3-io/metal3-apiserver/pkg/generated/listers/metal3/v1alpha1"
)

// fleet is a selection of hosts that is kept up to date by a watch. Its informer is stopped by the
// context and by stop.
type fleet struct {
	// changed receives a value after a change, of the hosts or of the connection.
	changed chan struct{}
	lister  listers.BareMetalHostLister
	stop    func()

	mu      sync.Mutex
	problem string
	// refusedSince is when the server began to answer 401 or 403; zero if it does not. If that lasts, fatal is set.
	refusedSince time.Time
	fatal        error
}

// refusedGrace is how long 401 and 403 are put up with: a kube-apiserver that has just started answers so until it has read
// its RBAC rules, and one whose authenticator does not answer does so, too. Tokens are renewed meanwhile.
const refusedGrace = time.Minute

// watchFleet lists hosts and starts to watch them. It returns the error of the list, such as
// missing rights, and waits until the hosts are known.
func watchFleet(ctx context.Context, c *clients, namespace string, options metav1.ListOptions) (*fleet, error) {
	// An informer would repeat a forbidden list for ever.
	one := options
	one.Limit = 1
	if _, err := c.listHosts(ctx, namespace, one); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	f := &fleet{changed: make(chan struct{}, 1)}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector, o.FieldSelector = options.LabelSelector, options.FieldSelector
			return c.hosts(namespace).List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector, o.FieldSelector = options.LabelSelector, options.FieldSelector
			w, err := c.hosts(namespace).Watch(ctx, o)
			if err != nil {
				f.failed(err) // the reflector repeats a refused connection, and a 429, without telling of it
				return nil, err
			}
			f.works() // nothing may happen to the hosts for long
			return w, nil
		},
	}, c.metal3), &metal3.BareMetalHost{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	f.lister = listers.NewBareMetalHostLister(informer.GetIndexer())
	var running sync.WaitGroup
	f.stop = func() { cancel(); running.Wait() }
	if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { f.failed(err) }); err != nil {
		f.stop()
		return nil, err
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { f.notify() },
		UpdateFunc: func(any, any) { f.notify() },
		DeleteFunc: func(any) { f.notify() },
	})
	if err != nil {
		f.stop()
		return nil, err
	}
	running.Go(func() { informer.RunWithContext(ctx) })
	ready := func() bool { return informer.HasSynced() || f.lost() != nil }
	if !cache.WaitForCacheSync(ctx.Done(), ready) {
		f.stop()
		return nil, context.Cause(ctx)
	}
	f.notify()
	return f, nil
}

// hosts returns all hosts. They must not be changed.
func (f *fleet) hosts() []*metal3.BareMetalHost {
	hosts, err := f.lister.List(labels.Everything())
	if err != nil {
		return nil // a lister never fails
	}
	return hosts
}

// notice says that what is shown may be old, or is empty.
func (f *fleet) notice() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.problem
}

// lost returns the error that ends the watch for good, or nil.
func (f *fleet) lost() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fatal
}

func (f *fleet) notify() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// works is called when a watch has begun: the connection is there.
func (f *fleet) works() {
	f.mu.Lock()
	f.problem, f.refusedSince = "", time.Time{}
	f.mu.Unlock()
	f.notify()
}

// failed is called when a list or a watch could not be begun, or has ended with an error. The informer tries again.
func (f *fleet) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch now := time.Now(); {
	case errors.Is(err, context.Canceled), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return // it is stopped, or lists again after a long pause
	case !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err):
		f.problem, f.refusedSince = fmt.Sprintf("the connection was lost: %s", err), time.Time{}
	case f.refusedSince.IsZero():
		f.refusedSince = now
		fallthrough
	case now.Sub(f.refusedSince) < refusedGrace:
		f.problem = fmt.Sprintf("the server refuses: %s", err)
	default:
		f.fatal = err
	}
	f.notify()
}

// noticeLifetime is how long a warning of the server is shown. The server repeats those that
// still hold.
const noticeLifetime = time.Minute

// notices keeps the latest warning of the server.
type notices struct {
	mu   sync.Mutex
	text string
	at   time.Time
}

// HandleWarningHeader implements rest.WarningHandler.
func (n *notices) HandleWarningHeader(_ int, _ string, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.text, n.at = text, time.Now()
}

func (n *notices) latest(now time.Time) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.text == "" || now.Sub(n.at) > noticeLifetime {
		return ""
	}
	return "Warning: " + n.text
}
