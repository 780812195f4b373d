// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// watched is what a watcher of one namespace with one host was told.
type watched struct {
	mu    sync.Mutex
	hosts []*metal3.BareMetalHost
}

// watchHosts records the hosts of a namespace until the test ends.
func watchHosts(t *testing.T, ctx context.Context, ns string) *watched {
	t.Helper()
	watcher, err := bed(ctx).Hosts(ns).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{}
	var following sync.WaitGroup
	following.Go(func() {
		for event := range watcher.ResultChan() {
			if host, ok := event.Object.(*metal3.BareMetalHost); ok && event.Type != watch.Bookmark {
				w.mu.Lock()
				w.hosts = append(w.hosts, host)
				w.mu.Unlock()
			}
		}
	})
	t.Cleanup(func() { watcher.Stop(); following.Wait() })
	return w
}

// changes are the values of what, in order and each once in a row.
func changes[T comparable](w *watched, what func(*metal3.BareMetalHost) T) []T {
	w.mu.Lock()
	defer w.mu.Unlock()
	var values []T
	for _, host := range w.hosts {
		values = append(values, what(host))
	}
	return slices.Compact(values)
}

// sawStates waits until the watcher was told of just these states, in order.
func sawStates(t *testing.T, ctx context.Context, w *watched, want ...metal3.ProvisioningState) {
	t.Helper()
	testbed.Eventually(t, ctx, func() string {
		got := changes(w, func(h *metal3.BareMetalHost) metal3.ProvisioningState { return h.Status.Provisioning.State })
		if len(got) > 0 && got[0] == metal3.StateNone {
			got = got[1:]
		}
		if slices.Equal(got, want) {
			return ""
		}
		return fmt.Sprintf("a watcher saw the states %q, want %q", got, want)
	})
}

// hasEvents waits until kubectl describe shows an event of each reason for a host.
func hasEvents(t *testing.T, ctx context.Context, ns, name string, reasons ...string) {
	t.Helper()
	testbed.Eventually(t, ctx, func() string {
		out := kubectl(t, ctx, "", "describe", "bmh", name, "-n", ns)
		_, events, _ := strings.Cut(out, "\nEvents:")
		for _, reason := range reasons {
			if !slices.Contains(strings.Fields(events), reason) {
				return "kubectl describe shows no event " + reason + ":\n" + events
			}
		}
		return ""
	})
}

// powers are the power states that a watcher was told of.
func powers(w *watched) []bool {
	return changes(w, func(h *metal3.BareMetalHost) bool { return h.Status.PoweredOn })
}
