// SPDX-License-Identifier: Apache-2.0

package security

import (
	"fmt"
	"strings"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// simulator returns the simulated Ironic. A test that needs what only that one can do is skipped on
// a real Ironic.
func simulator(t *testing.T) *testbed.SimulatedIronic {
	t.Helper()
	if s.sim == nil {
		t.Skip("only the simulated Ironic can be made to do what this test needs: BMCs that do not exist, quotations of requests, faults, and nodes that change by themselves")
	}
	return s.sim
}

// machine is a machine that is switched off, for a host: an address alone for the simulated Ironic,
// and a simulated Redfish BMC for a real one. The user name of its BMC is admin.
type machine struct {
	address, mac string
	redfish      *bmcsim.Machine // nil with the simulated Ironic
}

func newMachine(t *testing.T, password string) machine {
	t.Helper()
	if s.machines == nil {
		return machine{address: s.sim.NewBMC("admin", password), mac: testbed.NewMAC()}
	}
	m, err := s.machines.AddMachine()
	if err != nil {
		t.Fatal(err)
	}
	m.SetPassword(password)
	return machine{address: m.Address(), mac: m.MAC(), redfish: m}
}

// boots sets the MAC address of the machine in the spec of a host.
func (m machine) boots(spec *metal3.BareMetalHostSpec) { spec.BootMACAddress = m.mac }

// deploys also sets an image.
func (m machine) deploys(spec *metal3.BareMetalHostSpec) {
	m.boots(spec)
	spec.Image = m.image()
}

// image returns an image that can be deployed on the machine.
func (m machine) image() *metal3.Image {
	if m.redfish == nil {
		return testImage.DeepCopy()
	}
	return &metal3.Image{URL: s.machines.FileURL(bmcsim.ImageFile), Checksum: s.machines.FileChecksum(bmcsim.ImageFile), ChecksumType: metal3.SHA256}
}

// history reports what was done to the machine, whose node has the UUID.
func (m machine) history(node string) string {
	if m.redfish == nil {
		return fmt.Sprint(s.sim.ProvisionTargets(node))
	}
	return fmt.Sprintf("%d writes to disks, power %v", len(m.redfish.DiskWrites()), m.redfish.PowerHistory())
}

// nodeFields returns the fields of a node that an operator creates for the machine by hand.
func (m machine) nodeFields() map[string]any {
	if m.redfish == nil {
		host, port, _ := strings.Cut(strings.TrimPrefix(m.address, "ipmi://"), ":")
		return map[string]any{"driver": "ipmi", "driver_info": map[string]any{
			"ipmi_address": host, "ipmi_port": port, "ipmi_username": "admin", "ipmi_password": "theirs",
		}}
	}
	return map[string]any{"driver": "redfish", "driver_info": map[string]any{
		"redfish_address": m.redfish.URL(), "redfish_system_id": m.redfish.SystemID(),
		"redfish_username": "admin", "redfish_password": m.redfish.Password(),
	}}
}
