// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
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
	fatal   error
}

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
			if err == nil {
				f.works() // nothing may happen to the hosts for long
			}
			return w, err
		},
	}, c.metal3), &metal3.BareMetalHost{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	f.lister = listers.NewBareMetalHostLister(informer.GetIndexer())
	var running sync.WaitGroup
	f.stop = func() { cancel(); running.Wait() }
	if err := informer.SetWatchErrorHandlerWithContext(f.watchFailed); err != nil {
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
	f.problem = ""
	f.mu.Unlock()
	f.notify()
}

// watchFailed is called when a list or a watch has ended with an error. The informer tries again.
func (f *fleet) watchFailed(_ context.Context, _ *cache.Reflector, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		f.fatal = err
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		return // usual after a long pause: the informer lists again
	default:
		f.problem = fmt.Sprintf("the connection was lost: %s", err)
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
