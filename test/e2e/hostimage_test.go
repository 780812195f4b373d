// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Without the flag, nobody asks for images.
func TestNoImageUnlessAsked(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	fakeHost(t, ctx, ns, "worker-0")
	images, err := bed(ctx).Metal3.Metal3V1alpha1().PreprovisioningImages(ns).List(ctx, metav1.ListOptions{})
	if err != nil || len(images.Items) > 0 {
		t.Errorf("images %+v, %v", images.Items, err)
	}
}
