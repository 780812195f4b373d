// SPDX-License-Identifier: Apache-2.0

package dataimage

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// world is one host with its DataImage, its node, and a drive that Ironic fills.
type world struct {
	t     *testing.T
	image *metal3.DataImage // nil if there is none
	host  *metal3.BareMetalHost
	node  *ironic.Node

	drive string
	// lateLooks is how often the drive still shows what was in it before, after Ironic has changed it without an error.
	lateLooks int
	waiting   func() // changes the drive, later
	looked    func() // is called when the drive is looked at; may be nil
	tooOld    bool
	getError  error
	// attachError is what Ironic finds when it attaches an image, after it has accepted the request.
	attachError string
	// attachAnswer is what an attachment is answered with.
	attachAnswer error
	notAllowed   error
	unproven     string // why the node is not the host's
	clock        *clocktesting.FakePassiveClock
	requests     []string
	events       enginetest.Events
	images       *enginetest.Slot[*metal3.DataImage]
	// ironics are those that there are, by name. The world is that of the server's flags.
	ironics enginetest.Ironics[Ironic]
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, clock: clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		host: &metal3.BareMetalHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "worker-0", UID: "host"},
			Status:     metal3.BareMetalHostStatus{Provisioning: metal3.ProvisionStatus{ID: "node", State: metal3.StateProvisioned}, Record: metal3.HostRecord{RegisteredWith: &metal3.RegisteredWith{}}},
		},
		node: &ironic.Node{UUID: "node", Driver: "redfish", ProvisionState: ironic.Active, PowerState: ironic.PowerOff},
		image: &metal3.DataImage{
			ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "worker-0", UID: "image", ResourceVersion: "1", Finalizers: []string{metal3.DataImageFinalizer}},
			Spec:       metal3.DataImageSpec{URL: "http://images.example/a.iso"},
		},
	}
	w.ironics = enginetest.Ironics[Ironic]{"": w}
	w.images = &enginetest.Slot[*metal3.DataImage]{Resource: "dataimages", Object: &w.image}
	return w
}

func (w *world) controller() *Controller { return New(w.deps()) }

func (w *world) deps() Deps {
	return Deps{
		Images: w.images, Hosts: &enginetest.Slot[*metal3.BareMetalHost]{Resource: "baremetalhosts", Object: &w.host}, Nodes: enginetest.NodesOf(w.ironics, &w.unproven), Events: &w.events, Clock: w.clock,
		CheckURL: func(context.Context, string) error { return w.notAllowed },
		PlanHost: func(string, string) {},
	}
}

func (w *world) Features(context.Context) (ironic.Features, error) {
	return ironic.Features{VirtualMedia: !w.tooOld}, nil
}

func (w *world) GetNode(context.Context, string) (*ironic.Node, error) {
	if w.node == nil {
		return nil, ironic.NewAPIError(context.Background(), "get node", 404, []byte(`{"error_message":"{\"faultstring\":\"Node could not be found.\"}"}`), nil)
	}
	return w.node, nil
}

func (w *world) GetVirtualMedia(context.Context, string) ([]ironic.VirtualMedia, error) {
	w.requests = append(w.requests, "get")
	if w.looked != nil {
		w.looked()
	}
	if w.lateLooks--; w.waiting != nil && w.lateLooks < 0 {
		w.waiting()
		w.waiting = nil
	}
	return []ironic.VirtualMedia{
		{MediaTypes: []string{"USBStick"}, Inserted: true}, // which has nothing to do with DataImages
		{MediaTypes: []string{"CD", "DVD"}, Inserted: w.drive != "", Image: w.drive},
	}, w.getError
}

func (w *world) AttachVirtualMedia(_ context.Context, fence ironic.Fence, _, url string) error {
	if err := fence.Check(); err != nil { // as the client does
		return err
	}
	w.requests = append(w.requests, "attach "+url)
	if w.image.Status.AttachedImage.URL != url {
		w.t.Errorf("the attachment of %s was not recorded before Ironic was asked: %+v", url, w.image.Status)
	}
	if w.drive != "" {
		w.t.Error("Ironic 29.0 attaches nothing to a drive that is not empty")
	}
	if w.attachAnswer != nil {
		return w.attachAnswer
	}
	w.node.LastError = w.attachError
	if w.attachError == "" {
		w.change(url)
	}
	return nil
}

func (w *world) DetachVirtualMedia(_ context.Context, fence ironic.Fence, _ string) error {
	if err := fence.Check(); err != nil { // as the client does
		return err
	}
	w.requests = append(w.requests, "detach")
	w.node.LastError = ""
	w.change("")
	return nil
}

// change has the drive changed after as many looks as the BMC takes.
func (w *world) change(url string) {
	w.waiting = func() { w.drive = url }
	if w.lateLooks <= 0 {
		w.waiting()
		w.waiting = nil
	}
}

// powerOn calls BeforePowerOn until it has an outcome, as the host's controller does, and has the
// DataImage reconciled in between.
func (w *world) powerOn(c *Controller) (ready bool, problem string) {
	w.t.Helper()
	for range 50 {
		ready, problem, err := c.BeforePowerOn(w.t.Context(), w.host)
		if err != nil {
			w.t.Fatal(err)
		}
		if ready || problem != "" {
			return ready, problem
		}
		w.reconcile(c)
	}
	w.t.Fatalf("no outcome after requests %q", w.requests)
	return false, ""
}

// reconcile has the DataImage reconciled, and lets pass the time until it is to be reconciled again.
func (w *world) reconcile(c *Controller) {
	w.t.Helper()
	after, err := c.reconcile(w.t.Context(), types.NamespacedName{Namespace: "metal3", Name: "worker-0"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.clock.SetTime(w.clock.Now().Add(after))
}

func hold(host *metal3.BareMetalHost) {
	host.Status.Record.Hold = &metal3.Hold{Reason: metal3.NodeOfAnotherClusterReason, Message: "not yours"}
}
