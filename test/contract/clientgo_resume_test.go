// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestClientGoDroppedConnection: a connection breaks, hosts change meanwhile, and
// informers go on where they were: they are told of each change once, and ask for
// no list again. So does client-go's RetryWatcher.
func TestClientGoDroppedConnection(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	first := idleHost(t, ctx, ns, "first")
	line, config := testbed.NewFlakyLine(t, s.Config)
	informers := newInformers(t, config, ns)
	for _, i := range informers {
		i.start(t, ctx)
	}
	watcher, told := retryWatch(t, ctx, config, ns, first.ResourceVersion)
	defer watcher.Stop()

	// client-go takes a watch that ends at once, without an event, for one that cannot
	// work, and lists again. So each connection brings an event before it is cut.
	var want []change
	for round := range 4 {
		if round > 0 {
			line.Cut()
		}
		want = append(want, writeHistory(t, ctx, ns, fmt.Sprintf("round-%d", round))...)
		if round > 0 {
			line.Mend(t, t.Context())
		}
		last := want[len(want)-1]
		for name, i := range informers {
			arrives(t, ctx, name, &i.journal, last)
		}
		arrives(t, ctx, "RetryWatcher", told, last)
	}
	for name, i := range informers {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, only(want, i.changes())); diff != "" {
				t.Errorf("of what was written, the informer was told (-want +got):\n%s", diff)
			}
			if n := lists(i.requests.take()); n != 1 {
				t.Errorf("the informer asked for a list %d times, want once", n)
			}
			comes(t, ctx, func() string { return i.has(versionsIn(t, ctx, ns)) })
		})
	}
	if diff := cmp.Diff(want, only(want, told.changes())); diff != "" {
		t.Errorf("of what was written, the RetryWatcher was told (-want +got):\n%s", diff)
	}
}

// retryWatch follows the hosts of a namespace from a version on.
func retryWatch(t *testing.T, ctx context.Context, config *rest.Config, ns, version string) (*watchtools.RetryWatcher, *journal) {
	t.Helper()
	client := clientFor(t, config)
	told := &journal{}
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.Metal3V1alpha1().BareMetalHosts(ns).Watch(ctx, options)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for event := range watcher.ResultChan() {
			told.add(event.Type, event.Object)
		}
	}()
	return watcher, told
}

// arrives waits until whoever watches was told of a change.
func arrives(t *testing.T, ctx context.Context, who string, told *journal, what change) {
	t.Helper()
	comes(t, ctx, func() string {
		if slices.Contains(told.changes(), what) {
			return ""
		}
		return fmt.Sprintf("%s was not told of %v", who, what)
	})
}

// only keeps those changes that were written: our server records what it observes
// beside.
func only(written, told []change) []change {
	return slices.DeleteFunc(slices.Clone(told), func(c change) bool { return !slices.Contains(written, c) })
}
