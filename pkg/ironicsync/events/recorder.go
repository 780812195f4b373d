// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientevents "k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

const (
	// reportingController is the name that the Bare Metal Operator reports under.
	reportingController = "metal3-baremetal-controller"
	// maxNote is how many bytes kube-apiserver accepts as the note of an event; it
	// refuses an event with more, and client-go does not shorten it.
	maxNote = 1024
	// maxRelated is how many bytes the reference to what uses a host may have, which somebody may have written into its spec.
	maxRelated = 2048
	// eventsPerSecond is fewer than the client may send, because client-go has a goroutine for each event that waits for the client.
	eventsPerSecond = 40
	burst           = 100
)

// QPS and Burst limit the client that NewRecorder needs. It should not be used for anything else, which would wait for the events.
const (
	QPS   = eventsPerSecond + 10
	Burst = 2 * burst
)

// Recorder writes events to the cluster (events.k8s.io/v1), on a best-effort basis
// as all events are.
type Recorder struct {
	broadcaster clientevents.EventBroadcaster
	recorder    clientevents.EventRecorder
	queue       *queue
	pace        flowcontrol.RateLimiter
}

// NewRecorder returns a Recorder. It writes while Run runs, and Run has to be
// called to release it.
func NewRecorder(client kubernetes.Interface) *Recorder {
	broadcaster := clientevents.NewBroadcaster(&clientevents.EventSinkImpl{Interface: client.EventsV1()})
	// What is regarded is given as a reference, so there is nothing to look up in a scheme.
	return &Recorder{
		broadcaster: broadcaster, recorder: broadcaster.NewRecorder(runtime.NewScheme(), reportingController),
		queue: newQueue(maxWaitingOfNamespace, maxWaiting), pace: flowcontrol.NewTokenBucketRateLimiter(eventsPerSecond, burst),
	}
}

// Run writes events until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	defer r.broadcaster.Shutdown()
	if err := r.broadcaster.StartRecordingToSinkWithContext(ctx); err != nil { // when it has been shut down
		klog.FromContext(ctx).Error(err, "Events are not recorded")
		return
	}
	for {
		next, dropped, ok := r.queue.take(ctx)
		if !ok {
			return
		}
		if dropped > 0 {
			klog.FromContext(ctx).Info("Too many events were waiting, and some were dropped", "dropped", dropped)
		}
		// An event needs an action, and the reason says what was done.
		r.recorder.Eventf(next.regarding, next.related, next.event.Type, next.event.Reason, next.event.Reason, "%s", next.event.Message)
		if err := r.pace.Wait(ctx); err != nil {
			return // ctx has ended
		}
	}
}

// Record queues the event, whose time is that at which it leaves the queue. It never blocks: when too many of the namespace, or in all,
// are waiting, events are dropped.
func (r *Recorder) Record(host *metal3.BareMetalHost, event Event) {
	// client-go counts an event as a repetition of an earlier one, whose note stays,
	// when all but the note are the same. The resource version tells them apart.
	regarding := &corev1.ObjectReference{
		APIVersion: metal3.SchemeGroupVersion.String(), Kind: "BareMetalHost",
		Namespace: host.Namespace, Name: host.Name, UID: host.UID, ResourceVersion: host.ResourceVersion,
	}
	var related runtime.Object // nil: no typed nil pointer in it
	if ref := host.Spec.ConsumerRef; ref != nil && ref.Size() <= maxRelated {
		related = ref.DeepCopy()
	}
	r.record(regarding, related, event)
}

// Requested queues an event that says that a user has requested something of a host.
func (r *Recorder) Requested(host *metal3.BareMetalHost, reason, message string) {
	r.Record(host, Event{Type: corev1.EventTypeNormal, Reason: reason, Message: withoutCredentials(message)})
}

// RecordObject queues an event about an object other than a host, like Record.
func (r *Recorder) RecordObject(regarding *corev1.ObjectReference, event Event) {
	event.Message = withoutCredentials(event.Message)
	r.record(regarding, nil, event)
}

func (r *Recorder) record(regarding *corev1.ObjectReference, related runtime.Object, event Event) {
	event.Message = shortened(event.Message)
	size := regarding.Size() + len(event.Message) + len(event.Reason)
	if related != nil {
		size += maxRelated
	}
	r.queue.add(pending{regarding: regarding, related: related, event: event, size: size})
}

// shortened is as much of a text as fits into a note.
func shortened(text string) string {
	if len(text) <= maxNote {
		return text
	}
	const more = "..."
	return strings.ToValidUTF8(text[:maxNote-len(more)], "") + more
}
