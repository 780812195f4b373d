// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestRequestsToLocalAddresses: by default, nobody can have Ironic connect to services of its own
// machine or to the metadata service of a cloud, by address or by a name for it.
func TestRequestsToLocalAddresses(t *testing.T) {
	attack(t, "write hosts in one namespace", "have Ironic connect to loopback and link-local addresses")
	t.Parallel()
	ctx, ns := s.Begin(t)
	server, hosts := s.NewServer(t, ctx, ns, testbed.ServerOptions{
		IronicEndpoint: s.ironic.server.URL, RefuseLocalAddresses: true,
		Args: []string{
			"--ironic-username-file=" + filepath.Join(filepath.Dir(s.audit), "username"),
			"--ironic-password-file=" + filepath.Join(filepath.Dir(s.audit), "password"),
			"--image-schemes=http", "--clean-steps=management.update_firmware",
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
	for port := range 7 {
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
		{"ipmi://203.0.113.77:6233", "https://192.0.2.1/", "spec.image.url: "},
		{"ipmi://203.0.113.77:6236", "http://[::%251]:6385/v1/nodes", "spec.image.url: "},
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
			if message := host.Status.ErrorMessage; !strings.Contains(message, test.says) || !strings.Contains(message, "not allowed") {
				return fmt.Sprintf("%v: the error is %q", test, message)
			}
			return ""
		})
	}
	cleanNotAllowed(t, ctx, hosts, ns, "ipmi://203.0.113.77:6234")
	movedNotAllowed(t, ctx, hosts, ns, "ipmi://203.0.113.77:6235")
	subscriptionNotAllowed(t, ctx, hosts, ns)
	if sent := s.ironic.all(); strings.Contains(sent, "169.254.169.254") || strings.Contains(sent, "2130706433") {
		t.Error("Ironic was sent an address that is not allowed")
	}
}

// cleanNotAllowed: a step that the administrator has allowed fetches nothing from there.
func cleanNotAllowed(t *testing.T, ctx context.Context, hosts versioned.Interface, ns, address string) {
	t.Helper()
	client := hosts.Metal3V1alpha1()
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "cleaned"}, Spec: metal3.BareMetalHostSpec{
		BMC: metal3.BMCDetails{Address: address, CredentialsName: "bmc"}, BootMACAddress: testbed.NewMAC(), InspectionMode: metal3.InspectionModeDisabled,
	}}
	if _, err := client.BareMetalHosts(ns).Create(ctx, host, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	says := func(wanted func(*metal3.BareMetalHost) bool) {
		t.Helper()
		eventually(t, ctx, func() string {
			host, err := client.BareMetalHosts(ns).Get(ctx, "cleaned", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if !wanted(host) {
				return fmt.Sprintf("the host is %s, with error %q", host.Status.Provisioning.State, host.Status.ErrorMessage)
			}
			return ""
		})
	}
	says(isAvailable)
	clean := &metal3.HostClean{Spec: metal3.HostCleanSpec{Steps: []metal3.CleanStep{{
		Interface: "management", Step: "update_firmware", Args: &runtime.RawExtension{Raw: []byte(`{"firmware_images":[{"url":"http://169.254.169.254/firmware"}]}`)},
	}}}}
	if err := client.RESTClient().Post().Namespace(ns).Resource("baremetalhosts").Name("cleaned").SubResource("clean").Body(clean).Do(ctx).Error(); err != nil {
		t.Fatal(err)
	}
	says(func(host *metal3.BareMetalHost) bool {
		return strings.Contains(host.Status.ErrorMessage, "arguments of the clean step management.update_firmware: the host 169.254.169.254 ")
	})
}

// movedNotAllowed: Ironic is not told either what a host that was moved here says that it runs.
func movedNotAllowed(t *testing.T, ctx context.Context, hosts versioned.Interface, ns, address string) {
	t.Helper()
	client := hosts.Metal3V1alpha1().BareMetalHosts(ns)
	image := metal3.Image{URL: "http://169.254.169.254/latest/meta-data", Checksum: "d41d8cd98f00b204e9800998ecf8427e"}
	status, err := json.Marshal(metal3.BareMetalHostStatus{
		OperationalStatus: metal3.OperationalStatusOK, Provisioning: metal3.ProvisionStatus{State: metal3.StateProvisioned, Image: image},
	})
	if err != nil {
		t.Fatal(err)
	}
	host := &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Name: "moved", Annotations: map[string]string{metal3.StatusAnnotation: string(status)}},
		Spec: metal3.BareMetalHostSpec{
			Online: true, BMC: metal3.BMCDetails{Address: address, CredentialsName: "bmc"}, BootMACAddress: testbed.NewMAC(), Image: &image,
		},
	}
	if _, err := client.Create(ctx, host, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, func() string {
		host, err := client.Get(ctx, "moved", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if message := host.Status.ErrorMessage; !strings.Contains(message, "status.provisioning.image.url: the host 169.254.169.254 ") {
			return fmt.Sprintf("the error is %q", message)
		}
		return ""
	})
}

// subscriptionNotAllowed: no BMC sends events there.
func subscriptionNotAllowed(t *testing.T, ctx context.Context, hosts versioned.Interface, ns string) {
	t.Helper()
	client := hosts.Metal3V1alpha1().BMCEventSubscriptions(ns)
	subscription := &metal3.BMCEventSubscription{ObjectMeta: metav1.ObjectMeta{Name: "alerts"}, Spec: metal3.BMCEventSubscriptionSpec{
		HostName: "cleaned", Destination: "http://169.254.169.254/events",
	}}
	if _, err := client.Create(ctx, subscription, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, func() string {
		subscription, err := client.Get(ctx, "alerts", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if message := subscription.Status.Error; !strings.HasPrefix(message, "spec.destination: the host 169.254.169.254 ") {
			return fmt.Sprintf("the error is %q", message)
		}
		return ""
	})
}

// TestCleanSteps: whoever may clean can neither install firmware nor change settings, and can have nothing
// read from the disk of Ironic's machine.
func TestCleanSteps(t *testing.T) {
	attack(t, "create cleans in one namespace", "install firmware, change RAID or BIOS settings, read files of the conductor")
	t.Parallel()
	ctx, ns := s.Begin(t)
	createHost(t, ctx, ns, "x", "ipmi://192.0.2.77", "bmc")
	cleaner := throughKube(t, user(t, "cleaner"))
	grant(t, ctx, ns, person{name: "cleaner", role: "metal3-baremetalhosts-clean", probe: "create baremetalhosts/clean"})
	send := func(steps string) answer {
		return cleaner.mustDo(t, ctx, http.MethodPost, groupVersion+"/namespaces/"+ns+"/baremetalhosts/x/clean", "application/json", `{"spec":{"steps":[`+steps+`]}}`)
	}
	const name, args = "spec.steps[0].step", "spec.steps[0].args"
	for _, test := range []struct{ step, field string }{
		{`{"interface":"management","step":"update_firmware","args":{"firmware_images":[{"url":"https://192.0.2.1/x"}]}}`, name},
		{`{"interface":"bios","step":"factory_reset"}`, name},
		{`{"interface":"bios","step":"apply_configuration"}`, name},
		{`{"interface":"raid","step":"create_configuration"}`, name},
		{`{"interface":"firmware","step":"update"}`, name},
		{`{"interface":"management","step":"reset_idrac"}`, name},
		{`{"interface":"deploy","step":"something_new"}`, name},
		{`{"interface":"deploy","step":"erase_devices","args":{"a":"file:///etc/passwd"}}`, args + ".a"},
		{`{"interface":"deploy","step":"erase_devices","args":{"a":[{"b":"file:/etc/passwd"}]}}`, args + ".a[0].b"},
		{`{"interface":"deploy","step":"erase_devices","args":{"a":" \tFILE:/etc/passwd"}}`, args + ".a"},
		{`{"interface":"deploy","step":"erase_devices","args":{"a":"http://user:secret@192.0.2.1/"}}`, args + ".a"},
		{`{"interface":"deploy","step":"erase_devices","args":{"file:///etc/passwd":1}}`, args},
	} {
		got := send(test.step)
		status, err := got.status()
		if err != nil || got.code != http.StatusUnprocessableEntity || status.Details == nil || len(status.Details.Causes) != 1 || status.Details.Causes[0].Field != test.field || strings.Contains(got.body, "secret") {
			t.Errorf("%s: %d %s, want a refusal of %s", test.step, got.code, got.body, test.field)
		}
	}
	// The host is not registered.
	if got := send(`{"interface":"deploy","step":"erase_devices","args":{"from":"https://192.0.2.1/a"}}`); got.code != http.StatusConflict {
		t.Errorf("a harmless step: %d %s", got.code, got.body)
	}
}
