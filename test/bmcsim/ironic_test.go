// SPDX-License-Identifier: Apache-2.0

package bmcsim_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// extraConf makes Ironic store what switches announce by LLDP in readable form, as in Metal3's Ironic.
const extraConf = "[inspector]\nhooks = $default_hooks,parse-lldp\n"

// bed is a real Ironic with simulated machines.
type bed struct {
	t        *testing.T
	sim      *bmcsim.Sim
	operator *testbed.Operator
	release  string
}

func newBed(t *testing.T, options bmcsim.Options) *bed {
	t.Helper()
	release := os.Getenv("IRONIC_RELEASE")
	if release == "" {
		t.Skip("left out: set IRONIC_RELEASE to bookworm, trixie or sid to test with a real Ironic")
	}
	if err := testbed.DebianIronicMissing(); err != nil {
		t.Skip("left out: ", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*testbed.Patience)
	defer cancel()
	ironic, err := testbed.StartDebianIronic(ctx, testbed.IronicOptions{Release: release, Dir: t.TempDir(), ExtraConf: extraConf})
	if err != nil {
		t.Fatal(err)
	}
	options.IronicURL = ironic.Endpoint
	sim, err := bmcsim.Start(options)
	if err != nil {
		t.Fatal(errors.Join(err, ironic.Close()))
	}
	t.Cleanup(func() {
		// Ironic is stopped first, because it takes longer to stop without BMCs.
		if err := errors.Join(ironic.Close(), sim.Close()); err != nil {
			t.Error(err)
		}
	})
	operator := ironic.Operator()
	if release != "bookworm" {
		operator.Microversion = "1.96"
	}
	return &bed{t: t, sim: sim, operator: operator, release: release}
}

// enrol creates a node for a machine, with everything that it needs until it is deleted, because a PATCH
// has side effects in Ironic 29.0.
func (b *bed) enrol(m *bmcsim.Machine, boot string, more map[string]any) {
	b.t.Helper()
	info := map[string]any{
		"redfish_address": m.URL(), "redfish_system_id": m.SystemID(), "redfish_username": m.Username(), "redfish_password": m.Password(),
		"deploy_kernel": b.sim.FileURL(bmcsim.KernelFile), "deploy_ramdisk": b.sim.FileURL(bmcsim.RamdiskFile),
		"has_dedicated_power_supply": true,
	}
	if boot == "redfish-virtual-media" {
		delete(info, "deploy_kernel")
		delete(info, "deploy_ramdisk")
		info["deploy_iso"] = b.sim.FileURL(bmcsim.AgentISO)
	}
	node := map[string]any{
		"name": m.Name(), "driver": "redfish", "boot_interface": boot, "driver_info": info, "bios_interface": "redfish", "inspect_interface": "agent",
	}
	if b.release == "bookworm" {
		node["inspect_interface"] = "redfish"
	}
	maps.Copy(node, more)
	n, err := b.operator.CreateNode(b.t.Context(), node)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { b.remove(m, n.UUID) })
	port := map[string]any{"node_uuid": n.UUID, "address": m.MAC()}
	if err := b.operator.Do(b.t.Context(), http.MethodPost, "/v1/ports", port, nil); err != nil {
		b.t.Fatal(err)
	}
}

// remove deletes a node at the end of a part of the test, so that Ironic has more capacity for the others.
func (b *bed) remove(m *bmcsim.Machine, uuid string) {
	ctx, cancel := context.WithTimeout(context.Background(), testbed.Patience)
	defer cancel()
	m.SetPower(bmcsim.Off)
	// A node in maintenance can be deleted from any state.
	err := b.operator.SetMaintenance(ctx, uuid, true, "the test is over")
	if err == nil {
		err = b.operator.DeleteNode(ctx, uuid)
	}
	if err != nil && !testbed.IsNotFound(err) {
		b.t.Errorf("removing %s: %v", m.Name(), err)
	}
}

// provision requests a provision state and waits until the node is in the state want.
func (b *bed) provision(m *bmcsim.Machine, want string, request map[string]any) testbed.Node {
	b.t.Helper()
	started := time.Now()
	if err := b.operator.Do(b.t.Context(), http.MethodPut, "/v1/nodes/"+m.Name()+"/states/provision", request, nil); err != nil {
		b.t.Fatal(err)
	}
	n := b.wait(m, want)
	b.t.Logf("%s: %v -> %s in %v", m.Name(), request["target"], n.ProvisionState, time.Since(started).Round(10*time.Millisecond))
	return n
}

func (b *bed) wait(m *bmcsim.Machine, state string) testbed.Node {
	b.t.Helper()
	n, err := b.operator.WaitNode(b.t.Context(), m.Name(), func(n testbed.Node) bool {
		if n.Reservation != "" || n.ProvisionState != state {
			return n.Reservation == "" && strings.HasSuffix(n.ProvisionState, " failed") // this state is final
		}
		return n.TargetProvisionState == "" || strings.HasSuffix(state, " wait")
	})
	if err == nil && n.ProvisionState != state {
		err = errors.New(n.ProvisionState + ": " + n.LastError)
	}
	if err != nil {
		b.t.Fatalf("%s is not %q: %v\nmachine: power %s, running %s, boots %v, steps %v", m.Name(), state, err, m.Power(), m.Running(), m.Boots(), m.Steps())
	}
	return n
}

func verb(target string) map[string]any { return map[string]any{"target": target} }

// image returns the instance_info for an image that the Sim serves.
func (b *bed) image(name string) map[string]any {
	return map[string]any{
		"image_source": b.sim.FileURL(name), "image_os_hash_algo": "sha256", "image_os_hash_value": b.sim.FileChecksum(name),
		"image_disk_format": "raw", "image_type": "whole-disk-image",
	}
}

// setInstance patches instance_info. It makes sure that power actions still work in Ironic 29.0, where the
// PATCH makes the node its own parent.
func (b *bed) setInstance(m *bmcsim.Machine, info map[string]any) {
	b.t.Helper()
	err := b.operator.PatchNode(b.t.Context(), m.Name(),
		testbed.Patch{Op: "add", Path: "/instance_info", Value: info},
		testbed.Patch{Op: "add", Path: "/driver_info/has_dedicated_power_supply", Value: true})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) get(path string, into any) {
	b.t.Helper()
	if err := b.operator.Do(b.t.Context(), http.MethodGet, path, nil, into); err != nil {
		b.t.Fatal(err)
	}
}

// TestIronic runs all tests on one Ironic. Each test uses its own machine.
func TestIronic(t *testing.T) {
	parts := []struct {
		name string
		run  func(b *bed, m *bmcsim.Machine)
	}{
		{"lifecycle with network boot", func(b *bed, m *bmcsim.Machine) { lifecycle(b, m, "ipxe") }},
		{"lifecycle with virtual media", func(b *bed, m *bmcsim.Machine) { lifecycle(b, m, "redfish-virtual-media") }},
		{"power", power},
		{"adoption", adoption},
		{"BIOS settings", biosSettings},
		{"secure boot with network boot", func(b *bed, m *bmcsim.Machine) { secureBoot(b, m, "ipxe") }},
		{"secure boot with virtual media", func(b *bed, m *bmcsim.Machine) { secureBoot(b, m, "redfish-virtual-media") }},
		{"out-of-band inspection", outOfBandInspection},
		{"live ISO", liveISO},
		{"custom deployment", customDeployment},
		{"no way into the BMC", unreachableBMC},
		{"power commands without effect", ignoredPower},
		{"silent ramdisk", silentRamdisk},
		{"inspection that fails", failingInspection},
		{"steps that fail", failingSteps},
		{"images that are not there or not the right ones", badImages},
		{"BIOS settings that fail", failingBIOSSettings},
		{"hardware RAID", hardwareRAID},
		{"hardware RAID that fails", failingHardwareRAID},
		{"software RAID", softwareRAID},
		{"firmware updates", firmwareUpdates},
		{"firmware updates that fail", failingFirmwareUpdates},
		{"servicing", servicing},
		{"servicing that fails", failingServicing},
	}
	b := newBed(t, bmcsim.Options{
		Machines: len(parts), DeploySteps: []string{"install_os"},
		// Longer than Ironic 29.0 takes to reset the machine, which it does right after it has requested an update.
		BMCUpdate: 20 * time.Second,
	})
	t.Run("parts", func(t *testing.T) { // returns when all parallel subtests have ended
		for i, part := range parts {
			t.Run(part.name, func(t *testing.T) {
				t.Parallel()
				own := *b
				own.t = t
				part.run(&own, b.sim.Machine(i))
			})
		}
	})
}
