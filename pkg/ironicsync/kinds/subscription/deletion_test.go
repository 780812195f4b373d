// SPDX-License-Identifier: Apache-2.0

package subscription

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// When a subscription may go that is being deleted.
func TestDelete(t *testing.T) {
	for name, test := range map[string]struct {
		given    func(*world)
		requests []string
		stays    bool
		waits    bool // without an error
	}{
		"as it is":             {func(*world) {}, []string{"list", "get 1", "delete 1"}, false, false},
		"never created":        {func(w *world) { w.subscription.Status.SubscriptionID = "" }, nil, false, false},
		"the host is gone":     {func(w *world) { w.host = nil }, nil, false, false},
		"the host has no node": {func(w *world) { w.host.Status.Provisioning.ID = "" }, nil, false, false},
		"the host is detached": {func(w *world) { w.host.Status.OperationalStatus = metal3.OperationalStatusDetached }, nil, false, false},
		"the host is paused":   {func(w *world) { w.host.Annotations = map[string]string{metal3.PausedAnnotation: ""} }, nil, true, true},
		"never created, and paused": {func(w *world) {
			w.subscription.Status.SubscriptionID = ""
			w.host.Annotations = map[string]string{metal3.PausedAnnotation: ""}
		}, nil, false, false},
		"a node of another cluster": {func(w *world) { hold(w.host) }, nil, false, false},
		"not registered yet":        {func(w *world) { w.host.Status.Record.RegisteredWith = nil }, nil, true, true},
		"nor will it be": {func(w *world) {
			w.host.Status.Record.RegisteredWith, w.host.DeletionTimestamp = nil, new(metav1.Now())
		}, nil, false, false},
		"another host has its BMC for now": {func(w *world) {
			w.host.Status.Record.Hold = &metal3.Hold{Reason: metal3.BMCInUseReason, Message: "host worker-1 has it"}
		}, nil, true, true},
		"a node that is not proven": {func(w *world) { w.unproven = "another host's" }, nil, false, false},
		"the BMC has lost it":       {func(w *world) { w.bmc = nil }, []string{"list"}, false, false},
		"another one has its ID":    {func(w *world) { w.bmc["1"] = ironic.Subscription{Destination: "https://others.example/"} }, []string{"list", "get 1"}, false, false},
		"Ironic has lost the node":  {func(w *world) { w.nodeError = ironicSays(404, "Node could not be found") }, nil, true, false},
		"and the host is going": {func(w *world) {
			w.nodeError, w.host.DeletionTimestamp = ironicSays(404, "not found"), new(metav1.Now())
		}, nil, false, false},
		"404 of the BMC, and the host is going": {func(w *world) {
			w.deleteError, w.host.DeletionTimestamp = ironicSays(404, "not now"), new(metav1.Now())
		}, []string{"list", "get 1", "delete 1"}, true, false},
		"the BMC does not show it": {func(w *world) { w.notShown = "1" }, []string{"list", "get 1"}, true, false},
		"the operator runs, after a migration": {func(w *world) {
			w.host.Status.Record.RegisteredWith, w.host.Status.Record.Hold = nil, &metal3.Hold{Reason: metal3.OperatorRunningReason, Message: "stop it"}
		}, nil, true, true},
		"the BMC does not answer":     {func(w *world) { w.bmcError = ironicSays(500, "no route") }, []string{"list"}, true, false},
		"404 for one that is there":   {func(w *world) { w.deleteError = ironicSays(404, "not now") }, []string{"list", "get 1", "delete 1"}, true, false},
		"the node is locked meantime": {func(w *world) { w.deleteError = ironicSays(409, "Node n is locked by host c") }, []string{"list", "get 1", "delete 1"}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.subscription.DeletionTimestamp = new(metav1.Now())
			w.subscription.Finalizers = []string{metal3.BMCEventSubscriptionFinalizer}
			w.subscription.Status.SubscriptionID = "1"
			w.bmc["1"] = ironic.Subscription{Destination: "https://EVENTS.example:443"} // in the BMC's own spelling
			test.given(w)
			_, err := w.controller().reconcile(t.Context(), key)
			if stays := w.subscription != nil; stays != test.stays || (err != nil) != (test.stays && !test.waits) {
				t.Errorf("still there: %t, want %t; %v", stays, test.stays, err)
			}
			if diff := cmp.Diff(test.requests, w.requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// A deleted subscription that waits for its host goes when the host does not have to be waited for any more, or has its BMC registered.
func TestDeletedWaitsForItsHost(t *testing.T) {
	for name, test := range map[string]struct {
		waits, then func(*metal3.BareMetalHost)
		asked       bool
	}{
		"registered": {func(h *metal3.BareMetalHost) { h.Status.Record.RegisteredWith = nil }, func(h *metal3.BareMetalHost) { h.Status.Record.RegisteredWith = &metal3.RegisteredWith{} }, true},
		"detached":   {func(h *metal3.BareMetalHost) { h.Status.Record.RegisteredWith = nil }, func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusDetached }, false},
		"deleted": {func(h *metal3.BareMetalHost) { h.Status.Record.RegisteredWith = nil }, func(h *metal3.BareMetalHost) {
			h.DeletionTimestamp, h.Finalizers = new(metav1.Now()), []string{metal3.BareMetalHostFinalizer}
		}, false},
		"another host's": {func(h *metal3.BareMetalHost) {
			h.Status.Record.Hold = &metal3.Hold{Reason: metal3.BMCInUseReason, Message: "another host has it"}
		}, hold, false},
		"unproven": {func(h *metal3.BareMetalHost) { h.Status.Record.RegisteredWith = nil }, func(h *metal3.BareMetalHost) { h.Status.Ironic.Unproven = "another host's" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.subscription.DeletionTimestamp, w.subscription.Finalizers = new(metav1.Now()), []string{metal3.BMCEventSubscriptionFinalizer}
				w.subscription.Status.SubscriptionID = "1"
				w.bmc["1"] = ironic.Subscription{Destination: w.subscription.Spec.Destination, Context: w.subscription.Spec.Context}
				test.waits(w.host)
				subscriptions, hosts := enginetest.NewStock("bmceventsubscriptions", w.subscription), enginetest.NewStock("baremetalhosts", w.host)
				deps := w.deps()
				deps.Subscriptions, deps.Hosts, deps.Events = subscriptions, hosts, enginetest.NoEvents{}
				c := New(deps)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- c.Run(ctx) }()
				defer func() { cancel(); <-ended }()
				time.Sleep(time.Hour)
				if waiting, err := subscriptions.Get(ctx, key.Namespace, key.Name); err != nil || !strings.Contains(waiting.Status.Error, "waiting for host worker-0") || len(w.requests) > 0 {
					t.Fatalf("%v: %+v; requests %q", err, waiting, w.requests)
				}
				changed := w.host.DeepCopy()
				test.then(changed)
				_, _ = hosts.Update(ctx, changed)
				c.HostChanged(w.host, changed)
				time.Sleep(time.Minute)
				if left, err := subscriptions.Get(ctx, key.Namespace, key.Name); err == nil || len(w.requests) > 0 != test.asked {
					t.Errorf("left: %+v; requests %q", left, w.requests)
				}
			})
		})
	}
}

// A host whose driver or BMC has no subscriptions keeps nobody from deleting the object: what Ironic has refused does not exist.
func TestDeleteWhatWasRefused(t *testing.T) {
	for name, test := range map[string]struct {
		refusal   error
		wasSilent bool // before
	}{
		"by the driver":                      {refusal: ironicSays(400, "No handler for method create_subscription")},
		"by the driver, after no answer":     {ironicSays(400, "No handler for method get_all_subscriptions"), true},
		"by the BMC":                         {refusal: ironicSays(500, "the EventService is missing")},
		"before it was asked for, no answer": {refusal: &ironic.UnavailableError{Class: "refused", Reason: "connection refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.bmcError = test.refusal
			if test.wasSilent {
				w.subscription.Finalizers = []string{metal3.BMCEventSubscriptionFinalizer}
				w.subscription.Status.Error = notAnswered
			}
			c := w.controller()
			if err := w.reconcile(t, c); err == nil || w.subscription.Status.Error == "" {
				t.Fatalf("%v, status %+v", err, w.subscription.Status)
			}
			w.subscription.DeletionTimestamp = new(metav1.Now())
			if err := w.reconcile(t, c); err != nil || w.subscription != nil {
				t.Errorf("%v, it is still there: %+v", err, w.subscription)
			}
		})
	}
}

// TestCreatedWithAnOddAnswer: a BMC that has created a subscription, and whose answer Ironic does not understand, is not asked for another one
// with each try, and has none left when the object goes.
func TestCreatedWithAnOddAnswer(t *testing.T) {
	w := newWorld()
	w.oddAnswer = true
	c := w.controller()
	for range 3 {
		if err := w.reconcile(t, c); err != nil {
			t.Errorf("%v, status %+v", err, w.subscription.Status)
		}
	}
	if len(w.bmc) != 1 || w.subscription.Status.SubscriptionID != "1" || w.subscription.Status.Error != "" {
		t.Errorf("the BMC has %v; status %+v", w.bmc, w.subscription.Status)
	}
	w.subscription.DeletionTimestamp = new(metav1.Now())
	if err := w.reconcile(t, c); err != nil || w.subscription != nil || len(w.bmc) != 0 {
		t.Errorf("%v, it is still there: %+v, the BMC has %v", err, w.subscription, w.bmc)
	}
}
