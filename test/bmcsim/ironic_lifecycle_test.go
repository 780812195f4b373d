// SPDX-License-Identifier: Apache-2.0

package bmcsim_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// lifecycle tests the usual life cycle: enrol, inspect, clean, deploy, undeploy, delete.
func lifecycle(b *bed, m *bmcsim.Machine, boot string) {
	t := b.t
	disks := m.Disks()
	b.enrol(m, boot, nil)
	b.provision(m, "manageable", verb("manage"))

	b.provision(m, "manageable", verb("inspect"))
	if b.release != "bookworm" {
		inventoryOfRamdisk(b, m)
	}
	if diff := cmp.Diff(disks, m.Disks()); diff != "" || len(m.DiskWrites()) != 0 {
		t.Errorf("disks were written to before cleaning was requested: %v", m.DiskWrites())
	}
	b.provision(m, "available", verb("provide"))
	if cmp.Equal(disks, m.Disks()) {
		t.Error("cleaning did not change the disks")
	}
	if steps := m.Steps(); !slices.Contains(steps, "clean erase_devices_metadata") {
		t.Errorf("cleaned without erase_devices_metadata: %v", steps)
	}
	b.setInstance(m, b.image(bmcsim.ImageFile))
	b.provision(m, "active", map[string]any{"target": "active", "configdrive": map[string]any{
		"user_data": "#cloud-config\n", "meta_data": map[string]any{"rack": "r7"}, "network_data": map[string]any{"links": []any{}},
	}})
	want := bmcsim.Image{
		Step: "write_image", URL: b.sim.FileURL(bmcsim.ImageFile), HashAlgorithm: "sha256", HashValue: b.sim.FileChecksum(bmcsim.ImageFile),
		DiskFormat: "raw", Bytes: m.Image().Bytes,
	}
	if diff := cmp.Diff(want, m.Image()); diff != "" {
		t.Errorf("image (-want +got):\n%s", diff)
	}
	drive := m.ConfigDrive()
	var meta struct{ Rack, Name string }
	if err := json.Unmarshal([]byte(drive.MetaData()), &meta); err != nil || meta.Rack != "r7" || meta.Name != m.Name() {
		t.Errorf("meta data %s: %v", drive.MetaData(), err)
	}
	if drive.UserData() != "#cloud-config\n" || drive.NetworkData() != `{"links": []}` {
		t.Errorf("config drive: %s", drive)
	}
	if m.Running() != bmcsim.RunningDisk || m.Power() != bmcsim.On {
		t.Errorf("deployed, and %s, running %s", m.Power(), m.Running())
	}

	b.provision(m, "available", verb("deleted"))
	if m.Writes() != 1 || m.Power() != bmcsim.Off {
		t.Errorf("undeployed, and %s after %d writes", m.Power(), m.Writes())
	}
	if err := b.operator.DeleteNode(t.Context(), m.Name()); err != nil {
		t.Error(err)
	}
}

func inventoryOfRamdisk(b *bed, m *bmcsim.Machine) {
	b.t.Helper()
	var data struct {
		Inventory struct {
			Interfaces []struct {
				MAC string `json:"mac_address"`
			}
			Disks []struct{ Size int64 }
		}
		PluginData struct {
			LLDP map[string]struct {
				Port  string           `json:"switch_port_id"`
				VLAN  int              `json:"switch_port_untagged_vlan_id"`
				VLANs []map[string]any `json:"switch_port_vlans"`
			} `json:"parsed_lldp"`
		} `json:"plugin_data"`
	}
	b.get("/v1/nodes/"+m.Name()+"/inventory", &data)
	if m.Inspections() != 1 || len(data.Inventory.Interfaces) != 3 || data.Inventory.Interfaces[0].MAC != m.MAC() || len(data.Inventory.Disks) != 2 {
		b.t.Errorf("after %d inspections: %+v", m.Inspections(), data.Inventory)
	}
	if eno1 := data.PluginData.LLDP["eno1"]; eno1.VLAN != 100 || len(eno1.VLANs) != 2 || !strings.HasPrefix(eno1.Port, "Ethernet") {
		b.t.Errorf("LLDP: %+v", data.PluginData)
	}
}

func power(b *bed, m *bmcsim.Machine) {
	t := b.t
	b.enrol(m, "ipxe", nil)
	b.provision(m, "manageable", verb("manage"))
	var want []string
	for _, step := range []struct {
		target, state string
		events        []string
	}{
		{"power on", "power on", []string{"On by On"}},
		{"rebooting", "power on", []string{"Off by ForceOff", "On by On"}},
		{"soft rebooting", "power on", []string{"On by GracefulRestart"}},
		{"soft power off", "power off", []string{"Off by GracefulShutdown"}},
		{"power on", "power on", []string{"On by On"}},
		{"power off", "power off", []string{"Off by ForceOff"}},
	} {
		if err := b.operator.Power(t.Context(), m.Name(), step.target); err != nil {
			t.Fatal(err)
		}
		want = append(want, step.events...)
		n, err := b.operator.WaitNode(t.Context(), m.Name(), func(n testbed.Node) bool {
			return n.PowerState == step.state && n.TargetPowerState == "" && n.Reservation == ""
		})
		if err != nil || n.LastError != "" {
			t.Fatalf("%s: %v %s", step.target, err, n.LastError)
		}
		var got []string
		for _, e := range m.PowerHistory() {
			got = append(got, fmt.Sprintf("%s by %s", e.Power, e.By))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", step.target, diff)
		}
	}
	m.SetPower(bmcsim.On)
	if _, err := b.operator.WaitNode(t.Context(), m.Name(), func(n testbed.Node) bool { return n.PowerState == "power on" }); err != nil {
		t.Errorf("after the power button was pressed: %v", err)
	}
	if err := b.operator.Do(t.Context(), "PUT", "/v1/nodes/"+m.Name()+"/management/inject_nmi", map[string]any{}, nil); err != nil || m.NMIs() != 1 {
		t.Errorf("%d NMIs, %v", m.NMIs(), err)
	}
}

func adoption(b *bed, m *bmcsim.Machine) {
	m.SetPower(bmcsim.On)
	b.enrol(m, "ipxe", map[string]any{"instance_info": b.image(bmcsim.ImageFile)})
	b.provision(m, "manageable", verb("manage"))
	n := b.provision(m, "active", verb("adopt"))
	if len(m.Boots()) != 1 || m.Writes() != 0 || m.Running() != bmcsim.RunningDisk || n.PowerState != "power on" {
		b.t.Errorf("adoption changed something: boots %v, %d writes", m.Boots(), m.Writes())
	}
}

// secureBoot checks that secure boot is enabled for the deployed system and disabled again after it is
// removed, because the ramdisk that cleans afterwards is not signed.
func secureBoot(b *bed, m *bmcsim.Machine, boot string) {
	t := b.t
	b.enrol(m, boot, map[string]any{"properties": map[string]any{"capabilities": "boot_mode:uefi,secure_boot:true"}})
	b.provision(m, "manageable", verb("manage"))
	b.provision(m, "available", verb("provide"))
	if m.SecureBoot() {
		t.Error("secure boot is enabled before anything is deployed")
	}
	info := b.image(bmcsim.ImageFile)
	info["capabilities"] = map[string]any{"secure_boot": "true"}
	b.setInstance(m, info)
	b.provision(m, "active", verb("active"))
	if !m.SecureBoot() || m.Running() != bmcsim.RunningDisk {
		t.Errorf("deployed, running %s, with secure boot %t", m.Running(), m.SecureBoot())
	}
	b.provision(m, "available", verb("deleted"))
	if m.SecureBoot() {
		t.Error("secure boot is still enabled after undeploying and cleaning")
	}
}

func outOfBandInspection(b *bed, m *bmcsim.Machine) {
	b.enrol(m, "ipxe", map[string]any{"inspect_interface": "redfish"})
	b.provision(m, "manageable", verb("manage"))
	b.provision(m, "manageable", verb("inspect"))
	n, err := b.operator.Node(b.t.Context(), m.Name())
	if err != nil || n.Properties["cpu_arch"] != "x86_64" || fmt.Sprint(n.Properties["memory_mb"]) != "131072" || n.Properties["local_gb"] == "0" {
		b.t.Errorf("properties %v, %v", n.Properties, err)
	}
	if len(m.Boots()) != 0 {
		b.t.Errorf("out-of-band inspection booted the machine: %v", m.Boots())
	}
}

func liveISO(b *bed, m *bmcsim.Machine) {
	b.enrol(m, "redfish-virtual-media", map[string]any{
		"deploy_interface": "ramdisk", "instance_info": map[string]any{"boot_iso": b.sim.FileURL(bmcsim.LiveISO)},
	})
	b.provision(m, "manageable", verb("manage"))
	b.provision(m, "available", verb("provide"))
	b.provision(m, "active", verb("active"))
	if m.Running() != bmcsim.RunningLiveISO || m.VirtualMedia() != b.sim.FileURL(bmcsim.LiveISO) || m.Writes() != 0 {
		b.t.Errorf("running %s from %q after %d writes", m.Running(), m.VirtualMedia(), m.Writes())
	}
	b.provision(m, "available", verb("deleted"))
	if m.VirtualMedia() != "" {
		b.t.Errorf("%s is still in the drive", m.VirtualMedia())
	}
}

func customDeployment(b *bed, m *bmcsim.Machine) {
	b.enrol(m, "ipxe", map[string]any{"deploy_interface": "custom-agent"})
	b.provision(m, "manageable", verb("manage"))
	b.provision(m, "available", verb("provide"))
	b.provision(m, "active", map[string]any{
		"target": "active", "configdrive": map[string]any{"user_data": "{}"},
		"deploy_steps": []any{map[string]any{"interface": "deploy", "step": "install_os", "priority": 80, "args": map[string]any{}}},
	})
	if got := m.Image(); got.Step != "install_os" || m.ConfigDrive().UserData() != "{}" {
		b.t.Errorf("image %+v, config drive %s", got, m.ConfigDrive())
	}
}
