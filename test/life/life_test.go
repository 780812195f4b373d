// SPDX-License-Identifier: Apache-2.0

package life

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// The whole way: enrolled, inspected, cleaned and provisioned with user data,
// deprovisioned, deleted. Each state reaches a watcher, and the machine has got
// what the spec says.
func TestWholeLife(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	bmh := h.in(metal3.StateAvailable)
	h.expectStates(metal3.StateRegistering, metal3.StateInspecting, metal3.StatePreparing, metal3.StateAvailable)
	if s.inspects() {
		h.knowsHardware(bmh)
	}

	h.secret("user-data", map[string]string{"userData": "#cloud-config\nhostname: one\n"})
	h.secret("network-data", map[string]string{"networkData": `{"links":[{"id":"eth0"}]}`})
	h.secret("meta-data", map[string]string{"metaData": "rack: r7\nname: another\n"})
	h.patch(`{"spec":{"userData":{"name":"user-data","namespace":%q},"networkData":{"name":"network-data"},"metaData":{"name":"meta-data"}}}`, h.ns)
	h.wantImage()
	bmh = h.in(metal3.StateProvisioned)
	h.expectStates(metal3.StateAvailable, metal3.StateProvisioning, metal3.StateProvisioned)
	if h.machine.Running() != bmcsim.RunningDisk || h.machine.Writes() != 1 {
		t.Errorf("the machine runs %v after %d writes", h.machine.Running(), h.machine.Writes())
	}
	image := h.machine.Image()
	if image.URL != s.machines.FileURL(bmcsim.ImageFile) || image.HashAlgorithm != "sha256" || image.HashValue != s.machines.FileChecksum(bmcsim.ImageFile) || image.DiskFormat != "raw" {
		t.Errorf("image written: %+v", image)
	}
	drive := h.machine.ConfigDrive()
	if got := drive.UserData(); got != "#cloud-config\nhostname: one\n" {
		t.Errorf("user data is %q", got)
	}
	var meta map[string]any
	if err := json.Unmarshal(drive[bmcsim.MetaDataPath], &meta); err != nil {
		t.Fatal(err)
	}
	if meta["uuid"] != string(bmh.UID) || meta["metal3-name"] != h.name || meta["metal3-namespace"] != h.ns || meta["rack"] != "r7" || meta["name"] != "another" {
		t.Errorf("meta data is %v", meta)
	}
	var network map[string]any
	if err := json.Unmarshal(drive[bmcsim.NetworkDataPath], &network); err != nil || network["links"] == nil {
		t.Errorf("network data is %s: %v", drive[bmcsim.NetworkDataPath], err)
	}

	h.patch(`{"spec":{"image":null}}`)
	h.in(metal3.StateAvailable)
	h.expectStates(metal3.StateProvisioned, metal3.StateDeprovisioning, metal3.StateAvailable)
	node, err := s.ironic.Operator().Node(h.ctx, bmh.Status.Provisioning.ID)
	if err != nil || node.InstanceUUID != "" || len(node.InstanceInfo) != 0 {
		t.Errorf("Ironic still has the instance %q, %v: %v", node.InstanceUUID, node.InstanceInfo, err)
	}

	h.delete()
	h.gone()
	if h.machine.Running() != bmcsim.RunningNothing {
		t.Errorf("the machine of a deleted host runs %v", h.machine.Running())
	}
}

// knowsHardware asserts what an inspection leaves behind.
func (h *host) knowsHardware(bmh *metal3.BareMetalHost) {
	h.t.Helper()
	if hw := bmh.Status.HardwareDetails; hw == nil || len(hw.NIC) == 0 || len(hw.Storage) == 0 || hw.CPU.Count == 0 {
		h.t.Fatalf("hardware is %+v", hw)
	} else if hw.NIC[0].LLDP == nil || hw.NIC[0].LLDP.SwitchSystemName == "" || len(hw.NIC[0].VLANs) == 0 {
		h.t.Errorf("nothing of what the switch told: %+v", hw.NIC[0])
	}
	if bmh.Spec.Architecture != "x86_64" || bmh.Status.HardwareProfile != "unknown" {
		h.t.Errorf("architecture %q, profile %q", bmh.Spec.Architecture, bmh.Status.HardwareProfile)
	}
	data, err := s.Metal3.Metal3V1alpha1().HardwareData(h.ns).Get(h.ctx, h.name, metav1.GetOptions{})
	if err != nil || data.Spec.HardwareDetails.Hostname != bmh.Status.HardwareDetails.Hostname {
		h.t.Errorf("HardwareData: %v, %+v", err, data)
	}
}
