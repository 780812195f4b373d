// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

var (
	claimOwner = types.NamespacedName{Namespace: enginetest.Namespace, Name: "owner"}
	claimRival = types.NamespacedName{Namespace: enginetest.Namespace, Name: "rival"}
)

// rival is another host that wants the BMC of a host, which is that with number 0.
type rival struct {
	key types.NamespacedName
	// before is done before there is the owner.
	before func(w *world)
	// wants has the rival want the BMC, and an image.
	wants func(w *world)
}

func createdLater(namespace string) rival {
	key := types.NamespacedName{Namespace: namespace, Name: claimRival.Name}
	return rival{key, func(*world) {}, func(w *world) {
		host := enrolledIn(key.Namespace, key.Name, 0)
		host.Spec.BootMACAddress = "00:ab:4f:d8:ff:01"
		wantImage(host)
		w.addWithSecret(host)
	}}
}

// given gives the rival, which has a machine of its own until then, the address of the BMC by mistake.
func given(meanwhile func(h *metal3.BareMetalHost)) rival {
	return rival{claimRival, func(w *world) {
		w.addWithSecret(enrolledIn(claimRival.Namespace, claimRival.Name, 7))
		w.after(time.Minute, "the rival is available", w.is(claimRival, metal3.StateAvailable))
		w.edit(claimRival, meanwhile)
		time.Sleep(time.Minute)
	}, func(w *world) {
		address := w.hostOf(claimOwner).Spec.BMC.Address
		w.edit(claimRival, func(h *metal3.BareMetalHost) {
			h.Spec.BMC.Address = address
			delete(h.Annotations, metal3.DetachedAnnotation)
			wantImage(h)
		})
	}}
}

// TestClaimOutlivesNode: a host whose machine runs something keeps its BMC when Ironic has forgotten everything, whatever keeps the
// host from getting a node again. Another host that wants the BMC, and has waited for this, does nothing to the machine.
func TestClaimOutlivesNode(t *testing.T) {
	rivals := map[string]rival{
		"of the same namespace": createdLater(claimOwner.Namespace),
		"of another namespace":  createdLater("other"),
		"older":                 given(func(*metal3.BareMetalHost) {}),
		"older, and was detached": given(func(h *metal3.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.DetachedAnnotation, "")
		}),
	}
	nothing := func(*metal3.BareMetalHost) {}
	obstacles := map[string][2]func(h *metal3.BareMetalHost){
		"free": {nothing, nothing},
		"paused": {
			func(h *metal3.BareMetalHost) {
				metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.PausedAnnotation, "")
			},
			func(h *metal3.BareMetalHost) { delete(h.Annotations, metal3.PausedAnnotation) },
		},
		"without its Secret": {
			func(h *metal3.BareMetalHost) { h.Spec.BMC.CredentialsName = "none" },
			func(h *metal3.BareMetalHost) { h.Spec.BMC.CredentialsName = claimOwner.Name + "-bmc" },
		},
		"detached, with another address": {
			func(h *metal3.BareMetalHost) {
				metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.DetachedAnnotation, "")
				h.Spec.BMC.Address = enrolledIn(h.Namespace, h.Name, 9).Spec.BMC.Address
			},
			func(h *metal3.BareMetalHost) {
				delete(h.Annotations, metal3.DetachedAnnotation)
				h.Spec.BMC.Address = enrolledIn(h.Namespace, h.Name, 0).Spec.BMC.Address
			},
		},
	}
	for rivalName, rival := range rivals {
		for obstacleName, obstacle := range obstacles {
			for leader, meanwhile := range map[string]func(w *world){"same leader": func(*world) {}, "new leader": (*world).another} {
				t.Run("rival "+rivalName+", owner "+obstacleName+", "+leader, func(t *testing.T) {
					inSimulatedFleet(t, fleetSettings(), ironicsim.Options{}, func(t *testing.T, w *world) {
						testClaimOutlivesNode(t, w, rival, obstacle, meanwhile)
					})
				})
			}
		}
	}
}

func testClaimOutlivesNode(t *testing.T, w *world, rival rival, obstacle [2]func(h *metal3.BareMetalHost), meanwhile func(w *world)) {
	rival.before(w)
	owner := enrolledIn(claimOwner.Namespace, claimOwner.Name, 0)
	wantImage(owner)
	w.addWithSecret(owner)
	w.after(5*time.Minute, "the owner is provisioned", w.is(claimOwner, metal3.StateProvisioned))
	rival.wants(w)
	time.Sleep(time.Minute)
	bmc := w.sim.BMC(0)
	cuts, writes := bmc.PowerCuts(), len(bmc.DiskWrites())
	leftAlone := func(when string) {
		t.Helper()
		if bmc.Power() != "power on" || bmc.PowerCuts() != cuts || len(bmc.DiskWrites()) != writes {
			t.Errorf("%s: %s, power cut %d times and disk written %d times, before %d and %d; the rival is %+v",
				when, bmc.Power(), bmc.PowerCuts(), len(bmc.DiskWrites()), cuts, writes, w.hostOf(rival.key).Status)
		}
	}

	w.edit(claimOwner, obstacle[0])
	time.Sleep(10 * time.Second)
	w.sim.Sim.LoseAllNodes()
	meanwhile(w)
	time.Sleep(30 * time.Minute)
	leftAlone("after the loss")

	w.edit(claimOwner, obstacle[1])
	w.after(5*time.Minute, "the owner has its machine again", func() bool {
		node := w.sim.Node(w.hostOf(claimOwner).Status.Provisioning.ID)
		return w.is(claimOwner, metal3.StateProvisioned)() && node != nil && node.ProvisionState == "active"
	})
	time.Sleep(10 * time.Minute)
	leftAlone("at the end")
}
