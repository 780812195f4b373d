// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/destination"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

func (w *world) firmwareComponents() *metal3.HostFirmwareComponents {
	w.t.Helper()
	components, err := w.components.Get(w.t.Context(), enginetest.Namespace, enginetest.HostName(0))
	if err != nil {
		w.t.Fatal(err)
	}
	return components
}

// wantFirmware writes the spec of the host's components as a user does: component and URL in turn.
func (w *world) wantFirmware(texts ...string) {
	w.t.Helper()
	components := w.firmwareComponents()
	components.Spec.Updates = []metal3.FirmwareUpdate{}
	for i := 0; i < len(texts); i += 2 {
		components.Spec.Updates = append(components.Spec.Updates, metal3.FirmwareUpdate{Component: texts[i], URL: texts[i+1]})
	}
	components.Generation++
	if _, err := w.components.Update(w.t.Context(), components); err != nil {
		w.t.Fatal(err)
	}
}

// firmwareSays reports whether the conditions ChangeDetected and Valid are right for the spec.
func (w *world) firmwareSays(detected, valid bool) bool {
	components := w.firmwareComponents()
	d, v := meta.FindStatusCondition(components.Status.Conditions, "ChangeDetected"), meta.FindStatusCondition(components.Status.Conditions, "Valid")
	return d != nil && v != nil && d.ObservedGeneration == components.Generation && v.ObservedGeneration == components.Generation &&
		(d.Status == metav1.ConditionTrue) == detected && (v.Status == metav1.ConditionTrue) == valid
}

// flashed returns the components of all firmware updates that Ironic has begun.
func (w *world) flashed() string {
	var flashed []string
	for _, clean := range w.sim.Steps("clean") {
		for _, step := range clean {
			for _, update := range step.Args["settings"].([]any) {
				flashed = append(flashed, update.(map[string]any)["component"].(string))
			}
		}
	}
	return strings.Join(flashed, " ")
}

// expectFault fails unless one event was told about objects other than hosts, that begins with text.
func (w *world) expectFault(text string) {
	w.t.Helper()
	w.events.mu.Lock()
	defer w.events.mu.Unlock()
	if told := w.events.others; len(told) != 1 || !strings.HasPrefix(told[0], text) {
		w.t.Errorf("events: %v", told)
	}
}

// TestFirmwareUpdates: the components of a host appear with it, updates are made in the user's order
// while the host runs nothing, once, and a provisioned host is left alone.
func TestFirmwareUpdates(t *testing.T) {
	// Ironic 29.0.5 never ends the second update of a node that was changed meanwhile.
	inSimulation(t, ironicsim.Options{WithoutDefects: true}, func(t *testing.T, w *world) {
		w.available(redfishHost())
		components := w.firmwareComponents()
		if owner := components.OwnerReferences; len(owner) != 1 || owner[0].UID != w.host().UID || owner[0].Controller != nil || len(components.Finalizers) != 0 {
			t.Errorf("the components are %+v", components.ObjectMeta)
		}
		if !w.firmwareSays(false, true) || len(components.Status.Components) != 2 || components.Status.Components[0].CurrentVersion != "2.17.1" {
			t.Errorf("the status is %+v", components.Status)
		}
		w.wantFirmware("nic:NIC1", "http://images/nic")
		if took := w.after(10*time.Second, "refused", func() bool { return w.firmwareSays(true, false) }); took > time.Second {
			t.Errorf("the conditions were right after %s", took)
		}
		time.Sleep(time.Minute)
		if w.cleans() != 0 {
			t.Errorf("updated: %s", w.flashed())
		}
		w.expectFault("HostFirmwareComponents ValidationFailed: Invalid Firmware Components: [component nic:NIC1 cannot be updated: ")

		// At the moment that the host is available again, its components say so.
		w.wantFirmware("bmc", "http://images/bmc", "bios", "http://images/bios")
		w.after(10*time.Second, "being prepared", func() bool { return w.host().Status.Provisioning.State == metal3.StatePreparing })
		w.after(30*time.Second, "available", w.in(metal3.StateAvailable))
		components = w.firmwareComponents()
		if !w.firmwareSays(false, true) || len(components.Status.Updates) != 2 || components.Status.Components[0].CurrentVersion != "bios" || w.flashed() != "bmc bios" || w.cleans() != 1 {
			t.Errorf("updated: %s, and the status is %+v", w.flashed(), components.Status)
		}

		w.provision()
		w.wantFirmware("bmc", "http://images/bmc2")
		w.after(time.Second, "detected", func() bool { return w.firmwareSays(true, true) })
		time.Sleep(time.Hour)
		if s := w.host().Status; w.cleans() != 1 || s.Provisioning.State != metal3.StateProvisioned || s.ErrorMessage != "" {
			t.Errorf("updated: %s; the host is %s, %s", w.flashed(), s.Provisioning.State, s.ErrorMessage)
		}
		w.update(func(h *metal3.BareMetalHost) { h.Spec.Image = nil })
		w.after(time.Minute, "updated when deprovisioned", func() bool { return w.in(metal3.StateAvailable)() && w.firmwareSays(false, true) })

		// Whoever takes an update back and asks for it again gets it again.
		w.wantFirmware()
		w.after(time.Second, "forgotten", func() bool { return w.firmwareSays(false, true) && w.firmwareComponents().Status.Updates == nil })
		w.wantFirmware("bmc", "http://images/bmc2")
		w.after(time.Minute, "updated again", func() bool { return w.in(metal3.StateAvailable)() && w.firmwareSays(false, true) })
		if w.flashed() != "bmc bios bmc bmc" {
			t.Errorf("updated: %s", w.flashed())
		}
		asked := w.sim.Count("ListFirmware")
		time.Sleep(time.Hour)
		if again := w.sim.Count("ListFirmware"); again != asked || asked > 15 {
			t.Errorf("the list was read %d times, and %d times while nothing happened", asked, again-asked)
		}
	})
}

// TestFirmwareFromForbiddenHost: the hosts from which images may be fetched are also those for
// firmware.
func TestFirmwareFromForbiddenHost(t *testing.T) {
	settings := fleetSettings()
	settings.Images = destination.Policy{}
	inSimulatedFleet(t, settings, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.available(redfishHost())
		w.wantFirmware("bios", "http://169.254.169.254/bios")
		w.after(10*time.Second, "refused", func() bool { return w.host().Status.ErrorType == metal3.PreparationError })
		if s := w.host().Status; !strings.Contains(s.ErrorMessage, "HostFirmwareComponents, update of bios: the host 169.254.169.254 ") || s.Record.Preparation != nil || w.cleans() != 0 {
			t.Errorf("the error is %q, and the preparation %+v", s.ErrorMessage, s.Record.Preparation)
		}
		// Another URL is tried at once.
		w.wantFirmware("bios", "http://192.0.2.7/bios")
		w.after(20*time.Second, "updated", func() bool { return w.in(metal3.StateAvailable)() && w.firmwareSays(false, true) })
	})
}

// TestFirmwareIsReadAtTheEnd: on the way of a host from its creation to a written image, its lists of BIOS
// settings and firmware are read once, when it is provisioned. Its objects exist long before, so that users
// can write to them.
func TestFirmwareIsReadAtTheEnd(t *testing.T) {
	// An inventory that comes later than the end of the inspection, as with Ironic 21.4, has the lists read once more.
	inSimulation(t, ironicsim.Options{InventoryLag: time.Nanosecond}, func(t *testing.T, w *world) {
		w.secret("secret")
		host := redfishHost()
		wantImage(host)
		w.hosts.Add(host)
		w.after(20*time.Second, "being inspected", func() bool { return w.host().Status.Provisioning.State == metal3.StateInspecting })
		w.after(time.Second, "there", func() bool {
			_, biosErr := w.firmware.Get(t.Context(), enginetest.Namespace, enginetest.HostName(0))
			_, componentsErr := w.components.Get(t.Context(), enginetest.Namespace, enginetest.HostName(0))
			return biosErr == nil && componentsErr == nil
		})
		w.after(time.Minute, "being deployed", func() bool { return w.host().Status.Ironic.ProvisionState == string(ironic.Deploying) })
		for _, list := range []string{"ListBIOSSettings", "ListFirmware"} {
			if n := w.sim.Count(list); n != 0 {
				t.Errorf("%s was asked for %d times on the way", list, n)
			}
		}
		w.after(time.Minute, "provisioned", w.in(metal3.StateProvisioned))
		w.after(time.Second, "recorded", func() bool { return w.biosSays(false, true) && w.firmwareSays(false, true) })
		time.Sleep(time.Hour)
		for _, list := range []string{"ListBIOSSettings", "ListFirmware"} {
			if n := w.sim.Count(list); n != 1 {
				t.Errorf("%s was asked for %d times", list, n)
			}
		}
	})
}
