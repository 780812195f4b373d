// SPDX-License-Identifier: Apache-2.0

package preprovisioning

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// world is one host with its image, and the Secret with its network data.
type world struct {
	t     *testing.T
	host  *metal3.BareMetalHost        // nil if there is none
	image *metal3.PreprovisioningImage // nil if there is none
	// secret is the resourceVersion of the Secret; empty if there is none.
	secret  string
	images  *enginetest.Slot[*metal3.PreprovisioningImage]
	builtIn deploy.Ramdisk
	off     bool
}

var key = types.NamespacedName{Namespace: "metal3", Name: "worker-0"}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t,
		host: &metal3.BareMetalHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "host", Labels: map[string]string{"rack": "7"}, Finalizers: []string{metal3.BareMetalHostFinalizer}},
			Spec:       metal3.BareMetalHostSpec{BMC: metal3.BMCDetails{Address: "redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1"}},
			Status:     metal3.BareMetalHostStatus{Provisioning: metal3.ProvisionStatus{State: metal3.StateInspecting}},
		},
		builtIn: deploy.Ramdisk{Images: deploy.Images{ISOURL: "http://images.example/agent.iso"}},
	}
	w.images = &enginetest.Slot[*metal3.PreprovisioningImage]{Resource: "preprovisioningimages", Object: &w.image}
	return w
}

func (w *world) controller() *Controller {
	return New(Deps{
		Images: w.images, Hosts: &enginetest.Slot[*metal3.BareMetalHost]{Resource: "baremetalhosts", Object: &w.host}, Enabled: !w.off, Ramdisk: w.builtIn,
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
		before := w.images.Writes
		after, err := c.reconcile(w.t.Context(), key)
		if err != nil {
			w.t.Fatal(err)
		}
		if w.images.Writes == before {
			return after
		}
	}
	w.t.Fatalf("after %d writes, the image is still changing: %+v", w.images.Writes, w.image)
	return 0
}

// verdict is what the engine is told of the image.
func (w *world) verdict() *lifecycle.Image { return verdictOn(w.host, w.image, w.secret, w.builtIn) }
