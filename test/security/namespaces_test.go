package security

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestCertainNamespaces: a server with --namespaces refuses hosts in others, and does nothing for
// those that are there already, which say why. They can still be read and changed.
func TestCertainNamespaces(t *testing.T) {
	t.Parallel()
	ctx, managed := s.Begin(t)
	other := makeNamespace(t, ctx, "not-managed-")
	password := newCanary("namespaces: the password")
	for _, ns := range []string{managed, other} {
		createSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": password.text})
	}
	newHost := func(name string) *metal3.BareMetalHost {
		return &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: metal3.BareMetalHostSpec{
			BMC: metal3.BMCDetails{Address: s.sim.NewBMC("admin", password.text), CredentialsName: "bmc"}, BootMACAddress: testbed.NewMAC(),
		}}
	}
	// No Ironic: the host of the other namespace is created before the flag is set.
	options := testbed.ServerOptions{IronicEndpoint: "http://127.0.0.1:1", EtcdServers: s.Kube.EtcdEndpoint, Args: []string{"--etcd-prefix=/registry/" + managed}}
	before, hosts := s.NewServer(t, ctx, managed, options)
	if err := before.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := hosts.Metal3V1alpha1().BareMetalHosts(other).Create(ctx, newHost("old"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := before.Stop(); err != nil {
		t.Fatal(err)
	}

	options.Args = append(options.Args, "--namespaces="+managed)
	server, hosts := s.NewServer(t, ctx, managed, options)
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	_, err := hosts.Metal3V1alpha1().BareMetalHosts(other).Create(ctx, newHost("new"), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.namespace") || strings.Contains(err.Error(), managed) {
		t.Errorf("a host in another namespace: %v, want a 422 about metadata.namespace that does not name the others", err)
	}
	if _, err := hosts.Metal3V1alpha1().BareMetalHosts(managed).Create(ctx, newHost("new"), metav1.CreateOptions{}); err != nil {
		t.Errorf("a host in the managed namespace: %v", err)
	}
	eventually(t, ctx, func() string {
		host, err := hosts.Metal3V1alpha1().BareMetalHosts(other).Get(ctx, "old", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if !strings.Contains(host.Status.ErrorMessage, "--namespaces") {
			return "the host does not say that it is not managed: " + host.Status.ErrorMessage
		}
		return ""
	})
	if _, err := hosts.Metal3V1alpha1().BareMetalHosts(other).Patch(ctx, "old", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null},"spec":{"description":"changed"}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("the host of another namespace cannot be changed: %v", err)
	}
	if err := hosts.Metal3V1alpha1().BareMetalHosts(other).Delete(ctx, "old", metav1.DeleteOptions{}); err != nil {
		t.Errorf("the host of another namespace cannot be deleted: %v", err)
	}
}
