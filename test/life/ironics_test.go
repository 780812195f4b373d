// SPDX-License-Identifier: Apache-2.0

package life

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

var ironicInstances = schema.GroupVersionResource{Group: "ironic.metal3-apiserver.io", Version: "v1alpha1", Resource: "ironicinstances"}

// TestTwoIronics: a machine that runs is moved to an Ironic of another release, which is stopped and started, and back. Nothing
// happens to the machine. OTHER_IRONIC is the release of the other Ironic.
func TestTwoIronics(t *testing.T) {
	release := os.Getenv("OTHER_IRONIC")
	if release == "" {
		t.Skip("a second real Ironic takes minutes to be installed: make test-ironics")
	}
	h := newHost(t, notInspected, withImage)
	h.provisioned()
	h.power(bmcsim.On)
	boots := len(h.machine.Boots())
	other := startOther(t, h.ctx, release)

	unchanged := func(where string) {
		t.Helper()
		h.wrote(1)
		if h.machine.Power() != bmcsim.On || len(h.machine.Boots()) != boots {
			t.Errorf("%s: power %s, %d boots, want %d", where, h.machine.Power(), len(h.machine.Boots()), boots)
		}
	}
	h.transfer(release)
	unchanged("moved")
	h.nodeGone()
	node, err := other.Operator().Node(h.ctx, h.ns+"~"+h.name)
	if err != nil || node.ProvisionState != "active" {
		t.Errorf("the node in the other Ironic: %+v %v", node, err)
	}

	// It is live there, and says so when it is not.
	if err := other.Operator().SetMaintenance(h.ctx, node.UUID, true, "in the other room"); err != nil {
		t.Fatal(err)
	}
	if got := h.get().Status.Ironic; got == nil || got.MaintenanceReason != "in the other room" || got.Instance != release {
		t.Errorf("the host shows %+v", got)
	}
	if err := other.Operator().SetMaintenance(h.ctx, node.UUID, false, ""); err != nil {
		t.Fatal(err)
	}
	if err := other.Stop(); err != nil {
		t.Fatal(err)
	}
	_, stderr, err := s.Kube.Kubectl(h.ctx, "", "get", "baremetalhosts", "-A")
	if err != nil || strings.Count(stderr, "Warning:") != 1 || !strings.Contains(stderr, release) {
		t.Errorf("a list while one Ironic is away: %v: %s", err, stderr)
	}
	if err := other.Start(h.ctx); err != nil {
		t.Fatal(err)
	}
	h.wait("OK", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.OperationalStatus == metal3.OperationalStatusOK
	})
	unchanged("while the other Ironic was away")

	h.transfer("")
	unchanged("moved back")
	if nodes, err := other.Operator().Nodes(h.ctx); err != nil || len(nodes) != 0 {
		t.Errorf("nodes left in the other Ironic: %v %v", nodes, err)
	}
	h.patch(`{"spec":{"image":null}}`)
	h.available()
}

// startOther starts another real Ironic, for which there is an IronicInstance with the name of its release.
func startOther(t *testing.T, ctx context.Context, release string) *testbed.DebianIronic {
	t.Helper()
	other, err := testbed.StartDebianIronic(ctx, testbed.IronicOptions{Release: release, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	})
	instance := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ironicInstances.GroupVersion().String(), "kind": "IronicInstance", "metadata": map[string]any{"name": release},
		"spec": map[string]any{"endpoint": other.Endpoint, "selector": map[string]any{"matchLabels": map[string]any{"room": release}}},
	}}
	if _, err := s.Dynamic.Resource(ironicInstances).Create(ctx, instance, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Dynamic.Resource(ironicInstances).Delete(context.WithoutCancel(ctx), release, metav1.DeleteOptions{})
	})
	return other
}

// transfer moves the host to another Ironic, and waits until it is provisioned there.
func (h *host) transfer(to string) {
	h.t.Helper()
	began := time.Now()
	h.eventually(func() string { // the server reads a new IronicInstance in a moment
		if _, err := h.api.Transfer(h.ctx, h.name, &metal3.HostTransfer{Spec: metal3.HostTransferSpec{Ironic: &to}}, metav1.CreateOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	h.wait("provisioned in the other Ironic", func(bmh *metal3.BareMetalHost) bool {
		node := bmh.Status.Ironic
		return node != nil && node.Instance == to && node.ProvisionState == "active" && isIn(metal3.StateProvisioned)(bmh) && bmh.Status.OperationalStatus == metal3.OperationalStatusOK
	})
	h.t.Logf("moved to %q within %s", to, time.Since(began).Round(time.Millisecond))
}
