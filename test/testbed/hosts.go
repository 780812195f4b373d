// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	typed "github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned/typed/metal3/v1alpha1"
)

// Hosts returns an administrator's client of the hosts in a namespace.
func (s *Suite) Hosts(namespace string) typed.BareMetalHostInterface {
	return s.Metal3.Metal3V1alpha1().BareMetalHosts(namespace)
}

// GetHost reads a host.
func (s *Suite) GetHost(t *testing.T, ctx context.Context, namespace, name string) *metal3.BareMetalHost {
	t.Helper()
	host, err := s.Hosts(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return host
}

// PatchHost sends a JSON merge patch and returns the host as it is afterwards.
func (s *Suite) PatchHost(t *testing.T, ctx context.Context, namespace, name, patch string, subresources ...string) *metal3.BareMetalHost {
	t.Helper()
	host, err := s.Hosts(namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	if err != nil {
		t.Fatal(err)
	}
	return host
}

// DeleteHost asks for the deletion of a host.
func (s *Suite) DeleteHost(t *testing.T, ctx context.Context, namespace, name string) {
	t.Helper()
	if err := s.Hosts(namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// WaitHost reads a host until it is as wanted. Each read asks Ironic. After Patience, the test fails and shows how the host
// was at last.
func (s *Suite) WaitHost(t *testing.T, ctx context.Context, namespace, name string, what string, wanted func(*metal3.BareMetalHost) bool) *metal3.BareMetalHost {
	t.Helper()
	var host *metal3.BareMetalHost
	Eventually(t, ctx, func() string {
		var err error
		if host, err = s.Hosts(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		if wanted(host) {
			return ""
		}
		status := host.Status
		return fmt.Sprintf("host %s/%s not: %s; it is %s %q, on %t, error %q, Ironic %+v, conditions %+v", namespace, name, what,
			status.Provisioning.State, status.OperationalStatus, status.PoweredOn, status.ErrorMessage, status.Ironic, status.Conditions)
	})
	return host
}

// CreateSecret creates a Secret of the type Opaque.
func (s *Suite) CreateSecret(t *testing.T, ctx context.Context, namespace, name string, data map[string]string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeOpaque, StringData: data}
	created, err := s.Core.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}
