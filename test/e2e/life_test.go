// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

const (
	imageURL  = "http://192.0.2.1/image.qcow2"
	wantImage = `{"spec":{"image":{"url":"` + imageURL + `","checksum":"` + imageURL + `.sha256sum"}}}`
)

// needsSimulator leaves out a test on a real Ironic. The machines of this suite are
// BMCs with nothing behind them then; those of test/life boot a ramdisk.
func needsSimulator(t *testing.T) *simulated {
	t.Helper()
	sim, ok := s.ironic.(*simulated)
	if !ok {
		t.Skip("needs a machine that boots a ramdisk, or a fault of Ironic's own: of this suite only the simulator has them; test/life has machines for a real Ironic")
	}
	return sim
}

// TestLife takes a host through its whole life as a user does: what Ironic is told,
// what its ramdisk finds, and what a watcher is told, with no state skipped.
// TestWholeLife of test/life does the same on a real Ironic.
func TestLife(t *testing.T) {
	t.Parallel()
	sim := needsSimulator(t)
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	w := watchHosts(t, ctx, ns)
	createSecret(t, ctx, ns, "creds", "admin", "password")
	createHost(t, ctx, ns, "worker-0", b.Address(), "creds", "", wholeLife)
	host := waitAvailable(t, ctx, ns, "worker-0")
	id := host.Status.Provisioning.ID
	isOn(t, b, true)

	hw := host.Status.HardwareDetails
	if hw == nil || hw.RAMMebibytes != 16384 || len(hw.NIC) != 1 || !strings.EqualFold(hw.NIC[0].MAC, host.Spec.BootMACAddress) || !hw.NIC[0].PXE {
		t.Errorf("hardware: %+v", hw)
	}
	if host.Spec.Architecture != "x86_64" || host.Status.HardwareProfile != "unknown" {
		t.Errorf("spec.architecture is %q, the hardware profile %q", host.Spec.Architecture, host.Status.HardwareProfile)
	}
	data, err := bed(ctx).Metal3.Metal3V1alpha1().HardwareData(ns).Get(ctx, "worker-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hw, data.Spec.HardwareDetails); diff != "" {
		t.Errorf("HardwareData differs from status.hardware:\n%s", diff)
	}
	if owners := data.OwnerReferences; len(owners) != 1 || owners[0].UID != host.UID || owners[0].Kind != "BareMetalHost" {
		t.Errorf("owners of the HardwareData: %+v", owners)
	}
	if out := kubectl(t, ctx, "", "get", "hd", "-n", ns); !strings.Contains(out, "worker-0") {
		t.Errorf("kubectl get hd prints %q", out)
	}

	s.CreateSecret(t, ctx, ns, "user-data", map[string]string{"userData": "#cloud-config\nhostname: x\n"})
	s.CreateSecret(t, ctx, ns, "network-data", map[string]string{"networkData": "links: []\n"})
	s.CreateSecret(t, ctx, ns, "meta-data", map[string]string{"metaData": "rack: r7\n"})
	bed(ctx).PatchHost(t, ctx, ns, "worker-0", `{"spec":{"userData":{"name":"user-data"},"networkData":{"name":"network-data"},"metaData":{"name":"meta-data"},
		"rootDeviceHints":{"deviceName":"/dev/vdb"},"image":{"url":"`+imageURL+`","checksum":"abc","checksumType":"sha256","format":"qcow2"}}}`)
	host = waitState(t, ctx, ns, "worker-0", metal3.StateProvisioned)
	isOn(t, b, true)
	if got := host.Status.Provisioning.Image.URL; got != imageURL {
		t.Errorf("status.provisioning.image.url is %q", got)
	}
	if h := host.Status.OperationHistory.Provision; h.Start.IsZero() || h.End.IsZero() {
		t.Errorf("history of provisioning: %+v", h)
	}
	for _, condition := range []string{"Provisioned", "Ready"} {
		kubectl(t, ctx, "", "wait", "bmh/worker-0", "-n", ns, "--for=condition="+condition, "--timeout=5m")
	}
	node, _ := sim.Node(id)
	instance := node["instance_info"].(map[string]any)
	drive, _ := instance["configdrive"].(map[string]any)
	delete(instance, "configdrive")
	want := map[string]any{
		"image_source": imageURL, "image_os_hash_algo": "sha256", "image_os_hash_value": "abc", "image_disk_format": "qcow2", "image_type": "whole-disk",
		"root_device": map[string]any{"name": "s== /dev/vdb"},
	}
	if diff := cmp.Diff(want, instance); diff != "" {
		t.Errorf("instance_info (-want +got):\n%s", diff)
	}
	meta, _ := drive["meta_data"].(map[string]any)
	if drive["user_data"] != "#cloud-config\nhostname: x\n" || meta["uuid"] != string(host.UID) || meta["local-hostname"] != "worker-0" || meta["metal3-namespace"] != ns || meta["rack"] != "r7" || drive["network_data"] == nil {
		t.Errorf("config drive: %v", drive)
	}

	bed(ctx).PatchHost(t, ctx, ns, "worker-0", `{"spec":{"image":null}}`)
	host = waitState(t, ctx, ns, "worker-0", metal3.StateAvailable)
	if got := host.Status.Provisioning.Image.URL; got != "" || host.Status.OperationHistory.Deprovision.End.IsZero() {
		t.Errorf("after deprovisioning: image %q, history %+v", got, host.Status.OperationHistory.Deprovision)
	}
	hasEvents(t, ctx, ns, "worker-0", "BMCAccessValidated", "Registered", "InspectionStarted", "InspectionComplete", "ProfileSet",
		"ProvisioningStarted", "ProvisioningComplete", "DeprovisioningStarted", "DeprovisioningComplete")
	bed(ctx).DeleteHost(t, ctx, ns, "worker-0")
	waitGone(t, ctx, ns, "worker-0")
	isOn(t, b, false)
	gone := time.Now()
	testbed.Eventually(t, ctx, func() string { // the garbage collector takes it
		data, err := bed(ctx).Metal3.Metal3V1alpha1().HardwareData(ns).Get(ctx, "worker-0", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("the HardwareData of the deleted host is still there: %v %+v", err, data)
	})
	t.Logf("HardwareData collected after %s", time.Since(gone).Round(time.Millisecond))
	sawStates(t, ctx, w, metal3.StateRegistering, metal3.StateInspecting, metal3.StatePreparing, metal3.StateAvailable,
		metal3.StatePreparing, metal3.StateAvailable, // other root device hints
		metal3.StateProvisioning, metal3.StateProvisioned, metal3.StateDeprovisioning, metal3.StateAvailable,
		metal3.StatePoweringOffBeforeDelete, metal3.StateDeleting)
}

// TestNodeLostWhileProvisioned: Ironic's database is gone. What runs is adopted,
// never deployed or cleaned again, also when it boots from an ISO.
func TestNodeLostWhileProvisioned(t *testing.T) {
	t.Parallel()
	sim := needsSimulator(t)
	for name, image := range map[string]string{
		"Image":   wantImage,
		"LiveISO": `{"spec":{"image":{"url":"http://192.0.2.1/live.iso","format":"live-iso"}}}`,
		"Custom":  `{"spec":{"customDeploy":{"method":"install_everything"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, ns := s.Begin(t)
			b := startBMC(t, ctx)
			createSecret(t, ctx, ns, "creds", "admin", "password")
			createHost(t, ctx, ns, "worker-0", b.Address(), "creds", "")
			id := waitAvailable(t, ctx, ns, "worker-0").Status.Provisioning.ID
			bed(ctx).PatchHost(t, ctx, ns, "worker-0", image)
			before := waitState(t, ctx, ns, "worker-0", metal3.StateProvisioned)
			w := watchHosts(t, ctx, ns)
			if err := sim.LoseNode(id); err != nil {
				t.Fatal(err)
			}
			after := waitState(t, ctx, ns, "worker-0", metal3.StateProvisioned)
			targets := sim.ProvisionTargets(id)
			if diff := cmp.Diff([]string{"manage", "provide", "active", "manage", "adopt"}, targets); diff != "" {
				t.Errorf("what Ironic was asked for (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before.Status.Provisioning, after.Status.Provisioning); diff != "" {
				t.Errorf("status.provisioning (-before +after):\n%s", diff)
			}
			if got := powers(w); !slices.Equal(got, []bool{true}) {
				t.Errorf("a watcher saw its power change: %v", got)
			}
			isOn(t, b, true)
			sawStates(t, ctx, w, metal3.StateProvisioned)

			if node, _ := sim.Node(id); node["instance_uuid"] != before.Status.Record.Deployment.InstanceUUID {
				t.Errorf("the new node is of instance %v, want %s", node["instance_uuid"], before.Status.Record.Deployment.InstanceUUID)
			}

			// It can still be given back.
			bed(ctx).PatchHost(t, ctx, ns, "worker-0", `{"spec":{"image":null,"customDeploy":null}}`)
			waitAvailable(t, ctx, ns, "worker-0")
		})
	}
}

// TestHardPowerOffIsHard: the controller, which would ask the system to shut down
// and wait for it, must not come before the action that cuts the power.
func TestHardPowerOffIsHard(t *testing.T) {
	t.Parallel()
	needsSimulator(t)
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	b.(simulatedBMC).SetNoSoftPower(true) // a system that hangs
	runningHost(t, ctx, ns, "worker-0", b)
	hosts := bed(ctx).Hosts(ns)
	for _, spec := range slices.Repeat([]metal3.HostPowerSpec{{Action: "off", Mode: "hard"}, {Action: "on"}}, 10) {
		if _, err := hosts.Power(ctx, "worker-0", &metal3.HostPower{Spec: spec}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		waitState(t, ctx, ns, "worker-0", metal3.StateExternallyProvisioned)
		isOn(t, b, spec.Action == "on")
	}
}
