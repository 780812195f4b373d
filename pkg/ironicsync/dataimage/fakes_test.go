package dataimage

import (
	"context"
	"errors"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/drive/events"
)

// world is one host with its DataImage, its node, and a drive that Ironic fills.
type world struct {
	t     *testing.T
	image *metal3.DataImage // nil if there is none
	host  *metal3.BareMetalHost
	node  *ironic.Node

	drive    string
	tooOld   bool
	getError error
	// attachError is what Ironic finds when it attaches an image, after it has accepted the request.
	attachError string
	notAllowed  error
	requests    []string
	events      []string
	version     int
}

func newWorld(t *testing.T) *world {
	return &world{
		t: t,
		host: &metal3.BareMetalHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "worker-0", UID: "host"},
			Status:     metal3.BareMetalHostStatus{Provisioning: metal3.ProvisionStatus{ID: "node", State: metal3.StateProvisioned}, RegisteredWith: &metal3.RegisteredWith{}},
		},
		node: &ironic.Node{UUID: "node", Driver: "redfish", ProvisionState: ironic.Active, PowerState: ironic.PowerOff},
		image: &metal3.DataImage{
			ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "worker-0", UID: "image", ResourceVersion: "1", Finalizers: []string{metal3.DataImageFinalizer}},
			Spec:       metal3.DataImageSpec{URL: "http://images.example/a.iso"},
		},
	}
}

func (w *world) controller() *Controller {
	return New(Parts{
		Images: images{w}, Hosts: hosts{w}, Ironic: w, Events: w,
		CheckURL: func(context.Context, string) error { return w.notAllowed },
		PlanHost: func(string, string) {},
	})
}

type images struct{ *world }

var notFound = apierrors.NewNotFound(metal3.Resource("dataimages"), "worker-0")

func (i images) List(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return nil, errors.New("not used")
}

func (i images) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return nil, errors.New("not used")
}

func (i images) Get(context.Context, string, string) (*metal3.DataImage, error) {
	if i.image == nil {
		return nil, notFound
	}
	return i.image.DeepCopy(), nil
}

func (i images) Update(_ context.Context, image *metal3.DataImage) (*metal3.DataImage, error) {
	status := i.image.Status
	updated, err := i.write(image)
	if err == nil {
		i.image.Status = status
	}
	if err == nil && updated.DeletionTimestamp != nil && len(updated.Finalizers) == 0 {
		i.world.image = nil
	}
	return updated, err
}

func (i images) UpdateStatus(_ context.Context, image *metal3.DataImage) (*metal3.DataImage, error) {
	return i.write(image)
}

func (i images) write(image *metal3.DataImage) (*metal3.DataImage, error) {
	if image.ResourceVersion != i.image.ResourceVersion {
		return nil, apierrors.NewConflict(metal3.Resource("dataimages"), image.Name, errors.New("changed"))
	}
	i.version++
	i.world.image = image.DeepCopy()
	i.image.ResourceVersion = strconv.Itoa(i.version + 1)
	return i.image.DeepCopy(), nil
}

type hosts struct{ *world }

func (h hosts) Get(context.Context, string, string) (*metal3.BareMetalHost, error) {
	if h.host == nil {
		return nil, apierrors.NewNotFound(metal3.Resource("baremetalhosts"), "worker-0")
	}
	return h.host, nil
}

func (w *world) Supports(_ context.Context, minor int) (bool, error) {
	return minor <= ironic.VirtualMediaVersion && !w.tooOld, nil
}

func (w *world) GetNode(context.Context, string) (*ironic.Node, error) {
	if w.node == nil {
		return nil, ironic.NewAPIError("get node", 404, []byte(`{"error_message":"{\"faultstring\":\"Node could not be found.\"}"}`), nil)
	}
	return w.node, nil
}

func (w *world) GetVirtualMedia(context.Context, string) ([]ironic.VirtualMedia, error) {
	w.requests = append(w.requests, "get")
	return []ironic.VirtualMedia{
		{MediaTypes: []string{"USBStick"}, Inserted: true}, // which has nothing to do with DataImages
		{MediaTypes: []string{"CD", "DVD"}, Inserted: w.drive != "", Image: w.drive},
	}, w.getError
}

func (w *world) AttachVirtualMedia(_ context.Context, _, url string) error {
	w.requests = append(w.requests, "attach "+url)
	if w.image.Status.AttachedImage.URL != url {
		w.t.Errorf("the attachment of %s was not recorded before Ironic was asked: %+v", url, w.image.Status)
	}
	if w.drive != "" {
		w.t.Error("Ironic 29.0 attaches nothing to a drive that is not empty")
	}
	w.node.LastError = w.attachError
	if w.attachError == "" {
		w.drive = url
	}
	return nil
}

func (w *world) DetachVirtualMedia(context.Context, string) error {
	w.requests = append(w.requests, "detach")
	w.drive, w.node.LastError = "", ""
	return nil
}

func (w *world) RecordObject(_ *corev1.ObjectReference, event events.Event) {
	w.events = append(w.events, event.Type+" "+event.Reason)
}

// powerOn calls BeforePowerOn until it has an outcome, as the host's controller does, and has the
// DataImage reconciled in between.
func (w *world) powerOn(c *Controller) (ready bool, problem string) {
	w.t.Helper()
	for range 10 {
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

func (w *world) reconcile(c *Controller) {
	w.t.Helper()
	if _, err := c.reconcile(w.t.Context(), types.NamespacedName{Namespace: "metal3", Name: "worker-0"}); err != nil {
		w.t.Fatal(err)
	}
}

func hold(host *metal3.BareMetalHost) {
	host.Status.Conditions = []metav1.Condition{{Type: metal3.HeldCondition, Status: metav1.ConditionTrue, Reason: metal3.NodeOfAnotherClusterReason, Message: "not yours"}}
}
