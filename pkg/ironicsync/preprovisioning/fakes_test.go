package preprovisioning

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
)

// world is one host with its image, and the Secret with its network data.
type world struct {
	t     *testing.T
	host  *metal3.BareMetalHost        // nil if there is none
	image *metal3.PreprovisioningImage // nil if there is none
	// secret is the resourceVersion of the Secret; empty if there is none.
	secret  string
	writes  int
	builtIn deploy.Ramdisk
	off     bool
}

var key = types.NamespacedName{Namespace: "metal3", Name: "worker-0"}

func newWorld(t *testing.T) *world {
	return &world{
		t: t,
		host: &metal3.BareMetalHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "host", Labels: map[string]string{"rack": "7"}, Finalizers: []string{metal3.BareMetalHostFinalizer}},
			Spec:       metal3.BareMetalHostSpec{BMC: metal3.BMCDetails{Address: "redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1"}},
			Status:     metal3.BareMetalHostStatus{Provisioning: metal3.ProvisionStatus{State: metal3.StateInspecting}},
		},
		builtIn: deploy.Ramdisk{Images: deploy.Images{ISOURL: "http://images.example/agent.iso"}},
	}
}

func (w *world) controller() *Controller {
	return New(Parts{
		Images: images{w}, Hosts: hosts{w}, Enabled: !w.off, Ramdisk: w.builtIn,
		Secret: func(context.Context, string, string) (secrets.Data, error) {
			if w.secret == "" {
				return secrets.Data{}, apierrors.NewNotFound(metal3.Resource("secrets"), "network")
			}
			return secrets.Data{Since: w.secret}, nil
		},
		PlanHost: func(string, string) {},
	})
}

// reconcile reconciles the image until nothing changes any more.
func (w *world) reconcile() time.Duration {
	w.t.Helper()
	c := w.controller()
	for range 10 {
		before := w.writes
		after, err := c.reconcile(w.t.Context(), key)
		if err != nil {
			w.t.Fatal(err)
		}
		if w.writes == before {
			return after
		}
	}
	w.t.Fatalf("after %d writes, the image is still changing: %+v", w.writes, w.image)
	return 0
}

// verdict is what the engine is told of the image.
func (w *world) verdict() *lifecycle.Image { return verdictOn(w.host, w.image, w.secret, w.builtIn) }

type hosts struct{ *world }

func (h hosts) Get(context.Context, string, string) (*metal3.BareMetalHost, error) {
	if h.host == nil {
		return nil, apierrors.NewNotFound(metal3.Resource("baremetalhosts"), key.Name)
	}
	return h.host.DeepCopy(), nil
}

type images struct{ *world }

func (i images) List(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return nil, errors.New("not used")
}

func (i images) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return nil, errors.New("not used")
}

func (i images) Get(context.Context, string, string) (*metal3.PreprovisioningImage, error) {
	if i.image == nil {
		return nil, apierrors.NewNotFound(metal3.Resource("preprovisioningimages"), key.Name)
	}
	return i.image.DeepCopy(), nil
}

func (i images) Create(_ context.Context, image *metal3.PreprovisioningImage) (*metal3.PreprovisioningImage, error) {
	i.world.image = &metal3.PreprovisioningImage{}
	image = image.DeepCopy()
	image.Generation = 1
	return i.put(image), nil
}

func (i images) Update(_ context.Context, image *metal3.PreprovisioningImage) (*metal3.PreprovisioningImage, error) {
	if image.ResourceVersion != i.image.ResourceVersion {
		return nil, apierrors.NewConflict(metal3.Resource("preprovisioningimages"), key.Name, errors.New("changed"))
	}
	image = image.DeepCopy()
	image.Status = i.image.Status
	if !equality.Semantic.DeepEqual(image.Spec, i.image.Spec) {
		image.Generation++
	}
	put := i.put(image)
	if !put.DeletionTimestamp.IsZero() && len(put.Finalizers) == 0 {
		i.world.image = nil
	}
	return put, nil
}

func (i images) UpdateStatus(_ context.Context, image *metal3.PreprovisioningImage) (*metal3.PreprovisioningImage, error) {
	if image.ResourceVersion != i.image.ResourceVersion {
		return nil, apierrors.NewConflict(metal3.Resource("preprovisioningimages"), key.Name, errors.New("changed"))
	}
	return i.put(image.DeepCopy()), nil
}

func (i images) put(image *metal3.PreprovisioningImage) *metal3.PreprovisioningImage {
	i.writes++
	image.ResourceVersion = strconv.Itoa(i.writes)
	i.world.image = image
	return image.DeepCopy()
}
