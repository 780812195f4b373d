// SPDX-License-Identifier: Apache-2.0

package security

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestWrittenAddress: whose host runs something, and has had a BMC of its own verified, gets the address of another BMC while it is
// detached. Without the password of that one, it does not keep it from its owner.
func TestWrittenAddress(t *testing.T) {
	attack(t, "write hosts in one namespace, with a BMC of their own", "keep a BMC from its owner by its address alone")
	t.Parallel()
	ctx, ns := s.Begin(t)
	victim := makeNamespace(t, ctx, "victim-")
	their := newMachine(t, "theirs")
	s.CreateSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": "mine"})
	own := newMachine(t, "mine")
	createHost(t, ctx, ns, "squatter", own.address, "bmc", own.boots, isOff)
	waitHost(t, ctx, ns, "squatter", "externally provisioned", func(h *metal3.BareMetalHost) bool {
		return h.Status.Provisioning.State == metal3.StateExternallyProvisioned && h.Status.GoodCredentials.Reference != nil
	})
	change := func(patch string) {
		t.Helper()
		if _, err := s.Hosts(ns).Patch(ctx, "squatter", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	change(fmt.Sprintf(`{"metadata":{"annotations":{%q:""}}}`, metal3.DetachedAnnotation))
	waitHost(t, ctx, ns, "squatter", "detached", func(h *metal3.BareMetalHost) bool {
		return h.Status.OperationalStatus == metal3.OperationalStatusDetached
	})
	change(fmt.Sprintf(`{"metadata":{"annotations":{%q:null}},"spec":{"bmc":{"address":%q}}}`, metal3.DetachedAnnotation, their.address))
	waitHost(t, ctx, ns, "squatter", "refused by the BMC", func(h *metal3.BareMetalHost) bool {
		return h.Status.ErrorMessage != "" && h.Status.Ironic != nil && h.Status.Ironic.ProvisionState == "enroll"
	})

	s.CreateSecret(t, ctx, victim, "bmc", map[string]string{"username": "admin", "password": "theirs"})
	createHost(t, ctx, victim, "x", their.address, "bmc", their.boots)
	waitHost(t, ctx, victim, "x", "available", isAvailable)
}
