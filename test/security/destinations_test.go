package security

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestRequestsToLocalAddresses: by default, nobody can have Ironic connect to services of its own
// machine or to the metadata service of a cloud, by address or by a name for it.
func TestRequestsToLocalAddresses(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	server, hosts := s.NewServer(t, ctx, ns, testbed.ServerOptions{
		IronicEndpoint: s.ironic.server.URL, RefuseLocalAddresses: true,
		Args: []string{
			"--ironic-username-file=" + filepath.Join(filepath.Dir(s.audit), "username"),
			"--ironic-password-file=" + filepath.Join(filepath.Dir(s.audit), "password"),
			"--image-schemes=https,http,oci",
		},
	})
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	password := newCanary("destinations: the password")
	s.CreateSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": password.text})
	for port := range 4 {
		simulator(t).AddBMC(fmt.Sprintf("ipmi://203.0.113.77:%d", 6230+port), "admin", password.text)
	}
	client := hosts.Metal3V1alpha1().BareMetalHosts(ns)
	for i, test := range []struct{ bmc, image, says string }{
		{"redfish+http://169.254.169.254/latest/meta-data", "", "spec.bmc.address: "},
		{"redfish://localhost:6385/v1/nodes", "", "spec.bmc.address: "},
		{"ipmi://0x7f000001", "", "spec.bmc.address: "},
		{"ipmi://203.0.113.77:6230", "http://169.254.169.254/latest/meta-data", "spec.image.url: "},
		{"ipmi://203.0.113.77:6231", "http://localhost:6385/v1/nodes", "spec.image.url: "},
		{"ipmi://203.0.113.77:6232", "http://2130706433/", "spec.image.url: "},
		{"ipmi://203.0.113.77:6233", "ftp://192.0.2.1/", "spec.image.url: "},
	} {
		name := fmt.Sprintf("host-%d", i)
		host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: metal3.BareMetalHostSpec{
			Online: true, BMC: metal3.BMCDetails{Address: test.bmc, CredentialsName: "bmc"}, BootMACAddress: testbed.NewMAC(),
			AutomatedCleaningMode: metal3.CleaningModeDisabled,
		}}
		if test.image != "" {
			format := metal3.LiveISO
			host.Spec.Image = &metal3.Image{URL: test.image, DiskFormat: &format}
		}
		if _, err := client.Create(ctx, host, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, ctx, func() string {
			host, err := client.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if message := host.Status.ErrorMessage; !strings.HasPrefix(message, test.says) || !strings.Contains(message, "not allowed") {
				return fmt.Sprintf("%v: the error is %q", test, message)
			}
			return ""
		})
	}
	if sent := s.ironic.all(); strings.Contains(sent, "169.254.169.254") || strings.Contains(sent, "2130706433") {
		t.Error("Ironic was sent an address that is not allowed")
	}
}

// TestURLPolicy applies the component restrict-urls, as it is, to one namespace.
func TestURLPolicy(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	repo, err := testbed.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string, into any) {
		content, err := os.ReadFile(filepath.Join(repo, "artifacts/apiservice/components/restrict-urls", name))
		if err == nil {
			err = yaml.UnmarshalStrict(content, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	createHost(t, ctx, ns, "from-before", "ipmi://169.254.0.1", "bmc", func(spec *metal3.BareMetalHostSpec) { spec.Image = testImage.DeepCopy() })
	var policy admissionv1.ValidatingAdmissionPolicy
	var binding admissionv1.ValidatingAdmissionPolicyBinding
	read("validatingadmissionpolicy.yaml", &policy)
	read("validatingadmissionpolicybinding.yaml", &binding)
	binding.Spec.MatchResources = &admissionv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ns}},
	}
	admission := s.Core.AdmissionregistrationV1()
	if _, err := admission.ValidatingAdmissionPolicies().Create(ctx, &policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admission.ValidatingAdmissionPolicyBindings().Create(ctx, &binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client := s.Hosts(ns)
	create := func(address, image, checksum string) error {
		host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}, Spec: metal3.BareMetalHostSpec{
			BMC: metal3.BMCDetails{Address: address, CredentialsName: "bmc"}, BootMACAddress: testbed.NewMAC(),
		}}
		if image != "" {
			host.Spec.Image = &metal3.Image{URL: image, Checksum: checksum}
		}
		_, err := client.Create(ctx, host, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	eventually(t, ctx, func() string {
		if err := create("redfish://127.0.0.1/redfish/v1/Systems/1", "", ""); err == nil {
			return "the policy has no effect yet"
		}
		return ""
	})
	const good = "redfish://192.0.2.1/redfish/v1/Systems/1"
	for _, test := range []struct{ bmc, image, checksum, refused string }{
		{"", "", "", ""},
		{good, "", "", ""},
		{"redfish://[2001:db8::1]:8443/redfish/v1/Systems/1", "oci://registry.example.com/a:b", "", ""},
		{good, "https://images.example.com/a", "d41d8cd98f00b204e9800998ecf8427e", ""},
		{good, "https://images.example.com/a", "https://images.example.com/sums", ""},
		{"redfish+http://192.0.2.1/redfish/v1/Systems/1", "", "", "spec.bmc.address"},
		{"192.0.2.1", "", "", "spec.bmc.address"},
		{"redfish://[::1]/redfish/v1/Systems/1", "", "", "spec.bmc.address"},
		{good, "http://images.example.com/a", "x", "spec.image.url"},
		{good, "https://169.254.169.254/a", "x", "spec.image.url"},
		{good, "https://images.example.com/a", "http://images.example.com/sums", "spec.image.checksum"},
		{good, "https://images.example.com/a", "https://127.0.0.1/sums", "spec.image.checksum"},
	} {
		err := create(test.bmc, test.image, test.checksum)
		switch {
		case test.refused == "" && err != nil:
			t.Errorf("%v: %v", test, err)
		case test.refused != "" && (!apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), test.refused)):
			t.Errorf("%v: %v, want a refusal because of %s", test, err, test.refused)
		}
	}
	patch := func(content string) error {
		_, err := client.Patch(ctx, "from-before", types.MergePatchType, []byte(content), metav1.PatchOptions{})
		return err
	}
	if err := patch(`{"spec":{"online":false},"metadata":{"finalizers":null}}`); err != nil {
		t.Errorf("a host from before cannot be changed: %v", err)
	}
	if err := patch(`{"spec":{"image":{"url":"http://192.0.2.2/"}}}`); err == nil {
		t.Error("a host from before gets another URL that is not allowed")
	}
}
