// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// readCA is an authority that is read from the cluster while it runs.
type readCA struct {
	dynamiccertificates.CAContentProvider
	content   atomic.Pointer[string]
	listeners []dynamiccertificates.Listener
	runs      atomic.Int32
}

func (c *readCA) Name() string { return "read" }
func (c *readCA) AddListener(listener dynamiccertificates.Listener) {
	c.listeners = append(c.listeners, listener)
}
func (c *readCA) RunOnce(context.Context) error  { return nil }
func (c *readCA) Run(ctx context.Context, _ int) { c.runs.Add(1); <-ctx.Done() }
func (c *readCA) CurrentCABundleContent() []byte {
	if content := c.content.Load(); content != nil {
		return []byte(*content)
	}
	return nil
}

func (c *readCA) read(content string) {
	c.content.Store(&content)
	for _, listener := range c.listeners {
		listener.Enqueue()
	}
}

// countedChanges counts what it is told of.
type countedChanges struct{ atomic.Int32 }

func (c *countedChanges) Enqueue() { c.Add(1) }

// TestClientCAsAreAwaited checks that the server does not begin to serve before it knows who signs the certificates of
// clients, and that it is told of later authorities.
func TestClientCAsAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		users, proxy := &readCA{}, &readCA{}
		serving := &genericapiserver.SecureServingInfo{ClientCA: dynamiccertificates.NewUnionCAContentProvider(users, proxy)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		runClientCA(ctx, serving)
		if _, ok := serving.ClientCA.(dynamiccertificates.ControllerRunner); ok {
			t.Error("the generic API server would run it a second time")
		}
		var told countedChanges
		serving.ClientCA.AddListener(&told)
		awaited := make(chan error, 1)
		go func() { awaited <- awaitClientCA(ctx, serving, proxy) }()
		waits := func(what string) {
			t.Helper()
			time.Sleep(clientCATimeout / 2) // of the bubble
			synctest.Wait()
			if len(awaited) > 0 {
				t.Errorf("it serves before %s is known", what)
			}
		}
		waits("any authority")
		users.read("users")
		waits("the authority of the front proxy")
		proxy.read("proxy")
		if err := <-awaited; err != nil {
			t.Error(err)
		}
		if users.runs.Load() != 1 || proxy.runs.Load() != 1 || told.Load() != 2 {
			t.Errorf("the authorities run %d and %d times and told of %d changes, want 1, 1 and 2", users.runs.Load(), proxy.runs.Load(), told.Load())
		}
	})
}

// TestUsersCAIsAwaited checks that the authority of users is waited for, too, but not for ever: there may be none.
func TestUsersCAIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, read := range []bool{true, false} {
			users, proxy := &readCA{}, &readCA{}
			serving := &genericapiserver.SecureServingInfo{ClientCA: dynamiccertificates.NewUnionCAContentProvider(users, proxy)}
			proxy.read("proxy")
			began := time.Now()
			awaited := make(chan error, 1)
			go func() { awaited <- awaitClientCA(t.Context(), serving, proxy) }()
			want := clientCATimeout
			if read {
				want /= 2
				time.AfterFunc(want, func() { users.read("users") })
			}
			if err := <-awaited; err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took < want || took > want+clientCAProbeInterval {
				t.Errorf("the authority of users was waited for %s, want %s", took, want)
			}
		}
	})
}
