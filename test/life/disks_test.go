// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// diskSteps are the steps that wrote to the machine's disks, without repetitions.
func (h *host) diskSteps() []string {
	var steps []string
	for _, write := range h.machine.DiskWrites() {
		steps = append(steps, write.Step)
	}
	return slices.Compact(steps)
}

// keptDisks asserts that the disks have every byte that they had.
func (h *host) keptDisks(before map[string][]byte, after string) {
	h.t.Helper()
	if steps := h.diskSteps(); len(steps) > 0 || !cmp.Equal(before, h.machine.Disks()) {
		h.t.Errorf("%s: disks were written to, by %q", after, steps)
		for name, content := range h.machine.Disks() {
			if !slices.Equal(content, before[name]) {
				h.t.Logf("%s begins with %q", name, content[:32])
			}
		}
	}
}

// moved are the provision states that Ironic says in its log to have moved the host's
// node to. The history of a node has only errors.
func (h *host) moved(node string) []string {
	h.t.Helper()
	log, err := os.ReadFile(s.ironic.LogPath)
	if err != nil {
		h.t.Fatal(err)
	}
	var states []string
	for _, match := range regexp.MustCompile(`Node `+regexp.QuoteMeta(node)+` moved to provision state "([^"]*)"`).FindAllSubmatch(log, -1) {
		states = append(states, string(match[1]))
	}
	return states
}

// Enrolling, inspecting, adopting, detaching and deleting keep every byte of a machine's
// disks: nothing is cleaned before a spec asks for an image.
func TestEnrollingTouchesNoDisk(t *testing.T) {
	t.Parallel()
	for name, boot := range map[string]option{"Network": func(*metal3.BareMetalHost, *bmcsim.Machine) {}, "VirtualMedia": virtualMedia} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var disks map[string][]byte
			h := newHost(t, boot, runsAlready, func(_ *metal3.BareMetalHost, m *bmcsim.Machine) { disks = m.Disks() })
			node := h.available().Status.Ironic.NodeUUID
			h.keptDisks(disks, "enrolled and inspected")
			h.stays(5*time.Second, "available with a node that is manageable", func(bmh *metal3.BareMetalHost) bool {
				return isIn(metal3.StateAvailable)(bmh) && bmh.Status.Ironic.ProvisionState == string(ironic.Manageable)
			})
			if states := h.moved(node); len(states) == 0 || slices.ContainsFunc(states, func(state string) bool { return strings.HasPrefix(state, "clean") }) {
				t.Errorf("the node of a new host went through %q", states)
			}

			h.patch(`{"spec":{"externallyProvisioned":true}}`)
			h.in(metal3.StateExternallyProvisioned)
			h.ironicIn(ironic.Active)
			h.keptDisks(disks, "marked as externally provisioned")
			h.annotate(metal3.DetachedAnnotation, "")
			h.detached(metal3.StateExternallyProvisioned)
			h.keptDisks(disks, "detached")
			h.annotateNot(metal3.DetachedAnnotation)
			h.in(metal3.StateExternallyProvisioned)
			h.ironicIn(ironic.Active)
			h.keptDisks(disks, "attached again")
			h.delete()
			h.gone()
			h.keptDisks(disks, "deleted")
			if got := h.machine.Inspections(); s.inspects() && got != 1 {
				t.Errorf("the machine was inspected %d times", got)
			}
		})
	}
}

// A host that is detached, comes back and is deleted while it is available was never
// anybody's: its disks are as they were.
func TestDeletingAvailableTouchesNoDisk(t *testing.T) {
	t.Parallel()
	var disks map[string][]byte
	h := newHost(t, func(_ *metal3.BareMetalHost, m *bmcsim.Machine) { disks = m.Disks() })
	h.available()
	h.keptDisks(disks, "enrolled and inspected")
	h.annotate(metal3.DetachedAnnotation, "")
	h.detached(metal3.StateAvailable)
	h.annotateNot(metal3.DetachedAnnotation)
	h.ironicIn(ironic.Manageable)
	h.available()
	h.keptDisks(disks, "detached and attached again")
	h.delete()
	h.gone()
	h.keptDisks(disks, "deleted")
}

// The cleaning that a host asks for is part of its provisioning, once: after it was
// deprovisioned it is clean.
func TestCleanedWhenProvisioned(t *testing.T) {
	t.Parallel()
	h := newHost(t, notInspected)
	h.available()
	if steps := h.diskSteps(); len(steps) > 0 {
		t.Fatalf("the disks of a new host were written to, by %q", steps)
	}
	h.states()
	h.wantImage()
	h.wait("Ironic cleans", func(bmh *metal3.BareMetalHost) bool {
		state := ironic.ProvisionState(bmh.Status.Ironic.ProvisionState)
		if state != ironic.Cleaning && state != ironic.CleanWait {
			return false
		}
		if bmh.Status.Provisioning.State != metal3.StateProvisioning {
			t.Errorf("the host is %s while it is cleaned", bmh.Status.Provisioning.State)
		}
		return true
	})
	h.provisioned()
	h.expectStates(metal3.StateAvailable, metal3.StateProvisioning, metal3.StateProvisioned)
	steps := h.diskSteps()
	if len(steps) < 2 || steps[0] != "clean erase_devices_metadata" || steps[len(steps)-1] != "deploy write_image" {
		t.Errorf("provisioned by %q", steps)
	}
	h.wrote(1)

	h.patch(`{"spec":{"image":null}}`)
	h.available()
	h.expectStates(metal3.StateProvisioned, metal3.StateDeprovisioning, metal3.StateAvailable)
	cleaned := h.diskSteps()
	if more := cleaned[len(steps):]; !slices.Contains(more, "clean erase_devices_metadata") {
		t.Errorf("deprovisioned by %q", more)
	}
	h.wantImage()
	h.provisioned()
	if more := h.diskSteps()[len(cleaned):]; !slices.Equal(more, []string{"deploy write_image"}) {
		t.Errorf("after it was deprovisioned, the host was provisioned by %q: it was clean already", more)
	}
}

// automatedCleaningMode counts as it is when the host is provisioned.
func TestCleaningModeWhenProvisioned(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		enrolled, provisioned metal3.AutomatedCleaningMode
		cleans                bool
	}{
		{metal3.CleaningModeDisabled, metal3.CleaningModeDisabled, false},
		{metal3.CleaningModeDisabled, metal3.CleaningModeMetadata, true},
		{metal3.CleaningModeMetadata, metal3.CleaningModeDisabled, false},
	} {
		t.Run(fmt.Sprintf("%s-then-%s", test.enrolled, test.provisioned), func(t *testing.T) {
			t.Parallel()
			h := newHost(t, notInspected, func(bmh *metal3.BareMetalHost, _ *bmcsim.Machine) { bmh.Spec.AutomatedCleaningMode = test.enrolled })
			h.available()
			h.patch(`{"spec":{"automatedCleaningMode":%q}}`, test.provisioned)
			h.wantImage()
			h.provisioned()
			steps := h.diskSteps()
			if cleaned := slices.Contains(steps, "clean erase_devices_metadata"); cleaned != test.cleans || len(steps) == 0 || steps[len(steps)-1] != "deploy write_image" {
				t.Errorf("provisioned by %q, want cleaning %t", steps, test.cleans)
			}
		})
	}
}
