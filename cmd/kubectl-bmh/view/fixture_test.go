// SPDX-License-Identifier: Apache-2.0

package view

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files")

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// golden compares lines with a file in testdata.
func golden(t *testing.T, name string, lines []string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	got := strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs; -update writes it anew:\n%s", path, diff)
	}
}

// fits asserts that no line is longer than the terminal is wide.
func fits(t *testing.T, lines []string, width, height int) {
	t.Helper()
	if len(lines) > height {
		t.Errorf("%d lines on a terminal of %d", len(lines), height)
	}
	for _, line := range lines {
		if n := cells(line); n > width {
			t.Errorf("a line takes %d of %d columns: %q", n, width, line)
		}
		if strings.ContainsAny(line, "\n\r\t\x1b\a") {
			t.Errorf("a line has control characters: %q", line)
		}
	}
}

func host(name string, state metal3.ProvisioningState, ironic *metal3.IronicStatus) *metal3.BareMetalHost {
	record := metal3.HostRecord{}
	if in, known := map[metal3.ProvisioningState]time.Duration{
		metal3.StateRegistering: 90 * time.Second, metal3.StateProvisioning: 4 * time.Minute,
		metal3.StateProvisioned: 26 * time.Hour, metal3.StateAvailable: 49 * time.Hour,
	}[state]; known {
		record.State = &metal3.TimeInState{Name: state, Since: ago(in)}
	}
	return &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: name, CreationTimestamp: ago(72 * time.Hour)},
		Spec:       metal3.BareMetalHostSpec{Online: true, BMC: metal3.BMCDetails{Address: "ipmi://192.0.2.1"}},
		Status: metal3.BareMetalHostStatus{
			OperationalStatus: metal3.OperationalStatusOK,
			Provisioning:      metal3.ProvisionStatus{State: state, ID: "11111111-2222-3333-4444-555555555555"},
			OperationHistory: metal3.OperationHistory{
				Register: metal3.OperationMetric{Start: ago(90 * time.Second)}, Provision: metal3.OperationMetric{Start: ago(4 * time.Minute)},
			},
			Record: record,
			Ironic: ironic,
		},
	}
}

func ironic(state, power, target, step string) *metal3.IronicStatus {
	return &metal3.IronicStatus{ProvisionState: state, PowerState: power, TargetPowerState: target, Step: step}
}

// fleet has a host of each kind that looks different.
func fleet() []Row {
	provisioned := host("openshift-worker-0", metal3.StateProvisioned, ironic("active", "power on", "", ""))
	provisioned.Spec.ConsumerRef = &corev1.ObjectReference{Kind: "Metal3Machine", Name: "workers-x7k2p"}
	provisioned.Status.Ironic.Instance = "room-b"
	busy := host("openshift-worker-1", metal3.StateProvisioning, ironic("clean wait", "power on", "", "deploy.erase_devices"))
	switching := host("openshift-worker-2", metal3.StateAvailable, ironic("available", "power off", "power on", ""))
	wrong := host("openshift-master-0", metal3.StateRegistering, ironic("enroll", "", "", ""))
	wrong.Status.OperationalStatus, wrong.Status.ErrorType = metal3.OperationalStatusError, metal3.RegistrationError
	wrong.Status.ErrorMessage = "An IPMI command to the BMC has failed. Failed to get power state for node a4a53134. Error: IPMI call failed: power status."
	off := host("openshift-worker-3", metal3.StateAvailable, ironic("available", "power off", "", ""))
	hostile := host("openshift-worker-4", metal3.StateProvisioned, ironic("active", "power on", "", ""))
	hostile.Status.ErrorMessage = "\x1b]0;owned\x07\x1b[2J日本語のエラー\r\nsecond\tline\u202e reversed\u0085"
	unmanaged := host("spare", metal3.StateUnmanaged, nil)
	return []Row{
		{Host: provisioned, Machine: "workers-x7k2p", Node: "node-a"}, {Host: busy}, {Host: switching}, {Host: wrong}, {Host: off}, {Host: hostile}, {Host: unmanaged},
	}
}
