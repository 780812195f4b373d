// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

func (w *world) bios() *metal3.HostFirmwareSettings {
	w.t.Helper()
	settings, err := w.firmware.Get(w.t.Context(), enginetest.Namespace, enginetest.HostName(0))
	if err != nil {
		w.t.Fatal(err)
	}
	return settings
}

// wantBIOS writes the spec of the host's settings as a user does.
func (w *world) wantBIOS(name, value string) {
	w.t.Helper()
	settings := w.bios()
	settings.Spec.Settings = metal3.DesiredSettingsMap{name: intstr.FromString(value)}
	settings.Generation++
	if _, err := w.firmware.Update(w.t.Context(), settings); err != nil {
		w.t.Fatal(err)
	}
}

// biosSays reports whether the conditions ChangeDetected and Valid are right for the spec.
func (w *world) biosSays(detected, valid bool) bool {
	settings := w.bios()
	d, v := meta.FindStatusCondition(settings.Status.Conditions, "ChangeDetected"), meta.FindStatusCondition(settings.Status.Conditions, "Valid")
	return d != nil && v != nil && d.ObservedGeneration == settings.Generation && v.ObservedGeneration == settings.Generation &&
		(d.Status == "True") == detected && (v.Status == "True") == valid
}

// cleans is how often Ironic has begun a manual clean.
func (w *world) cleans() int { return len(w.sim.Steps("clean")) }

// TestBIOSSettings: the settings of a host appear with it, a changed value is applied by one clean
// while the host runs nothing, and a provisioned host is left alone.
func TestBIOSSettings(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.available(redfishHost())
		settings := w.bios()
		if owner := settings.OwnerReferences; len(owner) != 1 || owner[0].UID != w.host().UID || owner[0].Controller != nil || len(settings.Finalizers) != 0 {
			t.Errorf("the settings are %+v", settings.ObjectMeta)
		}
		if settings.Status.Settings["BootMode"] != "Uefi" || !w.biosSays(false, true) {
			t.Errorf("the status is %+v", settings.Status)
		}
		schema, err := w.firmware.schemas.Get(t.Context(), enginetest.Namespace, settings.Status.FirmwareSchema.Name)
		if err != nil || len(schema.Spec.Schema) != len(bmcsim.BIOSAttributes)-1 /* no passwords */ || len(schema.OwnerReferences) != 1 || schema.OwnerReferences[0].UID != settings.UID {
			t.Errorf("the schema is %+v, %v", schema, err)
		}

		w.wantBIOS("NoSuch", "x")
		if took := w.after(10*time.Second, "refused", func() bool { return w.biosSays(true, false) }); took > time.Second {
			t.Errorf("the conditions were right after %s", took)
		}
		time.Sleep(time.Minute)
		if w.cleans() != 0 || w.host().Status.Provisioning.State != metal3.StateAvailable {
			t.Errorf("%d cleans for a setting that is not valid", w.cleans())
		}
		w.expectFault("HostFirmwareSettings ValidationFailed: Invalid BIOS setting: setting NoSuch is not in the Status field")

		// At the moment that the host is available again, its settings say so.
		w.wantBIOS("BootMode", "Bios")
		w.after(10*time.Second, "being prepared", func() bool { return w.host().Status.Provisioning.State == metal3.StatePreparing })
		w.after(30*time.Second, "available", w.in(metal3.StateAvailable))
		if !w.biosSays(false, true) || w.bios().Status.Settings["BootMode"] != "Bios" || w.sim.BMC(0).BIOS()["BootMode"] != "Bios" || w.cleans() != 1 {
			t.Errorf("%d cleans, and the status is %+v", w.cleans(), w.bios().Status)
		}
		if n := w.sim.Count("provide"); n != 0 {
			t.Errorf("the disks were cleaned %d times", n)
		}

		w.provision()
		w.wantBIOS("BootMode", "Uefi")
		w.after(time.Second, "detected", func() bool { return w.biosSays(true, true) })
		time.Sleep(time.Hour)
		if s := w.host().Status; w.cleans() != 1 || s.Provisioning.State != metal3.StateProvisioned || !s.PoweredOn || s.ErrorMessage != "" {
			t.Errorf("%d cleans; the host is %s, powered on: %v, %s", w.cleans(), s.Provisioning.State, s.PoweredOn, s.ErrorMessage)
		}
		w.update(func(h *metal3.BareMetalHost) { h.Spec.Image = nil })
		w.after(time.Minute, "applied when deprovisioned", func() bool { return w.in(metal3.StateAvailable)() && w.biosSays(false, true) })
		if w.cleans() != 2 {
			t.Errorf("%d cleans", w.cleans())
		}

		// The list is read once for each state that the node has been in, and not for each look.
		asked := w.sim.Count("ListBIOSSettings")
		time.Sleep(time.Hour)
		if again := w.sim.Count("ListBIOSSettings"); again != asked || asked > 12 {
			t.Errorf("the list was read %d times, and %d times while nothing happened", asked, again-asked)
		}
	})
}

// TestBIOSWishWaits: while Ironic does not give the BIOS settings of a machine, the host says which wish waits for that, and does all
// else that is asked of it.
func TestBIOSWishWaits(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.sim.Refuse("ListBIOSSettings", 500, "no such table")
		w.available(redfishHost())
		w.wantBIOS("BootMode", "Bios")
		w.after(20*time.Second, "waiting", func() bool { return w.host().Status.ErrorType == metal3.PreparationError })
		want := "What the HostFirmwareSettings asks for has to wait. Ironic does not give the BIOS settings of the machine, and is asked again after a while: no such table"
		if message := ownWords(w.host()); message != want {
			t.Errorf("the error is %q", message)
		}
		w.update(func(h *metal3.BareMetalHost) { h.Annotations = map[string]string{metal3.InspectAnnotation: ""} })
		inspections := w.sim.Count("inspect")
		w.after(10*time.Minute, "inspected all the same", func() bool { return w.sim.Count("inspect") > inspections })
		w.sim.Accept("ListBIOSSettings")
		w.after(time.Hour, "applied", func() bool { return w.in(metal3.StateAvailable)() && w.biosSays(false, true) })
		if s := w.host().Status; w.cleans() != 1 || s.ErrorMessage != "" {
			t.Errorf("%d cleans, %q", w.cleans(), s.ErrorMessage)
		}
	})
}
