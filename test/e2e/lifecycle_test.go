// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

func TestEnrolAndDelete(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	createSecret(t, ctx, ns, "worker-0-bmc", "admin", "password")
	createHost(t, ctx, ns, "worker-0", b.Address(), "worker-0-bmc", "")

	host := waitAvailable(t, ctx, ns, "worker-0")
	if on, err := b.Power(); err != nil || !on || !host.Status.PoweredOn {
		t.Errorf("spec.online is true, status.poweredOn %t, and the machine is on: %t (%v)", host.Status.PoweredOn, on, err)
	}
	node, err := bed(ctx).ironic.Operator().Node(ctx, host.Status.Provisioning.ID)
	if err != nil {
		t.Fatal(err)
	}
	if want := ns + "~worker-0"; node.Name != want || node.Driver != "ipmi" {
		t.Errorf("node is named %q with driver %q, want %q with ipmi", node.Name, node.Driver, want)
	}
	secret, err := s.Core.CoreV1().Secrets(ns).Get(ctx, "worker-0-bmc", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if secret.Labels["environment.metal3.io"] != "baremetal" || len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != host.UID ||
		len(secret.Finalizers) != 1 || secret.Finalizers[0] != "baremetalhost.metal3.io/secret" {
		t.Errorf("the Secret is not claimed: %v", secret.ObjectMeta)
	}

	if err := bed(ctx).Hosts(ns).Delete(ctx, "worker-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitGone(t, ctx, ns, "worker-0")
	if _, err := bed(ctx).ironic.Operator().Node(ctx, node.UUID); err == nil {
		t.Errorf("node %s is still in Ironic", node.UUID)
	}
	if on, err := b.Power(); err != nil || on {
		t.Errorf("the machine of the deleted host is on: %t (%v)", on, err)
	}
}

func TestHostWithoutBMCIsUnmanaged(t *testing.T) {
	testbed.OnSimulator(t, "such a host is not in Ironic")
	t.Parallel()
	ctx, ns := s.Begin(t)
	createHost(t, ctx, ns, "found", "", "", "52:54:00:77:00:09")
	bed(ctx).WaitHost(t, ctx, ns, "found", "is unmanaged", func(h *metal3.BareMetalHost) bool {
		return h.Status.Provisioning.State == metal3.StateUnmanaged && h.Status.OperationalStatus == metal3.OperationalStatusDiscovered
	})
	b := startBMC(t, ctx)
	createSecret(t, ctx, ns, "creds", "admin", "password")
	bed(ctx).PatchHost(t, ctx, ns, "found", `{"spec":{"bmc":{"address":"`+b.Address()+`","credentialsName":"creds"}}}`)
	waitAvailable(t, ctx, ns, "found")
}
