// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
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

// applyURLPolicy applies the component restrict-urls to one namespace, with other lists in the
// variables of these names, and waits until it has an effect.
func applyURLPolicy(t *testing.T, ctx context.Context, ns string, lists map[string]string) {
	t.Helper()
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
	var policy admissionv1.ValidatingAdmissionPolicy
	var binding admissionv1.ValidatingAdmissionPolicyBinding
	read("validatingadmissionpolicy.yaml", &policy)
	read("validatingadmissionpolicybinding.yaml", &binding)
	policy.Name, binding.Name, binding.Spec.PolicyName = ns, ns, ns
	for i, variable := range policy.Spec.Variables {
		if list, has := lists[variable.Name]; has {
			policy.Spec.Variables[i].Expression = list
		}
	}
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
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		if err := errors.Join(
			admission.ValidatingAdmissionPolicyBindings().Delete(ctx, ns, metav1.DeleteOptions{}),
			admission.ValidatingAdmissionPolicies().Delete(ctx, ns, metav1.DeleteOptions{}),
		); err != nil {
			t.Error(err)
		}
	})
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}, Spec: metal3.BareMetalHostSpec{
		BMC: metal3.BMCDetails{Address: "redfish://127.0.0.1/redfish/v1/Systems/1", CredentialsName: "bmc"}, BootMACAddress: testbed.NewMAC(),
	}}
	eventually(t, ctx, func() string {
		if _, err := s.Hosts(ns).Create(ctx, host, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err == nil {
			return "the policy has no effect yet"
		}
		return ""
	})
}

// TestURLPolicyOfAllKinds: the component restrict-urls refuses URLs wherever users can write them, also where a
// host gets them by the server's own hand, which no policy on hosts sees.
func TestURLPolicyOfAllKinds(t *testing.T) {
	attack(t, "write all kinds in one namespace", "write URLs that the component restrict-urls refuses, into any kind or action")
	t.Parallel()
	ctx, ns := s.Begin(t)
	createHost(t, ctx, ns, "x", "ipmi://192.0.2.9", "none") // without its Secret, it never has a node, which Ironic may lock
	master := throughKube(t, user(t, "master", "system:masters"))
	path := groupVersion + "/namespaces/" + ns + "/"
	if made := master.mustDo(t, ctx, http.MethodPost, path+"preprovisioningimages", "application/json", `{"metadata":{"name":"built"},"spec":{}}`); made.code != http.StatusCreated {
		t.Fatalf("%d %s", made.code, made.body)
	}
	applyURLPolicy(t, ctx, ns, map[string]string{"imageHosts": "['images.example.com', '.mirror.example.com']", "eventHosts": "['events.example.com']"})
	object := func(spec string) string { return `{"metadata":{"name":"new"},"spec":` + spec + `}` }
	moved := func(url string) string {
		status, err := json.Marshal(metal3.BareMetalHostStatus{
			ErrorMessage: "http://elsewhere.example.com/ is not read", Provisioning: metal3.ProvisionStatus{State: metal3.StateProvisioned, Image: metal3.Image{URL: url, Checksum: "x"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(status)
	}
	annotated := func(status string) string {
		encoded, err := json.Marshal(status)
		if err != nil {
			t.Fatal(err)
		}
		return `{"metadata":{"name":"new","annotations":{"` + metal3.StatusAnnotation + `":` + string(encoded) + `}},"spec":{"online":true}}`
	}
	for name, test := range map[string]struct {
		method, path string
		// body returns a request with a URL.
		body func(url string) string
		// host is the one that is allowed; field is what a refusal names.
		host, field string
	}{
		"host": {http.MethodPost, "baremetalhosts", func(url string) string { return object(`{"online":true,"image":{"url":"` + url + `","checksum":"x"}}`) }, "images.example.com", "spec.image.url"},
		"checksum": {http.MethodPost, "baremetalhosts", func(url string) string {
			return object(`{"online":true,"image":{"url":"https://images.example.com/a","checksum":"` + url + `"}}`)
		}, "a.mirror.example.com", "spec.image.checksum"},
		"moved host": {http.MethodPost, "baremetalhosts", func(url string) string { return annotated(moved(url + "?a&b<c>")) }, "images.example.com", "metadata.annotations"},
		"claim": {http.MethodPost, "hostclaims", func(url string) string {
			return object(`{"poweredOn":true,"image":{"url":"` + url + `","checksum":"x"},"hostSelector":{}}`)
		}, "images.example.com", "spec.image.url"},
		"claim, checksum": {http.MethodPost, "hostclaims", func(url string) string {
			return object(`{"poweredOn":true,"image":{"url":"https://images.example.com/a","checksum":"` + url + `"},"hostSelector":{}}`)
		}, "images.example.com", "spec.image.checksum"},
		"data image": {http.MethodPost, "dataimages", func(url string) string { return object(`{"url":"` + url + `"}`) }, "images.example.com", "spec.url"},
		"firmware": {http.MethodPost, "hostfirmwarecomponents", func(url string) string {
			return object(`{"updates":[{"component":"bios","url":"https://images.example.com/a"},{"component":"bmc","url":"` + url + `"}]}`)
		}, "images.example.com", "spec.updates.url"},
		"subscription": {http.MethodPost, "bmceventsubscriptions", func(url string) string { return object(`{"hostName":"x","destination":"` + url + `"}`) }, "events.example.com", "spec.destination"},
		"built image":  {http.MethodPatch, "preprovisioningimages/built/status", func(url string) string { return `{"status":{"imageUrl":"` + url + `"}}` }, "images.example.com", "status.imageUrl"},
		"built kernel": {http.MethodPatch, "preprovisioningimages/built/status", func(url string) string { return `{"status":{"kernelUrl":"` + url + `"}}` }, "images.example.com", "status.kernelUrl"},
		"clean step": {http.MethodPost, "baremetalhosts/x/clean", func(url string) string {
			return `{"spec":{"steps":[{"interface":"deploy","step":"erase_devices","args":{"a":[{"b":"` + url + `"}]}}]}}`
		}, "images.example.com", "spec.steps.args"},
	} {
		t.Run(name, func(t *testing.T) {
			send := func(url string) answer {
				contentType := "application/json"
				if test.method == http.MethodPatch {
					contentType = "application/merge-patch+json"
				}
				return master.mustDo(t, ctx, test.method, path+test.path+"?dryRun=All", contentType, test.body(url))
			}
			// The host of the clean has no node.
			if got := send("https://" + test.host + "/a"); got.code != http.StatusCreated && got.code != http.StatusOK && got.code != http.StatusConflict {
				t.Errorf("an allowed URL: %d %s", got.code, got.body)
			}
			for _, url := range []string{"http://" + test.host + "/a", "https://elsewhere.example.com/a", "https://" + test.host + ".example.net/a", "https://169.254.169.254/a", "https://[::1]/a"} {
				if got := send(url); got.code != http.StatusUnprocessableEntity || !strings.Contains(got.body, test.field+": ") || !strings.Contains(got.body, "ValidatingAdmissionPolicy") {
					t.Errorf("%s: %d %s, want a refusal of %s", url, got.code, got.body, test.field)
				}
			}
		})
	}
	status := `{"status":{"provisioning":{"image":{"url":"https://elsewhere.example.com/a"}}}}`
	if got := master.mustDo(t, ctx, http.MethodPatch, path+"baremetalhosts/x/status?dryRun=All", "application/merge-patch+json", status); got.code != http.StatusOK || strings.Contains(got.body, "elsewhere") {
		t.Errorf("the image in a status, which is not the user's: %d %s", got.code, got.body)
	}
	for _, status := range []string{
		strings.Replace(moved("https://images.example.com/a"), "images", `\u0065`, 1), strings.Replace(moved("https://images.example.com/a"), "https://", `https:\/\/`, 1),
	} {
		if got := master.mustDo(t, ctx, http.MethodPost, path+"baremetalhosts?dryRun=All", "application/json", annotated(status)); got.code != http.StatusUnprocessableEntity || !strings.Contains(got.body, "metadata.annotations: ") {
			t.Errorf("%s: %d %s", status, got.code, got.body)
		}
	}
}

// TestURLPolicy: the component restrict-urls refuses hosts.
func TestURLPolicy(t *testing.T) {
	attack(t, "write hosts in one namespace", "write URLs that the component restrict-urls refuses")
	t.Parallel()
	ctx, ns := s.Begin(t)
	createHost(t, ctx, ns, "from-before", "ipmi://169.254.0.1", "bmc", func(spec *metal3.BareMetalHostSpec) { spec.Image = testImage.DeepCopy() })
	applyURLPolicy(t, ctx, ns, nil)
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
		{"redfish://[::%251]/redfish/v1/Systems/1", "", "", "spec.bmc.address"},
		{good, "https://[::%251]/a", "d41d8cd98f00b204e9800998ecf8427e", "spec.image.url"},
		{good, "https://224.0.0.1/a", "d41d8cd98f00b204e9800998ecf8427e", "spec.image.url"},
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
