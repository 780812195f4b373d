// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

func actionPath(ns, name, action string) string {
	return fmt.Sprintf("/apis/metal3.io/v1alpha1/namespaces/%s/baremetalhosts/%s/%s", ns, name, action)
}

// TestPowerByKubectl switches a machine by its BMC, with the commands and the
// short bodies that users type.
func TestPowerByKubectl(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	createSecret(t, ctx, ns, "creds", "admin", "password")
	createHost(t, ctx, ns, "worker-1", b.Address(), "creds", "")
	waitAvailable(t, ctx, ns, "worker-1")

	power := func(body string) metal3.HostPower {
		t.Helper()
		began := time.Now()
		stdout, stderr, err := s.Kube.Kubectl(ctx, body, "create", "--raw", actionPath(ns, "worker-1", "power"), "-f", "-")
		if err != nil {
			t.Fatalf("%v: %s", err, stderr)
		}
		var answer metal3.HostPower
		if err := json.Unmarshal([]byte(stdout), &answer); err != nil {
			t.Fatalf("%v: %s", err, stdout)
		}
		if answer.Kind != "HostPower" || answer.Name != "worker-1" || answer.Namespace != ns || answer.ManagedFields != nil {
			t.Errorf("answer is %s", stdout)
		}
		t.Logf("%s answered after %s: %+v", body, time.Since(began).Round(time.Millisecond), answer.Status)
		return answer
	}
	isOn := func(want bool) {
		t.Helper()
		host := bed(ctx).WaitHost(t, ctx, ns, "worker-1", fmt.Sprintf("is on: %t", want), func(h *metal3.BareMetalHost) bool {
			return h.Status.PoweredOn == want && h.Status.Ironic.TargetPowerState == "" && h.Status.Ironic.Reservation == ""
		})
		if on, err := b.Power(); err != nil || on != want {
			t.Errorf("the machine itself is on: %t (%v), want %t", on, err, want)
		}
		if host.Spec.Online != want {
			t.Errorf("spec.online is %t, want %t", host.Spec.Online, want)
		}
	}
	power(`{"spec":{"action":"on"}}`)
	isOn(true)
	if a := power(`{"spec":{"action":"off","mode":"hard"}}`); a.Status.Mode != metal3.PowerModeHard {
		t.Errorf("mode is %q, want hard", a.Status.Mode)
	}
	isOn(false)
	power(`{"spec":{"action":"on"}}`)
	isOn(true)
	power(`{"spec":{"action":"off"}}`) // softly, by default
	isOn(false)

	testbed.Eventually(t, ctx, func() string {
		events := kubectl(t, ctx, "", "get", "events", "-n", ns, "--field-selector", "reason=PowerRequested")
		if strings.Contains(events, `User "`) && strings.Contains(events, "has requested") {
			return ""
		}
		return "who has requested it is not among the events: " + events
	})
	stdout, stderr, err := s.Kube.Kubectl(ctx, "", "get", "--raw", actionPath(ns, "worker-1", "power"))
	if err != nil || !strings.Contains(stdout, `"powerState":"power off"`) {
		t.Errorf("get --raw: %v %s: %s", err, stderr, stdout)
	}
}

// TestInspect: an inspection begins at once; what it found shows once it is done.
func TestInspect(t *testing.T) {
	t.Parallel()
	sim := needsSimulator(t)
	ctx, ns := s.Begin(t)
	createSecret(t, ctx, ns, "creds", "admin", "password")
	createHost(t, ctx, ns, "worker-1", startBMC(t, ctx).Address(), "creds", "", func(h *metal3.BareMetalHost) { h.Spec.InspectionMode = "" })
	host := waitAvailable(t, ctx, ns, "worker-1")
	id := host.Status.Provisioning.ID
	if hw := host.Status.HardwareDetails; hw == nil || hw.RAMMebibytes != 16384 {
		t.Errorf("hardware after the first inspection: %+v", hw)
	}
	if err := sim.HoldRamdisk(id); err != nil { // the test plays the next one
		t.Fatal(err)
	}

	began := time.Now()
	stdout, stderr, err := s.Kube.Kubectl(ctx, `{"spec":{}}`, "create", "--raw", actionPath(ns, "worker-1", "inspect"), "-f", "-")
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	t.Logf("answered after %s: %s", time.Since(began).Round(time.Millisecond), stdout)
	host = bed(ctx).WaitHost(t, ctx, ns, "worker-1", "is inspected", func(h *metal3.BareMetalHost) bool {
		return h.Status.Provisioning.State == metal3.StateInspecting && h.Status.Ironic.ProvisionState == "inspect wait"
	})
	if host.Status.OperationHistory.Inspect.Start.IsZero() || !host.Status.OperationHistory.Inspect.End.IsZero() {
		t.Errorf("history of inspections: %+v", host.Status.OperationHistory.Inspect)
	}
	hosts := bed(ctx).Hosts(ns)
	if _, err := hosts.Inspect(ctx, "worker-1", &metal3.HostInspection{}, metav1.CreateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a second inspection: %v, want a conflict", err)
	}
	if err := sim.Ramdisk(id, map[string]any{
		"interfaces": []any{map[string]any{"name": "eth0", "mac_address": host.Spec.BootMACAddress}},
		"cpu":        map[string]any{"count": 8, "architecture": "x86_64"},
		"disks":      []any{map[string]any{"name": "/dev/sda", "size": 53687091200}},
		"memory":     map[string]any{"physical_mb": 32768},
	}); err != nil {
		t.Fatal(err)
	}
	bed(ctx).WaitHost(t, ctx, ns, "worker-1", "shows its hardware", func(h *metal3.BareMetalHost) bool {
		return h.Status.HardwareDetails != nil && h.Status.HardwareDetails.RAMMebibytes == 32768
	})
	host = waitAvailable(t, ctx, ns, "worker-1")
	hw := host.Status.HardwareDetails
	if hw.CPU.Count != 8 || hw.CPU.Arch != "x86_64" || len(hw.NIC) != 1 || hw.NIC[0].MAC != host.Spec.BootMACAddress || len(hw.Storage) != 1 || hw.Storage[0].SizeBytes != 53687091200 {
		t.Errorf("hardware: %+v", hw)
	}
	if _, asked := host.Annotations[metal3.InspectAnnotation]; asked || host.Status.OperationHistory.Inspect.End.IsZero() {
		t.Errorf("after the inspection: annotations %v, history %+v", host.Annotations, host.Status.OperationHistory.Inspect)
	}
	inspection, err := hosts.GetInspect(ctx, "worker-1", metav1.GetOptions{})
	if err != nil || inspection.Status.FinishedAt == nil || inspection.Status.State != "manageable" {
		t.Errorf("GET inspect: %v %+v", err, inspection)
	}
}
