// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestNotGivenToHarm: a machine that this server leaves on, because nobody has said that it should be off, is not given to an operator
// that would switch it off.
func TestNotGivenToHarm(t *testing.T) {
	fleet := newFleet(t, 1)
	ctx, ns := t.Context(), fleet[0].ns
	hosts := s.Metal3.Metal3V1alpha1().BareMetalHosts(ns)
	server := install(t, s.Kube.EtcdEndpoint)
	server.run(t, "import")
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	server.run(t, "import", "--switch")

	const name = "external"
	address := s.ironic.NewBMC("root", "calvin")
	s.ironic.BMC(address).SetPower("power on")
	if _, err := s.Core.CoreV1().Secrets(ns).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-bmc"}, StringData: map[string]string{"username": "root", "password": "calvin"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := hosts.Create(ctx, &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: metal3.BareMetalHostSpec{
		ExternallyProvisioned: true, BootMACAddress: testbed.NewMAC(), BMC: metal3.BMCDetails{Address: address, CredentialsName: name + "-bmc"},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		host, err := hosts.Get(ctx, name, metav1.GetOptions{})
		if err == nil && (host.Status.Provisioning.State != metal3.StateExternallyProvisioned || !host.Status.PoweredOn) {
			err = fmt.Errorf("host %s is %s, and on: %v", name, host.Status.Provisioning.State, host.Status.PoweredOn)
		}
		return err
	})
	harm := "BareMetalHost " + ns + "/" + name + " would be switched off"
	server.refused(t, harm, "export", "--dry-run")
	if _, err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	server.refused(t, harm, "export")
	// Its Lease tells of an etcd in which more was counted: this one is a backup's, or empty.
	leases := s.Core.CoordinationV1().Leases(testbed.Namespace)
	count := func(count string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"metal3.io/etcd-count":%q}}}`, count)
		if _, err := leases.Patch(ctx, "metal3-apiserver", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	lease, err := leases.Get(ctx, "metal3-apiserver", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	count("1000000")
	server.refused(t, "that of the Lease 1000000", "export")
	count(lease.Annotations["metal3.io/etcd-count"])
	// Nothing has changed: the server goes on, and takes the correction.
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := hosts.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"online":true}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	server.run(t, "export")
	unlock(t, ns)
}
