// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// capm3 uses hosts as Cluster API Provider Metal3 does: it sends the requests that
// its Metal3Machine and Metal3Remediation controllers send, in their order, and is
// woken by the events of an informer. Hosts and Secrets it reads past the cache.
type capm3 struct {
	t        *testing.T
	ctx      context.Context
	ns       string
	client   client.Client
	requests *requestLog
	woken    chan struct{}
}

func newCAPM3(t *testing.T, ctx context.Context, ns string) *capm3 {
	t.Helper()
	config, requests := logRequests(s.Config)
	c := &capm3{t, ctx, ns, runtimeClient(t, config), requests, make(chan struct{}, 1)}
	informers, err := cache.New(s.Config, cache.Options{Scheme: runtimeScheme, DefaultNamespaces: map[string]cache.Config{ns: {}}})
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := informers.GetInformer(ctx, &metal3.BareMetalHost{}, cache.BlockUntilSynced(false))
	if err != nil {
		t.Fatal(err)
	}
	wake := func() {
		select {
		case c.woken <- struct{}{}:
		default: // it will look anyway
		}
	}
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { wake() }, UpdateFunc: func(any, any) { wake() }, DeleteFunc: func(any) { wake() },
	}
	if _, err := hosts.AddEventHandler(handler); err != nil {
		t.Fatal(err)
	}
	running, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- informers.Start(running) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c
}

// sent requires that these requests were sent since the last call, and no others.
// A request is METHOD PATH, for patches with their content type and body, and for
// lists with the selector. PATH begins after /namespaces/NS/.
func (c *capm3) sent(what string, want ...string) {
	c.t.Helper()
	if diff := cmp.Diff(want, c.took()); diff != "" {
		c.t.Errorf("requests to %s (-want +got):\n%s", what, diff)
	}
}

// took are the requests since the last call.
func (c *capm3) took() (requests []string) {
	c.t.Helper()
	for _, r := range c.requests.take() {
		_, path, namespaced := strings.Cut(r.URL.Path, "/namespaces/")
		if !namespaced {
			continue // discovery, once
		}
		_, path, _ = strings.Cut(path, "/")
		text := r.Method + " " + path
		if selector := r.URL.Query().Get("labelSelector"); selector != "" {
			text += "?labelSelector=" + selector
		}
		if r.Method == "PATCH" {
			body, err := r.GetBody()
			if err != nil {
				c.t.Fatal(err)
			}
			content, err := io.ReadAll(body)
			if err != nil {
				c.t.Fatal(err)
			}
			text += " " + r.Header.Get("Content-Type") + " " + strings.ReplaceAll(string(content), c.ns, "NS")
		}
		requests = append(requests, text)
	}
	return requests
}

// get is how each reconciliation begins.
func (c *capm3) get(name string) *metal3.BareMetalHost {
	c.t.Helper()
	var host metal3.BareMetalHost
	if err := c.client.Get(c.ctx, client.ObjectKey{Namespace: c.ns, Name: name}, &host); err != nil {
		c.t.Fatal(err)
	}
	return &host
}

// until reads a host whenever an event tells that something changed, and returns
// it when it is as wanted. The number of such reads is not a part of the contract.
func (c *capm3) until(name, what string, wanted func(*metal3.BareMetalHost) bool) *metal3.BareMetalHost {
	c.t.Helper()
	for {
		host := c.get(name)
		if wanted(host) {
			c.took()
			return host
		}
		select {
		case <-c.woken:
		case <-c.ctx.Done():
			c.t.Fatalf("no event told that host %s is %s; it is %+v, Ironic %+v", name, what, host.Status, host.Status.Ironic)
		}
	}
}

// patch does as the package util/patch of Cluster API: JSON merge patches without a
// resourceVersion, one of spec and metadata and one of the status, each only if
// there is a difference; and before them, with a resourceVersion, one of the
// conditions, which is tried again on a conflict.
func (c *capm3) patch(before, after *metal3.BareMetalHost) {
	c.t.Helper()
	if !cmp.Equal(before.Status.Conditions, after.Status.Conditions) {
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			latest := c.get(before.Name)
			changed := latest.DeepCopy()
			for _, condition := range after.Status.Conditions {
				if !slices.Contains(before.Status.Conditions, condition) {
					meta.SetStatusCondition(&changed.Status.Conditions, condition)
				}
			}
			return c.client.Status().Patch(c.ctx, changed, client.MergeFromWithOptions(latest, client.MergeFromWithOptimisticLock{}))
		})
		if err != nil {
			c.t.Fatal(err)
		}
	}
	object := after.DeepCopy()
	object.Status = before.Status
	if data := c.difference(before, object); data != "{}" {
		if err := c.client.Patch(c.ctx, object, client.RawPatch(types.MergePatchType, []byte(data))); err != nil {
			c.t.Fatal(err)
		}
	}
	object = before.DeepCopy()
	object.Status = after.Status
	object.Status.Conditions = before.Status.Conditions
	if data := c.difference(before, object); data != "{}" {
		if err := c.client.Status().Patch(c.ctx, object, client.RawPatch(types.MergePatchType, []byte(data))); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *capm3) difference(before, after *metal3.BareMetalHost) string {
	c.t.Helper()
	data, err := client.MergeFrom(before).Data(after)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(data)
}

// change reads a host, changes it and patches it.
func (c *capm3) change(name string, change func(*metal3.BareMetalHost)) {
	c.t.Helper()
	before := c.get(name)
	after := before.DeepCopy()
	change(after)
	c.patch(before, after)
}

// mergePatchOf is how sent names a patch of a host.
func mergePatchOf(path, body string) string {
	return fmt.Sprintf("PATCH baremetalhosts/%s application/merge-patch+json %s", path, body)
}

// isMergePatchOf reports whether a request is such a patch with a body that begins so.
func isMergePatchOf(request, path, body string) bool {
	return strings.HasPrefix(request, mergePatchOf(path, body))
}
