// SPDX-License-Identifier: Apache-2.0

package ironic

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFeatures: what the API versions of releases mean. Each feature is missing in the version before the
// one that brought it.
func TestFeatures(t *testing.T) {
	oldest := Features{APIVersion: OldestAPIVersion, Quirks: Quirks{StuckAfterRAIDStep: true}}
	newest := Features{APIVersion: NewestAPIVersion, ParentNodes: true, AgentInspection: true, Firmware: true, Servicing: true,
		VirtualMedia: true, DisablePowerOff: true, AbortService: true, StrictIPMINames: true, Health: true}
	trixie := newest
	trixie.APIVersion, trixie.Quirks.PatchMakesOwnParent, trixie.AbortService, trixie.StrictIPMINames, trixie.Health = APIVersion{1, 96}, true, false, false, false
	for name, want := range map[string]Features{"Ironic 21.4": oldest, "Ironic 29.0": trixie, "Ironic 39.0": newest} {
		if diff := cmp.Diff(want, FeaturesOf(want.APIVersion)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
	for minor, has := range map[int]func(Features) bool{
		83:  func(f Features) bool { return f.ParentNodes && f.Quirks.PatchMakesOwnParent },
		84:  func(f Features) bool { return f.AgentInspection },
		86:  func(f Features) bool { return f.Firmware },
		87:  func(f Features) bool { return f.Servicing },
		93:  func(f Features) bool { return f.VirtualMedia },
		95:  func(f Features) bool { return f.DisablePowerOff },
		96:  func(f Features) bool { return !f.Quirks.StuckAfterRAIDStep },
		101: func(f Features) bool { return f.AbortService },
		104: func(f Features) bool { return f.StrictIPMINames },
		109: func(f Features) bool { return f.Health },
		115: func(f Features) bool { return !f.Quirks.PatchMakesOwnParent },
	} {
		if before := FeaturesOf(APIVersion{1, minor - 1}); has(before) {
			t.Errorf("before 1.%d: %+v", minor, before)
		}
		if at := FeaturesOf(APIVersion{1, minor}); !has(at) {
			t.Errorf("1.%d: %+v", minor, at)
		}
	}
}

func TestNegotiate(t *testing.T) {
	for offered, want := range map[string]string{"1.82": "1.82", "1.96": "1.96", "1.115": "1.115", "1.140": "1.115", "2.0": "1.115"} {
		v, err := ParseAPIVersion(offered)
		if err != nil {
			t.Fatal(err)
		}
		if got := Negotiate(v).String(); got != want {
			t.Errorf("offered %s: asked in %s, want %s", offered, got, want)
		}
	}
	for _, s := range []string{"", "1", "1.", ".1", "1.x", "1.2.3"} {
		if v, err := ParseAPIVersion(s); err == nil {
			t.Errorf("%q is read as %s", s, v)
		}
	}
}
