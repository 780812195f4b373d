// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestClientGoNamespaceDeletion: a namespace full of hosts is deleted while Ironic
// is away. Hosts that have a node wait for Ironic, and the namespace says for what
// it waits; hosts without one go, and so does any other namespace. When Ironic is
// back, all of it goes. It stops what others use, so it does not run beside them.
func TestClientGoNamespaceDeletion(t *testing.T) {
	const n = 50
	ctx, full := s.Begin(t)
	_, other := s.Begin(t)
	var created sync.WaitGroup
	for i := range n {
		created.Go(func() {
			managedHost(t, ctx, full, fmt.Sprintf("worker-%02d", i), func(h *metal3.BareMetalHost) { h.Spec.Online = false })
		})
	}
	created.Wait()
	for i := range 3 {
		if _, err := s.Hosts(other).Create(ctx, &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("unmanaged-%d", i)}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	comes(t, ctx, func() string {
		list, err := s.Hosts(full).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		left := slices.DeleteFunc(list.Items, func(h metal3.BareMetalHost) bool { return isAvailable(&h) })
		if len(left) == 0 {
			return ""
		}
		return fmt.Sprintf("%d hosts are not available; one is %+v", len(left), left[0].Status)
	})
	nodes := s.ironic.NodeUUIDs()

	s.ironic.RefuseConnections()
	back := sync.OnceFunc(func() {
		if err := s.ironic.AcceptConnections(); err != nil {
			t.Error(err)
		}
	})
	defer back()
	for _, ns := range []string{full, other} {
		if err := s.Core.CoreV1().Namespaces().Delete(ctx, ns, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	comes(t, ctx, func() string {
		_, err := s.Core.CoreV1().Namespaces().Get(ctx, other, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("namespace %s, whose hosts have no node, is not gone: %v", other, err)
	})
	comes(t, ctx, func() string {
		ns, err := s.Core.CoreV1().Namespaces().Get(ctx, full, metav1.GetOptions{})
		if err != nil {
			t.Fatalf("the namespace with %d hosts went without Ironic: %v", n, err)
		}
		return stillHasHosts(ns, n)
	})
	list, err := s.Hosts(full).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range list.Items {
		if host.DeletionTimestamp.IsZero() || !slices.Contains(host.Finalizers, metal3.BareMetalHostFinalizer) || host.Status.Provisioning.ID == "" {
			t.Errorf("host %s, which has a node, is %+v", host.Name, host.ObjectMeta)
		}
	}
	if len(list.Items) != n {
		t.Errorf("%d hosts are left, want %d", len(list.Items), n)
	}
	back()
	comes(t, ctx, func() string {
		ns, err := s.Core.CoreV1().Namespaces().Get(ctx, full, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("namespace %s is not gone: %v %+v", full, err, ns.Status.Conditions)
	})
	left := s.ironic.NodeUUIDs()
	for _, host := range list.Items {
		if id := host.Status.Provisioning.ID; slices.Contains(left, id) || !slices.Contains(nodes, id) {
			t.Errorf("the node of host %s is %s; in Ironic before: %t, after: %t", host.Name, id, slices.Contains(nodes, id), slices.Contains(left, id))
		}
	}
}

// stillHasHosts complains unless a namespace that is being deleted says that hosts
// and their finalizers keep it, and that nothing went wrong with that.
func stillHasHosts(ns *corev1.Namespace, n int) string {
	want := map[corev1.NamespaceConditionType]corev1.ConditionStatus{
		corev1.NamespaceDeletionDiscoveryFailure: corev1.ConditionFalse,
		corev1.NamespaceDeletionContentFailure:   corev1.ConditionFalse,
		corev1.NamespaceDeletionGVParsingFailure: corev1.ConditionFalse,
		corev1.NamespaceContentRemaining:         corev1.ConditionTrue,
		corev1.NamespaceFinalizersRemaining:      corev1.ConditionTrue,
	}
	found := 0
	for _, c := range ns.Status.Conditions {
		if want[c.Type] == c.Status {
			found++
		}
		if c.Type == corev1.NamespaceContentRemaining && !strings.Contains(c.Message, fmt.Sprintf("baremetalhosts.metal3.io has %d resource instances", n)) ||
			c.Type == corev1.NamespaceFinalizersRemaining && !strings.Contains(c.Message, metal3.BareMetalHostFinalizer+" in ") {
			return fmt.Sprintf("condition %s says %q", c.Type, c.Message)
		}
	}
	if found < len(want) {
		return fmt.Sprintf("conditions are %+v", ns.Status.Conditions)
	}
	return ""
}
