// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// ofFormer is the metadata of what a former host a owned, which a user had written.
func ofFormer() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "left", Generation: 2, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "metal3.io/v1alpha1", Kind: "BareMetalHost", Name: "a", UID: "former"},
	}}
}

// TestSettingsOfFormerHost: a host that is created anew gets no settings that were meant for the machine that had its name. They are left
// for the garbage collector as they are, and then the host gets its own.
func TestSettingsOfFormerHost(t *testing.T) {
	f := newFleet("a")
	left := f.settings.put(&metal3.HostFirmwareSettings{ObjectMeta: ofFormer(), Spec: metal3.HostFirmwareSettingsSpec{Settings: metal3.DesiredSettingsMap{"Turbo": intstr.FromString("off")}}})
	w := NewWatch(Deps{Settings: f.Settings, Components: NewComponentKeeper(&objects[*metal3.HostFirmwareComponents]{}, f.ironicOf, clock.RealClock{}), Policies: f.policies}, nil, nil)
	known := w.bios.informer.GetStore()
	if err := known.Add(left); err != nil {
		t.Fatal(err)
	}
	host := f.hosts["a"]
	for _, state := range []metal3.ProvisioningState{metal3.StatePreparing, metal3.StateAvailable, metal3.StateProvisioned} {
		host.Status.Provisioning.State = state
		if found, err := w.SettingsFor(t.Context(), host); err != nil || found.BIOSSettings != nil || found.BIOSGeneration != 0 || found.Schema != nil {
			t.Errorf("%s: the settings are %+v, %v", state, found, err)
		}
		w.Refresh(t.Context(), host)
		for _, read := range []error{f.RefreshSettings(t.Context(), "n", "a"), f.RefreshAllSettings(t.Context(), "n")} {
			if read != nil {
				t.Errorf("%s: %v", state, read)
			}
		}
	}
	if preview, err := f.Preview(t.Context(), left); err != nil || !strings.Contains(preview, "belongs to a former host") {
		t.Errorf("the preview is %q, %v", preview, err)
	}
	now, err := f.settings.Get(t.Context(), "n", "a")
	if diff := cmp.Diff(left, now); err != nil || diff != "" || len(f.ironic.asked) > 0 {
		t.Errorf("%v, Ironic was asked %v, and the settings changed (-want +got):\n%s", err, f.ironic.asked, diff)
	}

	if err := f.settings.Delete(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if err := known.Delete(left); err != nil {
		t.Fatal(err)
	}
	if _, err := w.SettingsFor(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	own, err := f.settings.Get(t.Context(), "n", "a")
	if err != nil || !metal3.IsOwnedBy(own, host) || len(own.Spec.Settings) > 0 {
		t.Errorf("its own settings are %+v, %v", own, err)
	}
}

// TestComponentsOfFormerHost is TestSettingsOfFormerHost for updates.
func TestComponentsOfFormerHost(t *testing.T) {
	f, components := newFleet("a"), &objects[*metal3.HostFirmwareComponents]{}
	left := components.put(&metal3.HostFirmwareComponents{ObjectMeta: ofFormer(), Spec: metal3.HostFirmwareComponentsSpec{Updates: []metal3.FirmwareUpdate{{Component: "bios", URL: "http://images/bios"}}}})
	w := NewWatch(Deps{Settings: f.Settings, Components: NewComponentKeeper(components, f.ironicOf, clock.RealClock{}), Policies: f.policies}, nil, nil)
	host := f.hosts["a"]
	host.Status.Provisioning.State = metal3.StatePreparing
	for _, isKnown := range []bool{false, true} { // to the watch
		if isKnown {
			if err := w.components.informer.GetStore().Add(left); err != nil {
				t.Fatal(err)
			}
		}
		if found, err := w.SettingsFor(t.Context(), host); err != nil || found.Components != nil || found.ComponentsGeneration != 0 {
			t.Errorf("the components are %+v, %v", found, err)
		}
		if exists, err := w.components.keeper.ensureExists(t.Context(), host); exists || err != nil {
			t.Errorf("they are taken for the host's: %t, %v", exists, err)
		}
	}
	if now, err := components.Get(t.Context(), "n", "a"); err != nil || !cmp.Equal(left, now) {
		t.Errorf("they are %+v, %v", now, err)
	}
}

// TestPolicyOfFormerHost: what may be changed on the machine of a former host is not permitted on that of the host that has its name now.
func TestPolicyOfFormerHost(t *testing.T) {
	f := newFleet("a")
	host := f.hosts["a"]
	host.Status.Provisioning.State = metal3.StateProvisioned
	spec := metal3.HostUpdatePolicySpec{FirmwareSettings: metal3.UpdateOnReboot, FirmwareUpdates: metal3.UpdateOnReboot}
	w := NewWatch(Deps{Settings: f.Settings, Components: NewComponentKeeper(&objects[*metal3.HostFirmwareComponents]{}, f.ironicOf, clock.RealClock{}), Policies: f.policies}, nil, nil)
	for name, test := range map[string]struct {
		meta   metav1.ObjectMeta
		owners int
		counts bool
	}{
		"of a former host": {ofFormer(), 1, false},
		"made by a person": {metav1.ObjectMeta{Namespace: "n", Name: "a"}, 1, true},
	} {
		policy := f.policies.put(&metal3.HostUpdatePolicy{ObjectMeta: test.meta, Spec: spec})
		if err := w.policies.informer.GetStore().Add(policy); err != nil {
			t.Fatal(err)
		}
		w.policies.own(t.Context(), host)
		if got := w.PolicyFor(host); (got != nil) != test.counts {
			t.Errorf("%s: the policy is %+v", name, got)
		}
		if got, err := f.policyOf(t.Context(), host); err != nil || (got != nil) != test.counts {
			t.Errorf("%s: the policy for a preview is %+v, %v", name, got, err)
		}
		if now, err := f.policies.Get(t.Context(), "n", "a"); err != nil || len(now.OwnerReferences) != test.owners || metal3.IsOwnedBy(now, host) != test.counts {
			t.Errorf("%s: it is %+v, %v", name, now.ObjectMeta, err)
		}
	}
}
