// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// limited runs a test with room for two hosts at a time.
func limited(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	limitedCleaning(t, 2*time.Second, test)
}

// limitedCleaning is limited with another duration of cleaning.
func limitedCleaning(t *testing.T, cleaning time.Duration, test func(t *testing.T, w *world)) {
	t.Helper()
	settings := fleetSettings()
	settings.ProvisioningLimit = 2
	const quick = 200 * time.Millisecond
	delays := ironicsim.All(quick)
	delays.Inspect, delays.Deploy, delays.Clean = 2*time.Second, 2*time.Second, cleaning
	inSimulatedFleet(t, settings, ironicsim.Options{Delays: delays, RamdiskDelay: quick}, test)
}

// namesIn are the names of the nodes in one of some states.
func (w *world) namesIn(states ...ironic.ProvisionState) (names []string) {
	for _, id := range w.sim.Sim.NodeUUIDs() {
		node, _ := w.sim.Sim.Node(id)
		if state, _ := node["provision_state"].(string); slices.Contains(states, ironic.ProvisionState(state)) {
			names = append(names, node["name"].(string))
		}
	}
	return names
}

// until waits for something, watches meanwhile that Ironic works on no more than two
// nodes at a time, and returns them in the order in which they came there.
func (w *world) until(limit time.Duration, what string, condition func() bool) (order []string) {
	w.t.Helper()
	w.after(limit, what, func() bool {
		names := w.namesIn(ironic.Inspecting, ironic.InspectWait, ironic.Cleaning, ironic.CleanWait, ironic.Deploying, ironic.DeployWait)
		if len(names) > 2 {
			w.t.Fatalf("Ironic works on %v at a time", names)
		}
		slices.Sort(names)
		for _, name := range names {
			if !slices.Contains(order, name) {
				order = append(order, name)
			}
		}
		return condition()
	})
	return order
}

// TestProvisioningLimit: no more hosts than allowed are inspected, deployed or
// undeployed at a time, the others say that they are delayed, and the few of one
// namespace do not wait for the many of another. A host keeps its place between the
// cleaning and the deployment.
func TestProvisioningLimit(t *testing.T) {
	limited(t, func(t *testing.T, w *world) {
		a := w.enrol("a", 6)
		w.until(time.Minute, "four of six are delayed", func() bool { return w.count(a, isDelayed) == 4 })
		b := w.enrol("b", 2)
		all := append(slices.Clone(a), b...)
		sixWait := func() bool { return w.count(all, isDelayed) == 6 }
		w.until(10*time.Second, "six of eight are delayed", sixWait)
		order := w.until(5*time.Minute, "all are available", w.all(all, arrived(metal3.StateAvailable)))
		t.Logf("inspected in the order %v", order)
		for _, name := range []string{"b~b-0", "b~b-1"} {
			if i := slices.Index(order, name); i < 0 || i > 5 {
				t.Errorf("%s was inspected as number %d of %v", name, i+1, order)
			}
		}

		for _, key := range all {
			w.edit(key, wantImage)
		}
		w.until(10*time.Second, "six of eight are delayed", sixWait)
		order = w.until(5*time.Minute, "all are provisioned", w.all(all, arrived(metal3.StateProvisioned)))
		t.Logf("deployed in the order %v", order)
		if n := w.sim.Count("active"); n != len(all) {
			t.Errorf("%d deployments of %d hosts", n, len(all))
		}

		for _, key := range all {
			w.edit(key, func(h *metal3.BareMetalHost) { h.Spec.Image = nil })
		}
		w.until(10*time.Second, "six of eight are delayed", sixWait)
		w.until(5*time.Minute, "all are available again", w.all(all, arrived(metal3.StateAvailable)))
	})
}

// TestDelayedHostIsDeleted: who waits for room can go, and leaves its place to
// others; so does who does not want it any more.
func TestDelayedHostIsDeleted(t *testing.T) {
	limited(t, func(t *testing.T, w *world) {
		hosts := w.enrol("a", 6)
		w.after(5*time.Minute, "all are available", w.all(hosts, arrived(metal3.StateAvailable)))
		for _, key := range hosts {
			w.edit(key, wantImage)
		}
		w.after(10*time.Second, "four of six are delayed", func() bool { return w.count(hosts, isDelayed) == 4 })
		waiting := slices.DeleteFunc(slices.Clone(hosts), func(key types.NamespacedName) bool { return !isDelayed(w.hostOf(key)) })
		gone, content := waiting[0], waiting[1]

		w.edit(gone, func(h *metal3.BareMetalHost) { h.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
		w.after(10*time.Second, "the deleted one is gone", func() bool { return w.hostOf(gone) == nil })
		w.edit(content, func(h *metal3.BareMetalHost) { h.Spec.Image = nil })
		w.after(10*time.Second, "the one without an image waits no more", func() bool { return arrived(metal3.StateAvailable)(w.hostOf(content)) })

		others := slices.DeleteFunc(hosts, func(key types.NamespacedName) bool { return key == gone || key == content })
		// A place that is kept for a host that does not come is kept for 30 s.
		w.after(30*time.Second, "the others are provisioned", w.all(others, arrived(metal3.StateProvisioned)))
	})
}

// TestDelayedHostIsFenced: a machine that waits for its turn to be undeployed still runs what somebody relies on having switched off.
func TestDelayedHostIsFenced(t *testing.T) {
	const fence = metal3.RebootAnnotationPrefix + "fence"
	for name, test := range map[string]struct {
		off, on func(h *metal3.BareMetalHost)
	}{
		"by an annotation": {
			func(h *metal3.BareMetalHost) { metav1.SetMetaDataAnnotation(&h.ObjectMeta, fence, `{"mode":"hard"}`) },
			func(h *metal3.BareMetalHost) { delete(h.Annotations, fence) },
		},
		"by its spec": {
			func(h *metal3.BareMetalHost) { h.Spec.Online = false },
			func(h *metal3.BareMetalHost) { h.Spec.Online = true },
		},
	} {
		t.Run(name, func(t *testing.T) {
			limitedCleaning(t, time.Hour, func(t *testing.T, w *world) {
				keys := w.enrol("a", 3)
				w.until(5*time.Minute, "available", w.all(keys, arrived(metal3.StateAvailable)))
				for _, key := range keys {
					w.edit(key, func(h *metal3.BareMetalHost) {
						wantImage(h)
						h.Spec.AutomatedCleaningMode = metal3.CleaningModeDisabled
					})
				}
				w.until(5*time.Minute, "provisioned", w.all(keys, arrived(metal3.StateProvisioned)))
				for _, key := range keys {
					w.edit(key, func(h *metal3.BareMetalHost) {
						noImage(h)
						h.Spec.AutomatedCleaningMode = metal3.CleaningModeMetadata
					})
				}
				w.after(time.Minute, "one of three is delayed", func() bool { return w.count(keys, isDelayed) == 1 })
				i := slices.IndexFunc(keys, func(key types.NamespacedName) bool { return isDelayed(w.hostOf(key)) })
				power := func(want string) func() bool {
					return func() bool {
						return w.sim.BMC(i).Power() == want && w.hostOf(keys[i]).Status.PoweredOn == (want == "power on") && isDelayed(w.hostOf(keys[i]))
					}
				}
				w.edit(keys[i], test.off)
				w.after(5*time.Minute, "off, and still delayed", power("power off"))
				w.edit(keys[i], test.on)
				w.after(5*time.Minute, "on, and still delayed", power("power on"))
				time.Sleep(time.Minute)
				before := w.hostOf(keys[i]).ResourceVersion
				time.Sleep(10 * time.Minute)
				if host := w.hostOf(keys[i]); host.ResourceVersion != before || !power("power on")() {
					t.Errorf("written while it waits (%s, was %s): %+v", host.ResourceVersion, before, host.Status)
				}
			})
		})
	}
}

// TestVirtualMediaIsNotDelayed: hosts that boot from virtual media take nothing of
// what the limit is to spare.
func TestVirtualMediaIsNotDelayed(t *testing.T) {
	limited(t, func(t *testing.T, w *world) {
		network := w.enrol("a", 4)
		w.after(time.Minute, "two of four are delayed", func() bool { return w.count(network, isDelayed) == 2 })
		var media []types.NamespacedName
		for i := range 4 {
			host := enrolledIn("b", fmt.Sprintf("media-%d", i), 100+i)
			host.Spec.BMC.Address = fmt.Sprintf("redfish-virtualmedia://192.168.120.%d/redfish/v1/Systems/1", i+1)
			w.sim.Sim.AddBMC(host.Spec.BMC.Address, enginetest.BMCUser, enginetest.BMCPassword)
			w.addWithSecret(host)
			media = append(media, enginetest.KeyOf(host))
		}
		took := w.after(30*time.Second, "all with virtual media are available", func() bool {
			if n := w.count(media, isDelayed); n > 0 {
				t.Fatalf("%d are delayed", n)
			}
			return w.count(media, arrived(metal3.StateAvailable)) == len(media)
		})
		t.Logf("available after %s, with two seconds and more for the inspection", took)
	})
}
