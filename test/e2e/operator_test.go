// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestOperatorIsStarted: somebody starts the Bare Metal Operator again beside the server, which has all hosts held until that is
// over. It shows by its Lease, and by the statuses that it writes, which are not believed.
func TestOperatorIsStarted(t *testing.T) {
	t.Parallel()
	needsSimulator(t)
	for name, start := range map[string]func(t *testing.T, ctx context.Context, ns string){"its Lease": renewLease, "its writes": writeStatus} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, ns := s.Begin(t)
			ctx = onServerOfItsOwn(t, ctx, ns, "--bare-metal-operator-namespaces="+ns)
			b := startBMC(t, ctx)
			runningHost(t, ctx, ns, "worker-0", b)
			start(t, ctx, ns)
			h := bed(ctx).WaitHost(t, ctx, ns, "worker-0", "is held", isHeld(metal3.OperatorRunningReason))
			if h.Status.Provisioning.State != metal3.StateExternallyProvisioned || h.Status.Provisioning.ID == "" {
				t.Errorf("it is shown as %+v", h.Status.Provisioning)
			}
			bed(ctx).PatchHost(t, ctx, ns, "worker-0", `{"spec":{"online":false},"metadata":{"annotations":{"metal3.io/seen":"yes"}}}`)
			start(t, ctx, ns)
			bed(ctx).WaitHost(t, ctx, ns, "worker-0", "is held", isHeld(metal3.OperatorRunningReason))
			isOn(t, b, true)
		})
	}
}

// renewLease does what the operator does for its Lease.
func renewLease(t *testing.T, ctx context.Context, ns string) {
	t.Helper()
	leases := s.Core.CoordinationV1().Leases(ns)
	spec := coordinationv1.LeaseSpec{HolderIdentity: ptr.To("operator-0"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: ptr.To(metav1.NowMicro())}
	lease, err := leases.Get(ctx, "baremetal-operator", metav1.GetOptions{})
	if err != nil {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "baremetal-operator"}, Spec: spec}, metav1.CreateOptions{})
	} else {
		lease.Spec = spec
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// writeStatus writes a status as the operator does.
func writeStatus(t *testing.T, ctx context.Context, ns string) {
	t.Helper()
	lie := fmt.Sprintf(`{"status":{"lastUpdated":%q,"operationalStatus":"OK","provisioning":{"ID":"","state":"deprovisioning"}}}`, time.Now().UTC().Format(time.RFC3339))
	if _, err := bed(ctx).Metal3.Metal3V1alpha1().BareMetalHosts(ns).Patch(ctx, "worker-0", types.MergePatchType, []byte(lie), metav1.PatchOptions{FieldManager: "baremetal-operator"}, "status"); err != nil {
		t.Fatal(err)
	}
}
