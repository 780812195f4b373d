// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// A host whose driver has no virtual media is switched on all the same, and its DataImage says why
// nothing is attached. It can be deleted at any time, as can one without a host.
func TestDataImageWithoutVirtualMedia(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	images := bed(ctx).Metal3.Metal3V1alpha1().DataImages(ns)
	gone := func(name string) {
		t.Helper()
		if err := images.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		testbed.Eventually(t, ctx, func() string {
			image, err := images.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return ""
			}
			return fmt.Sprintf("DataImage %s is still there: %+v, %v", name, image, err)
		})
	}
	b := startBMC(t, ctx)
	if err := b.SetPower(true); err != nil {
		t.Fatal(err)
	}
	createSecret(t, ctx, ns, "bmc", "admin", "password")
	createHost(t, ctx, ns, "worker-0", b.Address(), "bmc", "", func(h *metal3.BareMetalHost) { h.Spec.ExternallyProvisioned = true })
	for _, name := range []string{"worker-0", "no-host"} {
		image := &metal3.DataImage{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: metal3.DataImageSpec{URL: "http://images.example/data.iso"}}
		if _, err := images.Create(ctx, image, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	gone("no-host")
	is := func(on bool) func(*metal3.BareMetalHost) bool {
		return func(h *metal3.BareMetalHost) bool {
			return h.Status.Provisioning.State == metal3.StateExternallyProvisioned && h.Status.PoweredOn == on && h.Status.ErrorMessage == ""
		}
	}
	online := func(on bool) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"spec":{"online":%t}}`, on)
		if _, err := bed(ctx).Hosts(ns).Patch(ctx, "worker-0", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		bed(ctx).WaitHost(t, ctx, ns, "worker-0", fmt.Sprintf("on: %t", on), is(on))
	}
	bed(ctx).WaitHost(t, ctx, ns, "worker-0", "externally provisioned and on", is(true))
	online(false)
	online(true)
	image, err := images.Get(ctx, "worker-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if status := image.Status; !strings.Contains(status.Error.Message, "virtual media") && !strings.Contains(status.Error.Message, "too old") || status.AttachedImage.URL != "" {
		t.Errorf("the status is %+v", status)
	}
	t.Logf("the error is %q", image.Status.Error.Message)
	gone("worker-0")
}
