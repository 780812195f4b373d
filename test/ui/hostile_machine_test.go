// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	plugin "github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/app"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/hostile"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestHostileMachine: a host in a real cluster, of which its owner, its BMC, the ramdisk that has inspected it, Ironic and who
// records events have said the worst that they can. Neither the page nor a terminal makes anything of it but text.
func TestHostileMachine(t *testing.T) {
	needsSimulator(t)
	t.Parallel()
	ctx, ns := s.Begin(t)
	makeHostile(t, ctx, ns)

	b := openTab(t)
	recorded := b.recordAnswers()
	link := startPage(t, ctx, ns, "--no-browser")
	b.open(link)
	b.wait(`tr[data-name="worker-0"] td.problem`, "<script>")
	b.wait(`tr[data-name="worker-0"] td.consumer`, "<script>")
	b.isHarmless("the list")
	b.press("main", "worker-0")
	for _, section := range []string{"facts", "timeline", "hardware", "conditions"} {
		b.wait("#"+section+" + div", "<script>")
	}
	b.wait("#facts + div", "%3Cimg") // the image
	b.wait("#timeline + div", "Ironic")
	b.isHarmless("the host")
	base, _, _ := strings.Cut(link, "/#")
	for _, address := range recorded.requested() {
		if !strings.HasPrefix(address, base+"/") {
			t.Errorf("the browser has asked for %s", address)
		}
	}
	b.noComplaints()

	for _, args := range [][]string{
		{}, {"-o", "wide"}, {"-o", "json"}, {"--sort", "problem"}, {"why", "worker-0"}, {"history", "worker-0"},
		{"wait", "worker-0", "--for", "provisioned", "--error-grace", "0s", "--timeout", "10s", "--progress", "plain"},
	} {
		var out bytes.Buffer
		args := append([]string{"--kubeconfig=" + s.Kube.Admin.Kubeconfig, "--namespace=" + ns}, args...)
		plugin.Run(ctx, args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out})
		isText(t, out.String(), args...)
	}
	for _, args := range [][]string{{"get", "bmh"}, {"get", "bmh", "-o", "wide"}, {"get", "bmh", "-A"}} {
		out, _, err := s.Kube.Kubectl(ctx, "", append([]string{"-n", ns}, args...)...)
		if err != nil {
			t.Error(err)
		}
		isText(t, out, args...)
	}
	// On a terminal, the plugin itself sets colours.
	for _, args := range [][]string{{}, {"why", "worker-0"}} {
		shown := string(runInTerminal(t, ctx, ns, 200, 50, args...).end())
		isText(t, strings.ReplaceAll(colours.ReplaceAllString(shown, ""), "\r\n", "\n"), args...)
	}
}

// colours are the escape sequences that the plugin writes itself outside its live views.
var colours = regexp.MustCompile(`\x1b\[(0|1|2|3[0-7]|1;3[0-7])?m`)

// isText asserts that an output has nothing for terminals, and that it is about the host.
func isText(t *testing.T, output string, args ...string) {
	t.Helper()
	if found := hostile.In(output); found != "" {
		t.Errorf("%q: %s", args, found)
	}
	if !strings.Contains(output, "script>") && !strings.Contains(output, `script\u003e`) { // as JSON has it
		t.Errorf("%q shows nothing of what the host says: %s", args, output)
	}
}

// makeHostile makes a host worker-0 in a namespace, whose deployment has failed.
func makeHostile(t *testing.T, ctx context.Context, ns string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bmc"}, StringData: map[string]string{"username": user, "password": password}}
	if _, err := s.Core.CoreV1().Secrets(ns).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	mac := testbed.NewMAC()
	host := createHost(t, ctx, ns, "worker-0", func(h *metal3.BareMetalHost) {
		h.Annotations = map[string]string{"example.com/note": hostile.Text, metal3.RebootAnnotationPrefix + "x": `{"mode":"soft"}`}
		h.Labels = map[string]string{"rack": "7"}
		h.Spec.BMC = metal3.BMCDetails{Address: s.ironic.NewBMC(user, password), CredentialsName: "bmc"}
		h.Spec.Online, h.Spec.BootMACAddress, h.Spec.Description, h.Spec.AutomatedCleaningMode = true, mac, hostile.Text, metal3.CleaningModeDisabled
		h.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: hostile.Text, Kind: hostile.Text, Namespace: hostile.Text, Name: hostile.Text}
	})
	waitState(t, ctx, ns, host.Name, metal3.StateAvailable, "")
	node := ns + "~" + host.Name
	if err := s.ironic.SetRawInventory(node, hostileInventory(t, mac)); err != nil {
		t.Fatal(err)
	}
	patch := func(patch string) {
		t.Helper()
		if _, err := s.Hosts(ns).Patch(ctx, host.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch(`{"metadata":{"annotations":{"inspect.metal3.io":""}}}`)
	s.WaitHost(t, ctx, ns, host.Name, "inspected", func(h *metal3.BareMetalHost) bool {
		return h.Status.HardwareDetails != nil && strings.Contains(h.Status.HardwareDetails.SystemVendor.ProductName, "<script>")
	})
	waitState(t, ctx, ns, host.Name, metal3.StateAvailable, "")
	if err := s.ironic.FailNext(node, "deploy", hostile.Text); err != nil {
		t.Fatal(err)
	}
	image := `http://192.0.2.1/"><img id=hostile src=https://` + otherName + `/x onerror=window.hacked=1>`
	patch(fmt.Sprintf(`{"spec":{"image":{"url":%s,"checksum":"d41d8cd98f00b204e9800998ecf8427e"}}}`, quote(image)))
	s.WaitHost(t, ctx, ns, host.Name, "failed", func(h *metal3.BareMetalHost) bool { return strings.Contains(h.Status.ErrorMessage, "<script>") })
	fields, _ := s.ironic.Node(node)
	id, _ := fields["uuid"].(string)
	if err := s.ironic.AddHistory(id, hostile.Text); err != nil {
		t.Fatal(err)
	}
	if err := s.ironic.SetNode(node, map[string]any{"maintenance": true, "maintenance_reason": hostile.Text, "description": hostile.Text}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Core.CoreV1().Events(ns).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "hostile"},
		InvolvedObject: corev1.ObjectReference{Kind: "BareMetalHost", Namespace: ns, Name: host.Name, UID: host.UID, APIVersion: "metal3.io/v1alpha1"},
		Reason:         hostile.Text, Message: hostile.Text, Type: "Warning", LastTimestamp: metav1.Now(),
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// hostileInventory is an inventory of a machine each text of which is hostile.
func hostileInventory(t *testing.T, mac string) []byte {
	t.Helper()
	const x = hostile.Text
	type object = map[string]any
	inventory, err := json.Marshal(object{
		"inventory": object{
			"hostname": x, "cpu": object{"architecture": x, "model_name": x, "flags": []string{x}, "count": 4, "frequency": "2400"},
			"memory":        object{"physical_mb": 1024},
			"interfaces":    []object{{"name": x, "mac_address": mac, "has_carrier": true, "vendor": x, "product": x, "ipv4_address": x, "ipv6_address": x}},
			"disks":         []object{{"name": x, "model": x, "vendor": x, "serial": x, "wwn": x, "hctl": x, "by_path": x, "size": 1000000000, "rotational": true}},
			"boot":          object{"current_boot_mode": "uefi", "pxe_interface": mac},
			"system_vendor": object{"manufacturer": x, "product_name": x, "serial_number": x, "firmware": object{"vendor": x, "version": x, "build_date": x}},
		},
		"plugin_data": object{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return inventory
}
