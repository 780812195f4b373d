// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// lateBy is how long the requests of these tests wait somewhere: longer than the server waits for an answer.
const lateBy = 2 * time.Minute

// askedLimit is for how long a request counts that may have been sent before a process was killed: docs/life.md, "Requests without
// an answer".
const askedLimit = 4 * time.Minute

// inLateWorld runs a test with one host. The host shows "provisioned", without an error, only while its node is active.
func inLateWorld(t *testing.T, image bool, test func(t *testing.T, w *world, key types.NamespacedName)) {
	inSimulatedFleet(t, fleetSettings(), ironicsim.Options{}, func(t *testing.T, w *world) {
		w.onRecord(func(host *metal3.BareMetalHost) {
			status := &host.Status
			if status.Provisioning.State == metal3.StateProvisioned && status.ErrorType == "" && status.Ironic != nil && status.Ironic.ProvisionState != "active" {
				t.Errorf("shown as provisioned, while its node is %s", status.Ironic.ProvisionState)
			}
		})
		key := w.enrol(enginetest.Namespace, 1)[0]
		w.after(time.Minute, "available", w.is(key, metal3.StateAvailable))
		if image {
			w.edit(key, setImage)
			w.after(2*time.Minute, "provisioned", w.is(key, metal3.StateProvisioned))
		}
		test(t, w, key)
	})
}

func setImage(h *metal3.BareMetalHost) { h.Spec.Image = &metal3.Image{URL: imageURL, Checksum: "abc"} }
func noImage(h *metal3.BareMetalHost)  { h.Spec.Image = nil }

func (w *world) is(key types.NamespacedName, state metal3.ProvisioningState) func() bool {
	return func() bool {
		host := w.hostOf(key)
		return host.Status.Provisioning.State == state && host.Status.OperationalStatus == metal3.OperationalStatusOK
	}
}

// firstIsLate makes the next request of a name late, waits until it is sent, and lets others pass.
func (w *world) firstIsLate(call string, ask func()) {
	w.t.Helper()
	before := w.sim.Count(call)
	w.sim.SetLate(call, lateBy)
	ask()
	w.after(2*time.Minute, "asked for "+call, func() bool { return w.sim.Count(call) > before })
	w.sim.SetLate(call, 0)
}

// imageWrites is how often the image was written to the host's disk, and whether it was the last thing that was done to it.
func (w *world) imageWrites(key types.NamespacedName) (times int, last bool) {
	writes := w.sim.Sim.DiskWrites(w.hostOf(key).Status.Provisioning.ID)
	for _, write := range writes {
		if write.Image != "" {
			times++
		}
	}
	return times, len(writes) > 0 && writes[len(writes)-1].Image != ""
}

// imagesOn returns the images that were written to the disk of a node, in this order.
func (w *world) imagesOn(node string) (images []string) {
	for _, write := range w.sim.Sim.DiskWrites(node) {
		if write.Image != "" {
			images = append(images, write.Image)
		}
	}
	return images
}

// another begins another process, after the present one was killed with its requests under way.
func (w *world) another() {
	w.stop()
	ctx, cancel := context.WithCancel(w.t.Context())
	w.run(ctx, cancel, w.hosts, w.sim, fleetSettings())
}

// TestLateUndeployment: the image is put back while Ironic has yet to carry out the request to undeploy. The machine
// is wiped, sooner or later, so the host is deployed again, and not by a deployment that the request could still end.
func TestLateUndeployment(t *testing.T) {
	underEachLeader(t, true, func(t *testing.T, w *world, key types.NamespacedName, meanwhile func(w *world)) {
		w.firstIsLate(string(ironic.TargetDeleted), func() { w.edit(key, noImage) })
		meanwhile(w)
		w.edit(key, setImage)
		time.Sleep(10 * time.Second)
		if w.is(key, metal3.StateProvisioned)() {
			t.Error("the request is taken for not having happened")
		}
		w.after(10*time.Minute, "provisioned again", w.is(key, metal3.StateProvisioned))
		time.Sleep(10 * time.Minute)
		times, last := w.imageWrites(key)
		if host := w.hostOf(key); !w.is(key, metal3.StateProvisioned)() || times != 2 || !last {
			t.Errorf("the image was written %d times, last %t; the host is %s, %s", times, last, host.Status.Provisioning.State, host.Status.ErrorMessage)
		}
	})
}

// TestLateAndRefused: that one request was refused says nothing of another one that got no answer, whichever came first.
func TestLateAndRefused(t *testing.T) {
	refuse := func(w *world) {
		w.sim.Refuse("deleted", 409, "Node is locked by host conductor-0, please retry after the current operation is completed.")
	}
	for _, lateFirst := range []bool{true, false} {
		inLateWorld(t, true, func(t *testing.T, w *world, key types.NamespacedName) {
			sent := func(n int) {
				w.after(2*time.Minute, "asked", func() bool { return w.sim.Count("deleted") >= n })
			}
			if lateFirst {
				w.firstIsLate(string(ironic.TargetDeleted), func() { w.edit(key, noImage) })
				refuse(w)
				sent(2)
			} else {
				refuse(w)
				w.edit(key, noImage)
				sent(1)
				w.sim.SetLate("deleted", lateBy)
				w.sim.Accept("deleted")
				sent(w.sim.Count("deleted") + 1)
			}
			time.Sleep(time.Second)
			w.edit(key, setImage)
			time.Sleep(45 * time.Second) // longer than the server waits for an answer
			if w.is(key, metal3.StateProvisioned)() {
				t.Errorf("late first %t: the request without an answer is taken for refused", lateFirst)
			}
			w.sim.Accept("deleted")
			w.sim.SetLate("deleted", 0)
			w.after(15*time.Minute, "provisioned again", w.is(key, metal3.StateProvisioned))
		})
	}
}

// TestLateDeployment: nobody wants the image any more when Ironic begins to write it.
func TestLateDeployment(t *testing.T) {
	underEachLeader(t, false, func(t *testing.T, w *world, key types.NamespacedName, meanwhile func(w *world)) {
		w.firstIsLate(string(ironic.TargetActive), func() { w.edit(key, setImage) })
		w.edit(key, noImage)
		meanwhile(w)
		w.after(time.Minute, "available again", w.is(key, metal3.StateAvailable))
		w.after(5*time.Minute, "undeployed", func() bool { return w.sim.Count("deleted") > 0 })
		w.after(5*time.Minute, "available for good", w.is(key, metal3.StateAvailable))
		time.Sleep(time.Minute)
		id := w.hostOf(key).Status.Provisioning.ID
		if node := w.sim.Node(id); node.ProvisionState != ironic.Available || !w.is(key, metal3.StateAvailable)() {
			t.Errorf("the node is %s, the host %s", node.ProvisionState, w.hostOf(key).Status.Provisioning.State)
		}
	})
}

// TestLateDeploymentOfEarlierAttempt: the image was replaced before Ironic begins to write the former one. The request for that
// has the former one's config drive with it, which must not become the new image's.
func TestLateDeploymentOfEarlierAttempt(t *testing.T) {
	const another = "http://images.example.org/another.img"
	underEachLeader(t, false, func(t *testing.T, w *world, key types.NamespacedName, meanwhile func(w *world)) {
		w.firstIsLate(string(ironic.TargetActive), func() { w.edit(key, setImage) })
		w.edit(key, func(h *metal3.BareMetalHost) { h.Spec.Image = &metal3.Image{URL: another, Checksum: "def"} })
		meanwhile(w)
		w.after(15*time.Minute, "provisioned", w.is(key, metal3.StateProvisioned))
		time.Sleep(10 * time.Minute)
		images := w.imagesOn(w.hostOf(key).Status.Provisioning.ID)
		if !w.is(key, metal3.StateProvisioned)() || !slices.Equal(images, []string{imageURL, another}) {
			t.Errorf("%q were written; the host is %s", images, w.hostOf(key).Status.Provisioning.State)
		}
	})
}

// TestLateDeploymentOfDeletedHost: a host whose deployment may still begin stays until that is known, so that no machine is left
// running what nobody knows of.
func TestLateDeploymentOfDeletedHost(t *testing.T) {
	available := func(w *world, key types.NamespacedName) {
		w.edit(key, noImage)
		w.after(time.Minute, "available again", w.is(key, metal3.StateAvailable))
	}
	for name, meanwhile := range map[string]func(w *world, key types.NamespacedName){
		"provisioning":    func(*world, types.NamespacedName) {},
		"available again": available,
		"and Ironic is away for longer than a request counts": func(w *world, key types.NamespacedName) {
			available(w, key)
			w.sim.SetAway(true)
			time.AfterFunc(2*askedLimit, func() { w.sim.SetAway(false) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLateWorld(t, false, func(t *testing.T, w *world, key types.NamespacedName) {
				w.firstIsLate(string(ironic.TargetActive), func() { w.edit(key, setImage) })
				meanwhile(w, key)
				w.edit(key, func(h *metal3.BareMetalHost) { h.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
				w.after(15*time.Minute, "deleted", func() bool { return w.hostOf(key) == nil })
				if w.sim.Count("deleted") == 0 {
					t.Error("the deployment that has begun late was not undone")
				}
			})
		})
	}
}

// TestLateRebuild: a rebuild is asked for once, however late it begins: a second one would write over what the machine
// has stored since.
func TestLateRebuild(t *testing.T) {
	underEachLeader(t, true, func(t *testing.T, w *world, key types.NamespacedName, meanwhile func(w *world)) {
		node := w.sim.Node(w.hostOf(key).Status.Provisioning.ID)
		w.firstIsLate(string(ironic.TargetRebuild), func() {
			w.edit(key, func(h *metal3.BareMetalHost) {
				if err := lifecycle.RequestRebuild(h, node, time.Now()); err != nil {
					t.Error(err)
				}
			})
		})
		meanwhile(w)
		w.after(5*time.Minute, "provisioned again", w.is(key, metal3.StateProvisioned))
		time.Sleep(10 * time.Minute)
		if times, last := w.imageWrites(key); times != 2 || !last || w.sim.Count("rebuild") != 1 {
			t.Errorf("the image was written %d times, last %t, %d requests", times, last, w.sim.Count("rebuild"))
		}
	})
}

// TestLostRebuild: a rebuild whose request is lost is asked for again after a while.
func TestLostRebuild(t *testing.T) {
	inLateWorld(t, true, func(t *testing.T, w *world, key types.NamespacedName) {
		node := w.sim.Node(w.hostOf(key).Status.Provisioning.ID)
		w.sim.SetLate("rebuild", 24*time.Hour)
		w.edit(key, func(h *metal3.BareMetalHost) {
			if err := lifecycle.RequestRebuild(h, node, time.Now()); err != nil {
				t.Error(err)
			}
		})
		w.after(time.Minute, "asked for", func() bool { return w.sim.Count("rebuild") == 1 })
		w.sim.SetLate("rebuild", 0)
		asked := w.after(10*time.Minute, "asked for again", func() bool { return w.sim.Count("rebuild") == 2 })
		if asked < 3*time.Minute {
			t.Errorf("asked for again after %s", asked)
		}
		w.after(time.Minute, "provisioned again", w.is(key, metal3.StateProvisioned))
	})
}

// TestPutBackBeforeRepetition: a request that Ironic has refused is not repeated for a spec that was put back, for a host that was
// paused, or for one that was detached, after the host was read for it.
func TestPutBackBeforeRepetition(t *testing.T) {
	for name, change := range map[string]func(h *metal3.BareMetalHost){
		"put back": setImage,
		"paused": func(h *metal3.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.PausedAnnotation, "")
		},
		"detached": func(h *metal3.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.DetachedAnnotation, `{"force":true}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLateWorld(t, true, func(t *testing.T, w *world, key types.NamespacedName) {
				w.sim.Refuse("deleted", http.StatusServiceUnavailable, "no free worker")
				w.edit(key, noImage)
				w.after(2*time.Minute, "refused", func() bool { return w.sim.Count("deleted") > 0 })
				var once sync.Once
				asked := 0
				w.sim.Intercept(func(call string, _ *http.Request) error {
					if call == "GetNode" { // the host has just been read
						once.Do(func() {
							asked = w.sim.Count("deleted")
							w.sim.Accept("deleted")
							w.edit(key, change)
						})
					}
					return nil
				})
				time.Sleep(10 * time.Minute)
				if n := w.sim.Count("deleted") - asked; asked == 0 || n != 0 {
					t.Errorf("the end of the deployment was asked for %d times more, after %d times", n, asked)
				}
			})
		})
	}
}
