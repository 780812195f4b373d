// SPDX-License-Identifier: Apache-2.0

package dataimage

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// When a DataImage that is being deleted may go.
func TestDeletion(t *testing.T) {
	for name, test := range map[string]struct {
		given func(*world)
		stays bool
	}{
		"not attached":     {func(w *world) { w.image.Status.AttachedImage.URL = "" }, false},
		"the host is gone": {func(w *world) { w.host = nil }, false},
		"of a former host": {func(w *world) {
			w.image.OwnerReferences = []metav1.OwnerReference{{Kind: "BareMetalHost", Name: "worker-0", UID: "former"}}
			w.node.PowerState = ironic.PowerOn
		}, false},
		"the host is detached":      {func(w *world) { w.host.Status.OperationalStatus = metal3.OperationalStatusDetached }, false},
		"the host has no node":      {func(w *world) { w.host.Status.Provisioning.ID = "" }, false},
		"a node of another cluster": {func(w *world) { hold(w.host) }, false},
		"not registered yet":        {func(w *world) { w.host.Status.Record.RegisteredWith = nil }, true},
		"nor will it be": {func(w *world) {
			w.host.Status.Record.RegisteredWith, w.host.DeletionTimestamp = nil, new(metav1.Now())
		}, false},
		"another host has its BMC for now": {func(w *world) {
			w.host.Status.Record.Hold = &metal3.Hold{Reason: metal3.BMCInUseReason, Message: "host worker-1 has it"}
		}, true},
		"the operator runs, after a migration": {func(w *world) {
			w.host.Status.Record.RegisteredWith, w.host.Status.Record.Hold = nil, &metal3.Hold{Reason: metal3.OperatorRunningReason, Message: "stop it"}
		}, true},
		"somebody else may run something": {func(w *world) { w.host.Status.Record.Hold = &metal3.Hold{Reason: metal3.DeploymentGoneReason} }, true},
		"somebody works on the machine":   {func(w *world) { w.node.Maintenance = true }, true},
		"a node that is not proven":       {func(w *world) { w.unproven = "another host's" }, false},
		"Ironic has lost the node":        {func(w *world) { w.node = nil }, true},
		"the node is gone, as the host":   {func(w *world) { w.node, w.host.DeletionTimestamp = nil, new(metav1.Now()) }, false},
		"the host is off":                 {func(*world) {}, false},
		"an old Ironic":                   {func(w *world) { w.tooOld = true }, false},
		"the host is on":                  {func(w *world) { w.node.PowerState = ironic.PowerOn }, true},
		"the host is being switched":      {func(w *world) { w.node.TargetPowerState = ironic.TargetPowerOn }, true},
		"the host is paused":              {func(w *world) { w.host.Annotations = map[string]string{metal3.PausedAnnotation: ""} }, true},
		"the BMC does not answer":         {func(w *world) { w.getError = ironicSays(500, "Redfish connection failed") }, true},
		"the host is being worked on":     {func(w *world) { w.node.ProvisionState = ironic.CleanWait }, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.image.DeletionTimestamp = new(metav1.Now())
			w.image.Status.AttachedImage.URL, w.drive = w.image.Spec.URL, w.image.Spec.URL
			test.given(w)
			c := w.controller()
			for range 5 {
				w.reconcile(c)
			}
			if stays := w.image != nil; stays != test.stays {
				t.Errorf("the DataImage is still there: %t, want %t", stays, test.stays)
			}
			leavesAlone := test.stays && (lifecycle.MayGetOwnNode(w.host) || w.host.Status.Record.Hold != nil || w.node == nil || w.node.Maintenance) && !metal3.IsPaused(w.host)
			if w.image != nil && leavesAlone != strings.Contains(w.image.Status.Error.Message, "left alone") || leavesAlone && len(w.events) != 1 {
				t.Errorf("left alone: %t, told: %+v, %v", leavesAlone, w.image.Status.Error, w.events)
			}
			if w.host != nil && (!lifecycle.HasOwnNode(w.host) || w.unproven != "" || w.host.Status.Record.Hold != nil) && len(w.requests) != 0 ||
				w.node != nil && w.node.Maintenance && w.drive == "" {
				t.Errorf("a node that is not the host's own, or not only, was asked: %v", w.requests)
			}
		})
	}
}

// A drive that cannot be emptied is tried again after a while, though each failure is written to the status, and told once.
func TestFailsAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.image.DeletionTimestamp = new(metav1.Now())
		w.image.Status.AttachedImage.URL, w.drive = w.image.Spec.URL, w.image.Spec.URL
		w.getError = ironicSays(500, "Redfish connection failed")
		deps := w.deps()
		deps.Images, deps.Hosts, deps.Events = enginetest.NewStock("dataimages", w.image), enginetest.NewStock("baremetalhosts", w.host), &w.events
		deps.Clock = clock.RealClock{}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		w.looked = func() {
			if len(w.requests) == 100 {
				cancel() // time would stand still without a pause
			}
		}
		ended := make(chan error)
		go func() { ended <- New(deps).Run(ctx) }()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := len(w.requests); n < 2 || n > 20 {
			t.Errorf("%d requests in ten minutes, and the events %v", n, w.events)
		}
	})
}

// The reason why a drive is left alone is not told any longer than that is so, and costs nobody a place.
func TestNoLongerLeftAlone(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.image.DeletionTimestamp = new(metav1.Now())
	w.image.Status.AttachedImage.URL, w.drive = w.image.Spec.URL, w.image.Spec.URL
	w.lateLooks = 3
	w.reconcile(c)
	if w.image == nil || len(c.changing) != 1 {
		t.Fatalf("%d drives are being changed for %+v", len(c.changing), w.image)
	}
	w.node.Maintenance = true
	w.reconcile(c)
	if says := w.image.Status.Error; says.Message != waiting+"the node is in maintenance" || says.Count != 0 || len(c.changing) != 0 {
		t.Errorf("it says %+v, and %d drives are being changed", says, len(c.changing))
	}
	w.node.Maintenance, w.node.PowerState = false, ironic.PowerOn
	w.reconcile(c)
	if says := w.image.Status.Error; says.Message != "" {
		t.Errorf("it says %+v", says)
	}
	w.node.PowerState = ironic.PowerOff
	for range 10 {
		w.clock.SetTime(w.clock.Now().Add(2 * time.Second))
		w.reconcile(c)
	}
	if w.image != nil {
		t.Errorf("it stays: %+v", w.image.Status)
	}
}
