// SPDX-License-Identifier: Apache-2.0

package bmcsim_test

import (
	"strings"

	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

func (b *bed) fault(m *bmcsim.Machine, f bmcsim.Fault, message string) {
	b.t.Helper()
	if err := m.SetFault(f, message); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) clearFaults(m *bmcsim.Machine) {
	b.t.Helper()
	if err := m.ClearFault(); err != nil {
		b.t.Fatal(err)
	}
}

// provisionFails requests a provision state and waits for a state with an error that contains text.
func (b *bed) provisionFails(m *bmcsim.Machine, target, state, text string) testbed.Node {
	b.t.Helper()
	if err := b.operator.Provision(b.t.Context(), m.Name(), target); err != nil {
		b.t.Fatal(err)
	}
	n, err := b.operator.WaitNode(b.t.Context(), m.Name(), func(n testbed.Node) bool {
		return n.ProvisionState == state && n.Reservation == "" && n.LastError != ""
	})
	if err != nil || !strings.Contains(n.LastError, text) {
		b.t.Fatalf("%s: last_error %q does not have %q, %v", target, n.LastError, text, err)
	}
	b.t.Logf("%s -> %s: %s", target, state, n.LastError)
	return n
}

func unreachableBMC(b *bed, m *bmcsim.Machine) {
	b.enrol(m, "ipxe", nil)
	b.fault(m, bmcsim.WrongPassword, "")
	b.provisionFails(m, "manage", "enroll", "HTTP GET "+m.URL()+m.SystemID()+" returned code 401")
	b.clearFaults(m)
	b.fault(m, bmcsim.RefuseConnections, "")
	b.provisionFails(m, "manage", "enroll", "Unable to connect to "+m.URL())
	b.clearFaults(m)
	b.provision(m, "manageable", verb("manage"))

	// A session that was valid before is no longer valid.
	b.fault(m, bmcsim.WrongPassword, "")
	if _, err := b.operator.WaitNode(b.t.Context(), m.Name(), func(n testbed.Node) bool { return n.Fault == "power failure" }); err != nil {
		b.t.Errorf("password changed: %v", err)
	}
	b.clearFaults(m)
	if _, err := b.operator.WaitNode(b.t.Context(), m.Name(), func(n testbed.Node) bool { return n.Fault == "" && n.PowerState == "power off" }); err != nil {
		b.t.Errorf("password changed back: %v", err)
	}
}

func ignoredPower(b *bed, m *bmcsim.Machine) {
	b.enrol(m, "ipxe", nil)
	b.provision(m, "manageable", verb("manage"))
	for _, step := range []struct {
		fault  bmcsim.Fault
		target string
		fails  bool
		state  string
	}{
		{bmcsim.IgnorePower, "power on", true, "power off"},
		{"", "power on", false, "power on"},
		{bmcsim.IgnoreSoftPower, "soft power off", true, "power on"},
		{bmcsim.IgnoreSoftPower, "power off", false, "power off"},
	} {
		b.clearFaults(m)
		if step.fault != "" {
			b.fault(m, step.fault, "")
		}
		if err := b.operator.Do(b.t.Context(), "PUT", "/v1/nodes/"+m.Name()+"/states/power", map[string]any{"target": step.target, "timeout": 3}, nil); err != nil {
			b.t.Fatal(err)
		}
		n, err := b.operator.WaitNode(b.t.Context(), m.Name(), func(n testbed.Node) bool {
			return n.TargetPowerState == "" && n.Reservation == "" && n.PowerState == step.state && n.LastError != "" == step.fails
		})
		if err != nil {
			b.t.Fatalf("%s with %q: %v", step.target, step.fault, err)
		}
		b.t.Logf("%s with fault %q: %q", step.target, step.fault, n.LastError)
	}
}

func silentRamdisk(b *bed, m *bmcsim.Machine) {
	b.enrol(m, "ipxe", nil)
	b.provision(m, "manageable", verb("manage"))
	b.fault(m, bmcsim.SilentRamdisk, "")
	if err := b.operator.Provision(b.t.Context(), m.Name(), "provide"); err != nil {
		b.t.Fatal(err)
	}
	b.wait(m, "clean wait")
	b.clearFaults(m)
	b.wait(m, "available")
}

func failingInspection(b *bed, m *bmcsim.Machine) {
	if b.release == "bookworm" {
		b.t.Skip("Ironic 21.4 has no agent inspection of its own")
	}
	b.enrol(m, "ipxe", nil)
	b.provision(m, "manageable", verb("manage"))
	b.fault(m, bmcsim.InspectionFails, "no disks at all")
	b.provisionFails(m, "inspect", "inspect failed", "no disks at all")
	b.clearFaults(m)
	b.fault(m, bmcsim.SilentInspection, "")
	if err := b.operator.Provision(b.t.Context(), m.Name(), "inspect"); err != nil {
		b.t.Fatal(err)
	}
	b.wait(m, "inspect wait")
	b.clearFaults(m)
	b.wait(m, "manageable")
}

func failingSteps(b *bed, m *bmcsim.Machine) {
	b.enrol(m, "ipxe", map[string]any{"instance_info": b.image(bmcsim.ImageFile)})
	b.provision(m, "manageable", verb("manage"))
	b.fault(m, bmcsim.CleanStepFails, "the disk has no eraser")
	if n := b.provisionFails(m, "provide", "clean failed", "the disk has no eraser"); !n.Maintenance || n.Fault != "clean failure" {
		b.t.Errorf("after a clean failure: %+v", n)
	}
	b.clearFaults(m)
	if err := b.operator.SetMaintenance(b.t.Context(), m.Name(), false, ""); err != nil {
		b.t.Fatal(err)
	}
	b.provision(m, "manageable", verb("manage"))
	b.provision(m, "available", verb("provide"))
	b.fault(m, bmcsim.DeployStepFails, "the disk is full")
	b.provisionFails(m, "active", "deploy failed", "the disk is full")
	b.clearFaults(m)
	b.provision(m, "active", verb("active"))
	if m.Writes() != 1 {
		b.t.Errorf("%d writes, want 1", m.Writes())
	}
}

func badImages(b *bed, m *bmcsim.Machine) {
	missing := b.image(bmcsim.ImageFile)
	missing["image_source"] = b.sim.FileURL("missing")
	b.enrol(m, "ipxe", map[string]any{"instance_info": missing})
	b.provision(m, "manageable", verb("manage"))
	b.provision(m, "available", verb("provide"))
	b.provisionFails(m, "active", "deploy failed", "404")

	wrong := b.image(bmcsim.ImageFile)
	wrong["image_os_hash_value"] = b.sim.FileChecksum(bmcsim.KernelFile)
	b.setInstance(m, wrong)
	b.provisionFails(m, "active", "deploy failed", "checksum")
	if m.Writes() != 0 {
		b.t.Errorf("%d writes, want none", m.Writes())
	}
}
