// SPDX-License-Identifier: Apache-2.0

package dataimage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

func ironicSays(status int, fault string) error {
	return ironic.NewAPIError(context.Background(), "virtual media", status, []byte(`{"error_message":"{\"faultstring\":\"`+fault+`\"}"}`), nil)
}

// What is done with the drive before a power-on, and what the DataImage says afterwards.
func TestBeforePowerOn(t *testing.T) {
	const a, b = "http://images.example/a.iso", "http://images.example/b.iso"
	deleted := func(w *world) { w.image.DeletionTimestamp = new(metav1.Now()) }
	attached := func(url string) func(*world) {
		return func(w *world) { w.image.Status.AttachedImage.URL, w.drive = url, url }
	}
	failed := func(w *world) { w.image.Status.Error = metal3.DataImageError{Count: 3, Message: "the BMC was away"} }
	for name, test := range map[string]struct {
		given    []func(*world)
		requests []string
		drive    string
		url      string // status.attachedImage.url
		problem  string // that keeps the host off
		message  string // status.error.message
		count    int
	}{
		"no DataImage":             {given: []func(*world){func(w *world) { w.image = nil }}},
		"attach":                   {requests: []string{"get", "attach " + a, "get"}, drive: a, url: a},
		"attached already":         {given: []func(*world){attached(a), failed}, requests: []string{"get"}, drive: a, url: a},
		"another URL":              {given: []func(*world){attached(b)}, requests: []string{"get", "detach", "get", "attach " + a, "get"}, drive: a, url: a},
		"something else is in it":  {given: []func(*world){func(w *world) { w.drive = "http://ironic.example/boot.iso" }}, requests: []string{"get", "detach", "get", "attach " + a, "get"}, drive: a, url: a},
		"lost by the BMC":          {given: []func(*world){attached(a), func(w *world) { w.drive = "" }}, requests: []string{"get", "attach " + a, "get"}, drive: a, url: a},
		"deleted":                  {given: []func(*world){attached(a), deleted}, requests: []string{"get", "detach", "get"}},
		"deleted, never attached":  {given: []func(*world){deleted}},
		"deleted, lost by the BMC": {given: []func(*world){attached(a), deleted, func(w *world) { w.drive = "" }}, requests: []string{"get"}},
		"the BMC refuses": {
			given:    []func(*world){func(w *world) { w.attachError = "Could not attach device cdrom to node: no such image" }},
			requests: []string{"get", "attach " + a, "get"}, problem: "no such image", message: "no such image", count: 1,
		},
		"the BMC takes it and has nothing": {
			given:    []func(*world){func(w *world) { w.attachError = " " }},
			requests: []string{"get", "attach " + a, "get"}, problem: "could not be attached", message: "could not be attached", count: 1,
		},
		"the BMC accepts it and has nothing": {
			given:    []func(*world){func(w *world) { w.lateLooks = 100 }},
			requests: []string{"get", "attach " + a, "get"}, url: a, problem: "could not be attached: Ironic reports no error", message: "could not be attached", count: 1,
		},
		"the BMC attaches late": {
			given:    []func(*world){func(w *world) { w.lateLooks = 6 }},
			requests: []string{"get", "attach " + a, "get"}, drive: a, url: a,
		},
		"the BMC ejects late": {
			given:    []func(*world){attached(a), deleted, func(w *world) { w.lateLooks = 6 }},
			requests: []string{"get", "detach", "get"},
		},
		"the BMC ejects late and attaches": {
			given:    []func(*world){attached(b), func(w *world) { w.lateLooks = 6 }},
			requests: []string{"get", "detach", "get", "attach " + a, "get"}, drive: a, url: a,
		},
		"the BMC accepts an eject and keeps it": {
			given:    []func(*world){attached(b), func(w *world) { w.lateLooks = 100 }},
			requests: []string{"get", "detach", "get"}, drive: b, url: b, problem: "could not be ejected", message: "could not be ejected", count: 1,
		},
		"the BMC does not answer": {
			given:    []func(*world){failed, func(w *world) { w.getError = ironicSays(500, "Redfish connection failed") }},
			requests: []string{"get"}, problem: "Redfish connection failed", message: "Redfish connection failed", count: 4,
		},
		"the URL is not allowed": {
			given:    []func(*world){func(w *world) { w.notAllowed = errors.New("host images.example is not allowed") }},
			requests: []string{"get"}, problem: "spec.url: host images.example is not allowed", message: "spec.url", count: 1,
		},
		"a driver without virtual media": {
			given: []func(*world){func(w *world) {
				w.node.Driver = "ipmi"
				w.getError = ironicSays(400, "Driver ipmi does not support get_virtual_media (disabled or not implemented).")
			}},
			requests: []string{"get"}, message: "driver ipmi of the host's node has no virtual media", count: 1,
		},
		"an old Ironic":                {given: []func(*world){func(w *world) { w.tooOld = true }}, message: "need its API 1.93", count: 1},
		"paused":                       {given: []func(*world){func(w *world) { w.image.Annotations = map[string]string{metal3.PausedAnnotation: ""} }}},
		"the power state is not known": {given: []func(*world){func(w *world) { w.node.PowerState = "" }}},
		"a live ISO": {
			given: []func(*world){func(w *world) {
				w.drive, w.host.Status.Provisioning.Image.DiskFormat = "live", new(metal3.DiskFormat("live-iso"))
			}},
			drive: "live", message: "live ISO", count: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, g := range test.given {
				g(w)
			}
			ready, problem := w.powerOn(w.controller())
			if ready != (test.problem == "") || !strings.Contains(problem, test.problem) {
				t.Errorf("ready %t, problem %q; want %q", ready, problem, test.problem)
			}
			if diff := cmp.Diff(test.requests, slices.Compact(slices.Clone(w.requests))); diff != "" {
				t.Errorf("requests, but for repeated ones (-want +got):\n%s", diff)
			}
			if w.drive != test.drive {
				t.Errorf("%q is in the drive, want %q", w.drive, test.drive)
			}
			if w.image == nil {
				return
			}
			status := w.image.Status
			if status.AttachedImage.URL != test.url || status.Error.Count != test.count || !strings.Contains(status.Error.Message, test.message) ||
				test.message == "" && status.Error.Message != "" {
				t.Errorf("status %+v, want %q, %d times %q", status, test.url, test.count, test.message)
			}
		})
	}
}

// The drive is not touched while Ironic works on the node, and a failed attempt is repeated the next
// time, also by a server that was restarted in the middle of it.
func TestAttachIsRepeated(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.node.Reservation = "conductor"
	for range 2 {
		if ready, problem, err := c.BeforePowerOn(t.Context(), w.host); ready || problem != "" || err != nil || len(w.requests) > 0 {
			t.Errorf("with a locked node: %t, %q, %v, requests %q", ready, problem, err, w.requests)
		}
		w.reconcile(c)
	}
	w.node.Reservation, w.attachError = "", "Could not attach device cdrom to node: no route"
	if _, problem := w.powerOn(c); problem == "" {
		t.Error("a failed attachment is no problem")
	}
	if _, problem := w.powerOn(c); problem == "" || len(w.requests) != 3 {
		t.Errorf("the problem is not told again, to a caller that could not record it: %q, requests %q", problem, w.requests)
	}
	c.forget(types.NamespacedName{Namespace: "metal3", Name: "worker-0"}) // as a change of the spec does
	w.attachError = ""
	if ready, problem := w.powerOn(c); !ready || w.drive == "" || w.image.Status.Error.Message != "" {
		t.Errorf("when the BMC is back: %t, %q, status %+v", ready, problem, w.image.Status)
	}
	if diff := cmp.Diff([]string{"Normal AttachingDataImage", "Warning DataImageFailed", "Normal AttachingDataImage"}, []string(w.events)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}

	w.drive = "" // and the server is restarted after it has recorded the attachment
	if ready, problem := w.powerOn(w.controller()); !ready || w.drive == "" {
		t.Errorf("after a restart: %t, %q", ready, problem)
	}
}

// TestAttachedAfterAnError: a BMC takes so long that Ironic gives up, and has attached the image all the same by the next try. It is not ejected, to be attached once
// more with the same outcome; and it is ejected if the DataImage is deleted by then.
func TestAttachedAfterAnError(t *testing.T) {
	for name, isDeleted := range map[string]bool{"wanted": false, "deleted": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.controller()
			w.attachError = "Could not attach device cdrom to node: HTTPSConnectionPool(host='192.0.2.1', port=443): Read timed out. (read timeout=60)"
			if _, problem := w.powerOn(c); problem == "" {
				t.Fatal("a failed attachment is no problem")
			}
			w.drive, w.requests = w.image.Spec.URL, nil
			c.forget(types.NamespacedName{Namespace: "metal3", Name: "worker-0"}) // as the time for the next try does
			want := []string{"get"}
			if isDeleted {
				w.image.DeletionTimestamp, want = new(metav1.Now()), []string{"get", "detach", "get"}
			}
			if ready, problem := w.powerOn(c); !ready || (w.drive == "") != isDeleted {
				t.Errorf("%t, %q, with %q in the drive", ready, problem, w.drive)
			}
			if diff := cmp.Diff(want, slices.Compact(slices.Clone(w.requests))); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// An image that is attached after nobody waited for it any more does not stay in the drive when its DataImage is deleted, before or after
// that, nor is it taken for the one that is wanted then. A server that was restarted meanwhile knows of it, too.
func TestAttachedTooLate(t *testing.T) {
	const a, b, never = "http://images.example/a.iso", "http://images.example/b.iso", -1
	deleted := func(d *metal3.DataImage) { d.DeletionTimestamp = new(metav1.Now()) }
	changed := func(d *metal3.DataImage) { d.Spec.URL = b }
	timeout := &ironic.UnavailableError{Class: ironic.ClassTimeout, Reason: "no answer within 30s"}
	for name, test := range map[string]struct {
		answer error
		change func(*metal3.DataImage)
		after  time.Duration // the change, the image comes
		drive  string
		works  bool // somebody works on the machine meanwhile
	}{
		"and then deleted":             {timeout, deleted, 0, "", false},
		"after a maintenance":          {timeout, deleted, 3 * time.Minute, "", true},
		"after it was deleted":         {timeout, deleted, 3 * time.Minute, "", false},
		"after an internal error":      {ironicSays(500, "Timed out waiting for a reply"), deleted, 3 * time.Minute, "", false},
		"and then changed":             {timeout, changed, 0, b, false},
		"after the URL was changed":    {timeout, changed, 20 * time.Second, b, false},
		"never, but refused, deleted":  {ironicSays(400, "no"), deleted, never, "", false},
		"never, after it was deleted":  {timeout, deleted, never, "", false},
		"never, after it was replaced": {timeout, changed, never, b, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.attachAnswer = test.answer
			if ready, problem := w.powerOn(w.controller()); ready || problem == "" {
				t.Fatalf("%t, %q", ready, problem)
			}
			test.change(w.image)
			w.attachAnswer = nil
			c, due := w.controller(), w.clock.Now().Add(test.after)
			attach := func() {
				if test.after != never && !due.IsZero() {
					due, w.drive = time.Time{}, a
				}
			}
			for works := range 2 {
				if test.works { // after it has been looked at, and for longer than a slow BMC takes
					w.node.Maintenance = works == 1
					w.clock.SetTime(w.clock.Now().Add(lateBMC))
					w.reconcile(c)
				}
			}
			w.node.Maintenance = false
			for range 100 {
				if !w.clock.Now().Before(due) {
					attach()
				}
				if ready, _, err := c.BeforePowerOn(t.Context(), w.host); ready || err != nil {
					break
				}
				w.reconcile(c)
			}
			w.reconcile(c)
			attach() // while nobody looks any more
			if w.drive != test.drive || w.image != nil && (w.image.Spec.URL != test.drive || w.image.Status.AttachedImage.URL != test.drive) {
				t.Errorf("%q is in the drive, the DataImage is %+v", w.drive, w.image)
			}
		})
	}
}

// A BMC that has the image only when nobody waits any more is not made to eject it, which would go on like that for ever. The wait
// before has an end, few looks however often the host asks, and no writes.
func TestLateBMC(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.lateLooks = 1000
	began := w.clock.Now()
	if ready, problem := w.powerOn(c); ready || problem == "" {
		t.Fatalf("without the image: %t, %q", ready, problem)
	}
	if waited := w.clock.Since(began); waited < lateBMC || waited > 2*lateBMC {
		t.Errorf("it has waited for %s", waited)
	}
	if len(w.requests) > 20 || w.images.Writes != 3 { // of its owner, the attachment and the problem
		t.Errorf("%d writes, requests %q", w.images.Writes, w.requests)
	}
	c.forget(kinds.KeyOf(w.image)) // the host has had its back-off
	w.requests, w.lateLooks = nil, 0
	if ready, problem := w.powerOn(c); !ready || w.image.Status.Error.Message != "" {
		t.Errorf("when the BMC has it: %t, %q, %+v", ready, problem, w.image.Status)
	}
	if diff := cmp.Diff([]string{"get"}, w.requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// A host that asks again and again does not have its late BMC asked more often.
func TestLateBMCIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.lateLooks = 1000
	for range 3 {
		_, _, _ = c.BeforePowerOn(t.Context(), w.host)
		w.reconcile(c)
	}
	_, _, _ = c.BeforePowerOn(t.Context(), w.host)
	looks := len(w.requests)
	for range 10 {
		if _, err := c.reconcile(t.Context(), kinds.KeyOf(w.image)); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(w.requests); got > looks+1 {
		t.Errorf("%d looks at the drive without a pause", got-looks)
	}
}

// A DataImage that is changed or deleted while its image is being attached says nothing of an ejection that nobody has asked for.
func TestChangedWhileItIsAttached(t *testing.T) {
	for name, change := range map[string]func(*metal3.DataImage){
		"changed": func(d *metal3.DataImage) { d.Spec.URL = "http://images.example/b.iso" },
		"deleted": func(d *metal3.DataImage) { d.DeletionTimestamp = new(metav1.Now()) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.controller()
			_, _, _ = c.BeforePowerOn(t.Context(), w.host)
			w.reconcile(c)
			if w.drive == "" {
				t.Fatal("nothing was attached")
			}
			change(w.image)
			for range 30 { // longer than a late BMC is waited for
				w.reconcile(c)
			}
			if slices.ContainsFunc(w.events, func(event string) bool { return strings.HasPrefix(event, "Warning") }) || w.image != nil && w.image.Status.Error.Message != "" {
				t.Errorf("events %q, %+v", w.events, w.image)
			}
		})
	}
}

// A live DataImage belongs to its host.
func TestOwner(t *testing.T) {
	w := newWorld(t)
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "other"}
	w.image.Finalizers, w.image.OwnerReferences = nil, []metav1.OwnerReference{other}
	c := w.controller()
	w.host.DeletionTimestamp = new(metav1.Now())
	w.reconcile(c)
	if w.images.Writes != 0 {
		t.Errorf("an image of a host that is being deleted was written: %+v", w.image.ObjectMeta)
	}
	w.host.DeletionTimestamp = nil
	for range 2 {
		w.reconcile(c)
	}
	want := []metav1.OwnerReference{other, {APIVersion: "metal3.io/v1alpha1", Kind: "BareMetalHost", Name: "worker-0", UID: "host"}}
	if diff := cmp.Diff(want, w.image.OwnerReferences); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{metal3.DataImageFinalizer}, w.image.Finalizers); diff != "" || w.images.Writes != 1 {
		t.Errorf("finalizers after %d writes (-want +got):\n%s", w.images.Writes, diff)
	}
}

// A host that was created anew gets nothing of the DataImage that the former host of its name owned, whose machine may have been another
// one: the image is neither attached nor ejected, nor kept from the garbage collector.
func TestImageOfFormerHost(t *testing.T) {
	for name, given := range map[string]func(*world){
		"not attached yet":           func(*world) {},
		"attached to the former one": func(w *world) { w.image.Status.AttachedImage.URL = w.image.Spec.URL },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			given(w)
			former := []metav1.OwnerReference{{APIVersion: "metal3.io/v1alpha1", Kind: "BareMetalHost", Name: "worker-0", UID: "former"}}
			w.image.OwnerReferences, w.drive = former, "http://images.example/put-there-by-hand.iso"
			c := w.controller()
			if ready, problem := w.powerOn(c); !ready || problem != "" {
				t.Errorf("the host may be switched on: %t, %q", ready, problem)
			}
			w.reconcile(c)
			if diff := cmp.Diff(former, w.image.OwnerReferences); diff != "" || len(w.image.Finalizers) > 0 {
				t.Errorf("the finalizers are %v, the owners (-want +got):\n%s", w.image.Finalizers, diff)
			}
			if len(w.requests) > 0 {
				t.Errorf("Ironic was asked for %q", w.requests)
			}
		})
	}
}

// The drive of a node that has become another host's since it was observed is not touched, and the host is not switched on.
func TestUnprovenNode(t *testing.T) {
	w := newWorld(t)
	w.unproven = "another host's"
	c := w.controller()
	for range 5 {
		ready, _, err := c.BeforePowerOn(t.Context(), w.host)
		if ready {
			t.Fatal("the host is to be switched on")
		}
		if err != nil {
			if !strings.Contains(err.Error(), w.unproven) {
				t.Error(err)
			}
			break
		}
		_, _ = c.reconcile(t.Context(), kinds.KeyOf(w.image)) // its error is that of BeforePowerOn, too
	}
	if len(w.requests) > 0 {
		t.Errorf("Ironic was asked: %v", w.requests)
	}
}

// What Ironic says later about a drive does not have the password of the BMC in it. What the user wrote is shown.
func TestNoPasswordInErrors(t *testing.T) {
	w := newWorld(t)
	w.image.Spec.URL = "http://images.example/" + enginetest.Password
	w.attachError = "cannot attach " + w.image.Spec.URL + ": login of root with " + enginetest.Password + " failed"
	_, problem := w.powerOn(w.controller())
	want := "cannot attach " + w.image.Spec.URL + ": login of root with ****** failed"
	if !strings.Contains(problem, want) || !strings.Contains(w.image.Status.Error.Message, want) {
		t.Errorf("%q, and in the status %q", problem, w.image.Status.Error.Message)
	}
}

// Nothing is remembered of a DataImage that somebody has made go in the middle of an attempt.
func TestNothingIsRememberedOfImagesThatAreGone(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	for range 100 {
		if ready, problem, err := c.BeforePowerOn(t.Context(), w.host); ready || problem != "" || err != nil {
			t.Fatalf("%t, %q, %v", ready, problem, err)
		}
		w.reconcile(c)
		if len(c.attempts) > 0 {
			break
		}
	}
	if len(c.attempts) == 0 {
		t.Fatal("there was no attempt: the test is broken")
	}
	w.image = nil
	w.reconcile(c)
	if len(c.attempts)+len(c.asked)+len(c.verdicts) > 0 {
		t.Errorf("remembered: %v, %v, %v", c.attempts, c.asked, c.verdicts)
	}
}

// A drive that Ironic is changing keeps its place until the outcome is read; a namespace has a part of them, and who waits does not
// ask the BMC.
func TestChangesAreShared(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	others := 0
	for i := range maxChanges {
		if c.changes.TryEnter("", "metal3", fmt.Sprint(i)) {
			others++
		}
	}
	if want := maxChanges * changesGreed / (changesGreed + 1); others != want {
		t.Errorf("%d drives of one namespace are changed at a time, want %d", others, want)
	}
	another := w.host.DeepCopy()
	another.Namespace = "other"
	if !c.enterChange(another) {
		t.Error("another namespace has no place")
	}
	elsewhere := w.host.DeepCopy()
	elsewhere.Name, elsewhere.Status.Record.Ironic = "worker-1", "room-b"
	if !c.enterChange(elsewhere) {
		t.Error("a host of another Ironic has no place")
	}
	if ready, problem, err := c.BeforePowerOn(t.Context(), w.host); ready || problem != "" || err != nil {
		t.Errorf("%t, %q, %v", ready, problem, err)
	}
	w.reconcile(c)
	if len(w.requests) > 0 {
		t.Errorf("without a place, Ironic is asked: %q", w.requests)
	}
	for range others / 2 {
		c.changes.Leave("", "metal3")
	}
	w.reconcile(c)
	w.node.Reservation = "conductor-0"
	w.reconcile(c)
	if _, has := c.changing[kinds.KeyOf(w.host)]; !has {
		t.Error("the place was given back though Ironic is still at it")
	}
	w.node.Reservation = ""
	if ready, problem := w.powerOn(c); !ready {
		t.Error(problem)
	}
	c.leaveChange(kinds.KeyOf(elsewhere))
	if len(c.changing) != 1 {
		t.Errorf("the place was not given back: %v", c.changing)
	}
}

// Whose host, or whose image, is paused while Ironic changes the drive keeps no place from others until the pause ends.
func TestPausedKeepsNoPlace(t *testing.T) {
	for name, pause := range map[string]func(w *world, annotations map[string]string){
		"host":  func(w *world, annotations map[string]string) { w.host.Annotations = annotations },
		"image": func(w *world, annotations map[string]string) { w.image.Annotations = annotations },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.controller()
			if ready, problem, err := c.BeforePowerOn(t.Context(), w.host); ready || problem != "" || err != nil {
				t.Errorf("%t, %q, %v", ready, problem, err)
			}
			w.reconcile(c)
			w.node.Reservation = "conductor-0"
			w.reconcile(c)
			if len(c.changing) != 1 {
				t.Fatal("it has no place")
			}
			pause(w, map[string]string{metal3.PausedAnnotation: ""})
			w.reconcile(c)
			if len(c.changing) != 0 {
				t.Error("it keeps its place")
			}
			pause(w, nil)
			w.node.Reservation = ""
			if ready, problem := w.powerOn(c); !ready {
				t.Error(problem)
			}
		})
	}
}
