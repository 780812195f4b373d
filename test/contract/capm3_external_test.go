// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestCAPM3ExternallyProvisioned: a machine on a host that something else has
// installed is never chosen, only found, and gives it back when it is off.
func TestCAPM3ExternallyProvisioned(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	c := newCAPM3(t, ctx, ns)
	managedHost(t, ctx, ns, "worker-0", withLabel("pool", "x"), func(h *metal3.BareMetalHost) {
		h.Spec.ExternallyProvisioned = true
		metav1.SetMetaDataLabel(&h.ObjectMeta, clusterNameLabel, "cluster-0")
		h.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3Machine", Namespace: ns, Name: "machine-0"}
	})
	host := c.until("worker-0", "running", func(h *metal3.BareMetalHost) bool {
		return h.Status.Provisioning.State == metal3.StateExternallyProvisioned && h.Status.PoweredOn
	})
	if chosen := c.choose("pool=x", ""); chosen != nil {
		t.Errorf("host %s can be chosen", chosen.Name)
	}
	c.took()
	if c.deprovision("worker-0", "") {
		t.Fatal("a running host was given back")
	}
	c.sent("switch it off", "GET baremetalhosts/worker-0", "GET secrets/worker-0-bmc", mergePatchOf("worker-0", `{"spec":{"online":false}}`))
	c.until("worker-0", "off", func(h *metal3.BareMetalHost) bool { return !h.Status.PoweredOn })
	if !c.deprovision("worker-0", "") {
		t.Error("the host that is off was not given back")
	}
	c.sent("give it back", "GET baremetalhosts/worker-0", "GET secrets/worker-0-bmc", mergePatchOf("worker-0", `{"metadata":{"labels":{"cluster.x-k8s.io/cluster-name":null}},"spec":{"consumerRef":null}}`))
	if after := c.get("worker-0"); after.Status.Provisioning.State != metal3.StateExternallyProvisioned || after.Spec.ConsumerRef != nil || after.Status.Provisioning.ID != host.Status.Provisioning.ID {
		t.Errorf("given back, it is %+v %+v", after.Spec, after.Status)
	}
}
