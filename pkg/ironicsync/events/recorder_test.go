// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// patience is for what takes milliseconds, on a machine that is busy.
const patience = 30 * time.Second

// cluster is a clientset and the events that are created with it.
func cluster() (*fake.Clientset, <-chan *eventsv1.Event) {
	client := fake.NewClientset()
	created := make(chan *eventsv1.Event, 100)
	client.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
		event := action.(clienttesting.CreateAction).GetObject().(*eventsv1.Event)
		created <- event
		return true, event, nil
	})
	return client, created
}

func await(t *testing.T, created <-chan *eventsv1.Event) *eventsv1.Event {
	t.Helper()
	select {
	case event := <-created:
		return event
	case <-time.After(patience):
		t.Fatal("no event is written")
		return nil
	}
}

var worker = &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "worker-0", Namespace: "fleet", UID: "4711", ResourceVersion: "12"}}

func TestRecord(t *testing.T) {
	client, created := cluster()
	r := NewRecorder(client)
	go r.Run(t.Context())

	before := time.Now()
	r.Record(worker, Event{Type: corev1.EventTypeWarning, Reason: "InspectionError", Message: "100% wrong: %s"})
	event := await(t, created)
	if !strings.HasPrefix(event.Name, "worker-0.") || event.EventTime.Before(&metav1.MicroTime{Time: before}) || event.ReportingInstance == "" {
		t.Errorf("name %q, time %v, reporting instance %q", event.Name, event.EventTime, event.ReportingInstance)
	}
	got := *event
	got.Name, got.EventTime, got.ReportingInstance = "", metav1.MicroTime{}, ""
	want := eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: "fleet"},
		ReportingController: "metal3-baremetal-controller",
		Action:              "InspectionError", Reason: "InspectionError", Note: "100% wrong: %s", Type: "Warning",
		Regarding: corev1.ObjectReference{
			APIVersion: "metal3.io/v1alpha1", Kind: "BareMetalHost", Namespace: "fleet", Name: "worker-0", UID: "4711", ResourceVersion: "12",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	used := worker.DeepCopy()
	used.Spec.ConsumerRef = &corev1.ObjectReference{
		APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3Machine", Namespace: "fleet", Name: "m",
	}
	r.Record(used, Event{Type: corev1.EventTypeNormal, Reason: "PowerOn", Message: "on"})
	if diff := cmp.Diff(used.Spec.ConsumerRef, await(t, created).Related); diff != "" {
		t.Errorf("related (-want +got):\n%s", diff)
	}
}

// TestNothingIsMerged: the same error with another text is another event.
func TestNothingIsMerged(t *testing.T) {
	client, created := cluster()
	r := NewRecorder(client)
	go r.Run(t.Context())
	got := map[string]bool{}
	for version, text := range map[string]string{"12": "first", "13": "second"} {
		host := worker.DeepCopy()
		host.ResourceVersion = version
		r.Record(host, Event{Type: corev1.EventTypeWarning, Reason: "ProvisioningError", Message: text})
		got[await(t, created).Note] = true
	}
	if !got["first"] || !got["second"] {
		t.Errorf("got %v", got)
	}
}

func TestNoteIsShortened(t *testing.T) {
	for _, text := range []string{"short", strings.Repeat("x", maxNote), strings.Repeat("x", maxNote+1), strings.Repeat("ü", maxNote), "x" + strings.Repeat("ü", maxNote)} {
		got := shortened(text)
		if len(got) > maxNote || !utf8.ValidString(got) {
			t.Errorf("%d bytes became %d, valid %v", len(text), len(got), utf8.ValidString(got))
		}
		if len(text) <= maxNote && got != text {
			t.Errorf("a text of %d bytes is changed", len(text))
		}
		if len(text) > maxNote && (!strings.HasSuffix(got, "...") || len(got) < maxNote-utf8.UTFMax) {
			t.Errorf("%d bytes became %q", len(text), got)
		}
	}
}

// TestRunEnds: Run ends with its context, and recording is harmless before and after.
func TestRunEnds(t *testing.T) {
	client, _ := cluster()
	r := NewRecorder(client)
	event := Event{Type: corev1.EventTypeNormal, Reason: "PowerOn"}
	r.Record(worker, event)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); r.Run(ctx) }()
	r.Record(worker, event)
	cancel()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("Run goes on")
	}
	r.Record(worker, event)
}

// TestRecordDoesNotBlock: a cluster that does not answer holds up nobody.
func TestRecordDoesNotBlock(t *testing.T) {
	client := fake.NewClientset()
	answer := make(chan struct{})
	defer close(answer)
	client.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
		<-answer
		return true, &eventsv1.Event{}, nil
	})
	r := NewRecorder(client)
	go r.Run(t.Context())
	recorded := make(chan struct{})
	go func() {
		defer close(recorded)
		for range 2000 {
			r.Record(worker, Event{Type: corev1.EventTypeNormal, Reason: "PowerOn"})
		}
	}()
	select {
	case <-recorded:
	case <-time.After(patience):
		t.Fatal("Record blocks")
	}
}
