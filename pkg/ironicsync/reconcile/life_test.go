// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

func (w *world) update(change func(*metal3.BareMetalHost)) {
	w.t.Helper()
	w.hosts.Edit(w.t, enginetest.HostName(0), change)
}

func (w *world) in(state metal3.ProvisioningState) func() bool {
	return func() bool {
		host := w.host()
		return host.Status.Provisioning.State == state && host.Status.OperationalStatus == metal3.OperationalStatusOK && host.Status.PoweredOn == host.Spec.Online
	}
}

const imageURL = "http://images/a.qcow2"

func wantImage(h *metal3.BareMetalHost) {
	h.Spec.Image = &metal3.Image{URL: imageURL, Checksum: imageURL + ".sha256sum"}
}

// available adds a host, an ordinary one if none is given, and waits until it is available.
func (w *world) available(host ...*metal3.BareMetalHost) {
	w.t.Helper()
	w.secret("secret")
	if len(host) == 0 {
		host = append(host, enrolled(0))
	}
	w.hosts.Add(host[0])
	w.after(30*time.Second, "available", w.in(metal3.StateAvailable))
}

// provision gives the host its image.
func (w *world) provision() {
	w.t.Helper()
	w.update(wantImage)
	w.after(20*time.Second, "provisioned", w.in(metal3.StateProvisioned))
}

// expectNoPowerEvents: what Ironic and the leader switch to work on a host is no news.
func (w *world) expectNoPowerEvents() {
	w.t.Helper()
	w.events.mu.Lock()
	defer w.events.mu.Unlock()
	for _, reason := range w.events.reasons {
		if reason == "PowerOn" || reason == "PowerOff" {
			w.t.Errorf("events: %v", w.events.reasons)
			return
		}
	}
}

// TestTransitionsAreShown: whoever watches a host soon sees a transition that Ironic has accepted, which is requested
// once. Polls that see the node during the step, before the request, are no reason to take the step again.
func TestTransitionsAreShown(t *testing.T) {
	delays := ironicsim.All(time.Second)
	delays.Clean, delays.Deploy = 20*time.Second, 20*time.Second
	for _, tt := range []struct {
		name    string
		answer  time.Duration
		noPolls bool
		within  time.Duration
	}{
		{"by an early poll", 0, false, 450 * time.Millisecond},
		{"by a slow Ironic", 400 * time.Millisecond, false, 2 * time.Second},
		// After an answer 500, the client asks for Ironic's version first, which makes four requests and a pause of these 2 s.
		{"though no poll answers", 300 * time.Millisecond, true, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inSimulation(t, ironicsim.Options{Delays: delays}, func(t *testing.T, w *world) {
				w.available()
				w.sim.Sim.SetFaults(ironicsim.Faults{Latency: tt.answer})
				if tt.noPolls {
					w.sim.Refuse("ChangedSince", 500, "Internal error")
				}
				reads := w.sim.Count("ListBIOSSettings")
				w.update(wantImage)
				for _, transition := range []struct {
					call  string
					state ironic.ProvisionState
				}{{"provide", ironic.Cleaning}, {"active", ironic.Deploying}} {
					w.after(time.Minute, transition.call+" requested", func() bool { return w.sim.Count(transition.call) > 0 })
					w.after(tt.within, "shown as "+string(transition.state), func() bool {
						return w.host().Status.Ironic.ProvisionState == string(transition.state)
					})
				}
				w.after(2*time.Minute, "provisioned", w.in(metal3.StateProvisioned))
				for _, call := range []string{"provide", "Validate", "active"} {
					if n := w.sim.Count(call); n != 1 {
						t.Errorf("%s was requested %d times", call, n)
					}
				}
				w.after(time.Minute, "read with its BIOS settings, which come last", func() bool { return w.sim.Count("ListBIOSSettings") > reads })
				time.Sleep(time.Second) // they are answered
			})
		})
	}
}

// TestReadsUntilProvisioned: what becomes of the transitions is left to the polls; the node is not read after each of them.
func TestReadsUntilProvisioned(t *testing.T) {
	least := math.MaxInt
	// A poll and a step at the same moment, which is a matter of the polls' jitter, read the node once or twice more. That does not
	// happen each time.
	for range 3 {
		inSimulation(t, ironicsim.Options{}, func(_ *testing.T, w *world) {
			// Answers that take time come one after the other: how often the node is read then depends on nothing else.
			w.sim.Sim.SetFaults(ironicsim.Faults{Latency: 37 * time.Millisecond})
			w.available(enrolled(0))
			w.provision()
			least = min(least, w.sim.Count("GetNode"))
		})
	}
	// Two by name before it is created, one after that, one before it is switched on, and one when the image has been asked
	// for, are needed; five come with polls.
	if least > 11 {
		t.Errorf("the node was read %d times on the way to provisioned", least)
	}
}

// TestLife takes a host from its creation to an image and back, and asserts the
// states that a watcher sees, in order.
func TestLife(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.secret("secret")
		w.hosts.Add(enrolled(0))
		w.after(30*time.Second, "available", w.in(metal3.StateAvailable))
		if hw := w.host().Status.HardwareDetails; hw == nil || hw.RAMMebibytes != 16384 {
			t.Errorf("hardware is %+v", hw)
		}
		if arch := w.host().Spec.Architecture; arch != "x86_64" {
			t.Errorf("spec.architecture is %q", arch)
		}
		if data := w.hardware.objects["metal3/worker-0"]; data == nil || len(data.OwnerReferences) != 1 || data.Spec.HardwareDetails.Hostname != w.host().Status.HardwareDetails.Hostname {
			t.Errorf("HardwareData is %+v", data)
		}
		if n := w.sim.Count("provide"); n != 0 {
			t.Errorf("the host was cleaned %d times, and nobody has asked for an image", n)
		}

		w.expectNoPowerEvents()
		w.provision()
		host := w.host()
		if got := host.Status.Provisioning.Image.URL; got != imageURL {
			t.Errorf("image is %q", got)
		}
		r := w.registration()
		if r.InstanceInfo["image_source"] != imageURL || r.InstanceUUID != host.Status.Record.Deployment.InstanceUUID {
			t.Errorf("Ironic was told %v, instance %q", r.InstanceInfo, r.InstanceUUID)
		}

		w.update(func(h *metal3.BareMetalHost) { h.Spec.Image = nil })
		w.after(20*time.Second, "available again", w.in(metal3.StateAvailable))
		w.expectNoPowerEvents()
		if s := w.host().Status; s.Provisioning.Image.URL != "" || s.OperationHistory.Deprovision.End.IsZero() {
			t.Errorf("deprovisioned: %+v", s.Provisioning)
		}
		w.update(wantImage)
		w.after(20*time.Second, "provisioned again", w.in(metal3.StateProvisioned))
		if n := w.sim.Count("provide"); n != 1 {
			t.Errorf("the host was cleaned %d times to be provisioned, want 1: deprovisioning has cleaned it for the second", n)
		}
		want := []metal3.ProvisioningState{
			metal3.StateRegistering, metal3.StateInspecting, metal3.StatePreparing, metal3.StateAvailable,
			metal3.StateProvisioning, metal3.StateProvisioned, metal3.StateDeprovisioning, metal3.StateAvailable,
			metal3.StateProvisioning, metal3.StateProvisioned,
		}
		if got := w.hosts.States(enginetest.HostName(0)); !slices.Equal(got, want) {
			t.Errorf("a watcher saw %v, want %v", got, want)
		}
	})
}

// TestHardwareDataSparesInspection: a new host whose HardwareData is there, as after a move to another cluster, is not inspected,
// also if the watch of hosts lags behind and it is planned all the same, because another host has claimed the Secret that they share.
func TestHardwareDataSparesInspection(t *testing.T) {
	for _, lag := range []time.Duration{0, 1500 * time.Millisecond, 5 * time.Second} {
		t.Run(lag.String(), func(t *testing.T) {
			delays := ironicsim.All(time.Second)
			delays.Verify = time.Millisecond
			inSimulation(t, ironicsim.Options{Delays: delays}, func(t *testing.T, w *world) {
				w.hosts.WatchLag = lag
				w.secret("secret")
				host := enrolled(0)
				data := &metal3.HardwareData{ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name}}
				data.Spec.HardwareDetails = &metal3.HardwareDetails{Hostname: "given"}
				if err := w.hardware.Put(t.Context(), data); err != nil {
					t.Fatal(err)
				}
				w.hosts.Add(host)
				for range 100 {
					time.Sleep(100 * time.Millisecond)
					w.planHost(host.Namespace, host.Name)
				}
				w.after(time.Minute, "available", w.in(metal3.StateAvailable))
				if n, hw := w.sim.Count("inspect"), w.host().Status.HardwareDetails; n != 0 || hw == nil || hw.Hostname != "given" {
					t.Errorf("inspected %d times, hardware %+v", n, hw)
				}
			})
		})
	}
}

// TestGivenHardwareIsCorrected: where nothing is inspected, the hardware is what an annotation says, also if it says something else later.
// A HardwareData that says something else than the host has was put there by somebody, and counts instead.
func TestGivenHardwareIsCorrected(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		give := func(hostname string) {
			w.update(func(h *metal3.BareMetalHost) {
				metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.HardwareDetailsAnnotation, `{"hostname":"`+hostname+`"}`)
			})
		}
		is := func(hostname string) func() bool {
			return func() bool {
				host := w.host()
				data, err := w.hardware.Get(t.Context(), host.Namespace, host.Name)
				return len(host.Annotations) == 0 && host.Status.HardwareDetails != nil && host.Status.HardwareDetails.Hostname == hostname &&
					err == nil && data.Spec.HardwareDetails.Hostname == hostname
			}
		}
		host := enrolled(0)
		host.Spec.InspectionMode = metal3.InspectionModeDisabled
		w.available(host)
		give("wrong")
		w.after(10*time.Second, "taken over", is("wrong"))
		give("right")
		w.after(10*time.Second, "corrected", is("right"))
		data := &metal3.HardwareData{ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name}}
		data.Spec.HardwareDetails = &metal3.HardwareDetails{Hostname: "by hand"}
		if err := w.hardware.Put(t.Context(), data); err != nil {
			t.Fatal(err)
		}
		w.after(10*time.Second, "that of the HardwareData", is("by hand"))
	})
}

// TestGivenHardwareIsNotInspected: what a user has written in place of an inspection never passes for what one has found, also once
// inspections are enabled again. Then the hardware is what the last one has found.
func TestGivenHardwareIsNotInspected(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.available(enrolled(0))
		found := w.host().Status.HardwareDetails
		if found == nil || !lifecycle.WasInspected(w.host()) {
			t.Fatalf("the host was not inspected: %+v", w.host().Status)
		}
		w.editSpec(func(s *metal3.BareMetalHostSpec) { s.InspectionMode = metal3.InspectionModeDisabled })
		w.hosts.EditStatus(t, w.host().Name, func(h *metal3.BareMetalHost) {
			h.Status.Record.UnusableInventory = &metal3.UnusableInventory{Problem: "too large"}
		})
		data := &metal3.HardwareData{ObjectMeta: metav1.ObjectMeta{Namespace: w.host().Namespace, Name: w.host().Name}}
		data.Spec.HardwareDetails = &metal3.HardwareDetails{Hostname: "forged"}
		if err := w.hardware.Put(t.Context(), data); err != nil {
			t.Fatal(err)
		}
		w.after(10*time.Second, "taken over", func() bool { return w.host().Status.HardwareDetails.Hostname == "forged" })
		time.Sleep(time.Hour)
		if hw := w.host().Status.HardwareDetails; hw.Hostname != "forged" || lifecycle.WasInspected(w.host()) {
			t.Errorf("an hour later, the hardware is %q", hw.Hostname)
		}
		if c := meta.FindStatusCondition(w.host().Status.Conditions, metal3.InventoryReadCondition); c != nil {
			t.Errorf("an hour later, the hardware is not what was given: %s", c.Message)
		}
		w.editSpec(func(s *metal3.BareMetalHostSpec) { s.InspectionMode = "" })
		if lifecycle.WasInspected(w.host()) {
			t.Error("what was written passes for what was found")
		}
		w.after(time.Minute, "what the inspection has found", func() bool { return lifecycle.WasInspected(w.host()) })
		if diff := cmp.Diff(found, w.host().Status.HardwareDetails); diff != "" {
			t.Errorf("the hardware (-found +now):\n%s", diff)
		}
	})
}

// TestHardwareDataIsFollowed: where nothing is inspected, the hardware is what the HardwareData says, also if it is created later, or
// says something else later, and nothing else happens to the host. Ironic gets the ports of new network cards. What an inspection has
// found stays.
func TestHardwareDataIsFollowed(t *testing.T) {
	put := func(w *world, hostname string, macs ...string) {
		data := &metal3.HardwareData{ObjectMeta: metav1.ObjectMeta{Namespace: enginetest.Namespace, Name: enginetest.HostName(0)}}
		data.Spec.HardwareDetails = &metal3.HardwareDetails{Hostname: hostname}
		for _, mac := range macs {
			data.Spec.HardwareDetails.NIC = append(data.Spec.HardwareDetails.NIC, metal3.NIC{Name: "eth0", MAC: mac, PXE: true})
		}
		if err := w.hardware.Put(w.t.Context(), data); err != nil {
			w.t.Fatal(err)
		}
	}
	is := func(w *world, hostname string) func() bool {
		return func() bool {
			hw := w.host().Status.HardwareDetails
			return hw != nil && hw.Hostname == hostname
		}
	}
	notInspected := func() *metal3.BareMetalHost {
		host := enrolled(0)
		host.Spec.InspectionMode = metal3.InspectionModeDisabled
		return host
	}
	const card, another = "52:54:00:8b:0d:01", "52:54:00:8b:0d:02"
	hasPort := func(w *world, mac string) func() bool {
		return func() bool {
			ports, err := w.sim.ListPorts(w.t.Context(), ironic.PortFilter{Address: mac})
			return err == nil && len(ports) == 1 && ports[0].NodeUUID == w.host().Status.Provisioning.ID
		}
	}
	follows := func(t *testing.T, w *world, quietIn metal3.ProvisioningState) {
		time.Sleep(time.Minute) // nothing is planned any more
		put(w, "late", card)
		w.after(10*time.Second, "taken over", is(w, "late"))
		w.after(10*time.Second, "its port", hasPort(w, card))
		time.Sleep(time.Minute)
		put(w, "corrected", another)
		w.after(10*time.Second, "corrected", is(w, "corrected"))
		w.after(10*time.Second, "its port", hasPort(w, another))
		time.Sleep(time.Minute)
		steps := w.sim.Count("UpdateNode") + w.sim.Count("CreatePort")
		time.Sleep(time.Hour)
		if more := w.sim.Count("UpdateNode") + w.sim.Count("CreatePort") - steps; more > 0 || !w.in(quietIn)() {
			t.Errorf("the host is %s, and Ironic was told of it %d times in an hour", w.host().Status.Provisioning.State, more)
		}
	}
	t.Run("available", func(t *testing.T) {
		inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
			w.available(notInspected())
			follows(t, w, metal3.StateAvailable)
		})
	})
	t.Run("externally provisioned", func(t *testing.T) {
		inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
			w.secret("secret")
			host := notInspected()
			host.Spec.ExternallyProvisioned = true
			w.hosts.Add(host)
			w.after(30*time.Second, "externally provisioned", w.in(metal3.StateExternallyProvisioned))
			follows(t, w, metal3.StateExternallyProvisioned)
		})
	})
	t.Run("provisioned", func(t *testing.T) {
		inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
			w.available(notInspected())
			w.provision()
			follows(t, w, metal3.StateProvisioned)
		})
	})
	t.Run("inspected", func(t *testing.T) {
		inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
			w.available()
			found := w.host().Status.HardwareDetails.Hostname
			put(w, "by hand", card)
			time.Sleep(time.Minute)
			if hw := w.host().Status.HardwareDetails; hw.Hostname != found {
				t.Errorf("what the inspection has found became %+v", hw)
			}
		})
	})
}

// TestDeploymentNotPossible: what Ironic's validation finds is shown, and tried
// again as soon as the spec changes.
func TestDeploymentNotPossible(t *testing.T) {
	inSimulation(t, ironicsim.Options{PowerSyncInterval: -1}, func(t *testing.T, w *world) {
		host := enrolled(0)
		host.Spec.AutomatedCleaningMode = metal3.CleaningModeDisabled
		w.available(host)
		node, _ := w.sim.Sim.Node(w.host().Status.Provisioning.ID)
		info := node["driver_info"].(map[string]any)
		wrong := maps.Clone(info)
		wrong["ipmi_priv_level"] = "none"
		w.sim.Intercept(func(call string, _ *http.Request) error {
			if call == "Validate" {
				w.setNode("driver_info", wrong)
			}
			return nil
		})
		w.update(wantImage)
		w.after(5*time.Second, "an error", func() bool {
			s := w.host().Status
			return s.ErrorType == metal3.ProvisioningError && s.ErrorCount == 1 && s.Provisioning.State == metal3.StateProvisioning
		})
		w.sim.Intercept(nil)
		w.setNode("driver_info", info)
		w.update(func(h *metal3.BareMetalHost) { h.Spec.Image.Checksum += "x" })
		w.after(10*time.Second, "provisioned", w.in(metal3.StateProvisioned))
	})
}

// TestAttachedWhileProvisioning: a deployment that was ended by taking the host out of Ironic begins anew, which is told, and
// takes as long as it takes from then on.
func TestAttachedWhileProvisioning(t *testing.T) {
	delays := ironicsim.All(time.Second)
	delays.Deploy = time.Minute
	inSimulation(t, ironicsim.Options{Delays: delays}, func(t *testing.T, w *world) {
		w.available()
		w.update(wantImage)
		w.after(20*time.Second, "deploying", func() bool { return w.host().Status.Ironic.ProvisionState == string(ironic.Deploying) })
		w.update(func(h *metal3.BareMetalHost) {
			h.Annotations = map[string]string{metal3.DetachedAnnotation: `{"force":true}`}
		})
		w.after(2*time.Minute, "detached", func() bool { return w.host().Status.OperationalStatus == metal3.OperationalStatusDetached })
		time.Sleep(time.Hour)
		attached := time.Now()
		told := len(w.events.told())
		w.update(func(h *metal3.BareMetalHost) { delete(h.Annotations, metal3.DetachedAnnotation) })
		w.after(5*time.Minute, "provisioned", w.in(metal3.StateProvisioned))
		if got, want := w.events.told()[told:], []string{"Attached", "ProvisioningStarted", "ProvisioningComplete"}; !slices.Equal(got, want) {
			t.Errorf("told: %v, want %v", got, want)
		}
		if began := w.host().Status.OperationHistory.Provision.Start; began.Time.Before(attached.Truncate(time.Second)) {
			t.Errorf("the deployment began at %s, before the host was attached at %s", began, attached)
		}
	})
}
