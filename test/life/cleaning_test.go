// SPDX-License-Identifier: Apache-2.0

package life

import (
	"slices"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// automatedCleaningMode counts as it is when a host is deprovisioned.
func TestCleaningMode(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected, notCleaned)
	h.available()
	if steps := h.machine.Steps(); len(steps) != 0 {
		t.Errorf("steps before the host was available: %q", steps)
	}
	for _, test := range []struct {
		mode   metal3.AutomatedCleaningMode
		cleans bool
	}{
		{metal3.CleaningModeMetadata, true},
		{metal3.CleaningModeDisabled, false},
	} {
		h.wantImage()
		h.provisioned()
		done := len(h.machine.Steps())
		h.patch(`{"spec":{"automatedCleaningMode":%q,"image":null}}`, test.mode)
		h.available()
		if steps := h.machine.Steps()[done:]; slices.Contains(steps, "clean erase_devices_metadata") != test.cleans {
			t.Errorf("with mode %s these steps were done: %q", test.mode, steps)
		}
	}
}
