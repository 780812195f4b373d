// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestQuotaExceededBefore: hosts of a namespace that has more of them than its quota permits come over all the same. The
// quota goes on to count them, and to refuse more.
func TestQuotaExceededBefore(t *testing.T) {
	fleet := newFleet(t, 2)
	ctx, ns := t.Context(), fleet[0].ns
	before := uidsIn(t, ns)
	hosts := s.Metal3.Metal3V1alpha1().BareMetalHosts(ns)
	const count = corev1.ResourceName("count/baremetalhosts.metal3.io")
	quotas := s.Core.CoreV1().ResourceQuotas(ns)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "hosts"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{count: resource.MustParse("1")}}}
	if _, err := quotas.Create(ctx, quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	used := func(want string) {
		t.Helper()
		changes := 0
		eventually(t, func(ctx context.Context) error {
			quota, err := quotas.Get(ctx, "hosts", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got, known := quota.Status.Used[count]; known && got.String() == want {
				return nil
			}
			// The controller counts again when a quota has changed, and after five minutes.
			changes++
			_, err = quotas.Patch(ctx, "hosts", types.MergePatchType, []byte(fmt.Sprintf(`{"spec":{"hard":{"pods":"%d"}}}`, changes)), metav1.PatchOptions{})
			return fmt.Errorf("the quota counts %v, want %s hosts (%w)", quota.Status.Used, want, err)
		})
	}
	isExceeded := func(by string) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			_, err := hosts.Create(ctx, &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "more"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if want := "exceeded quota: hosts, requested: count/baremetalhosts.metal3.io=1, used: count/baremetalhosts.metal3.io=2, limited: count/baremetalhosts.metal3.io=1"; !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("%s, one host more: %w", by, err)
			}
			return nil
		})
	}
	used("2")
	isExceeded("with the CRDs")

	server := install(t, s.Kube.EtcdEndpoint)
	expectText(t, server.run(t, "import"), "all UIDs and contents are the same: 2 baremetalhosts, 2 hardwaredata")
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	expectText(t, server.run(t, "import", "--switch"), "served with the UIDs that they had, 2 baremetalhosts, 2 hardwaredata")
	expectUIDs(t, ns, before)
	isExceeded("with this server")
	if _, err := hosts.Patch(ctx, fleet[0].name, types.MergePatchType, []byte(`{"spec":{"description":"no new host"}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	used("2")
	if err := hosts.Delete(ctx, fleet[1].name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, ns, fleet[1].name)
	used("1")

	if _, err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	server.run(t, "export", "--prune")
	unlock(t, ns)
}
