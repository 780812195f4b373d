// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// The switch ports of a host are told to an Ironic that configures them. With any other, the host says what
// is missing, and is otherwise not held up.
func TestNetworkInterfaces(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	attachment := &metal3.HostNetworkAttachment{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}, Spec: metal3.HostNetworkAttachmentSpec{
		Mode: metal3.SwitchPortAccess, NativeVLAN: 10, // Ironic permits no other mode where a machine boots by PXE
	}}
	if _, err := bed(ctx).Metal3.Metal3V1alpha1().HostNetworkAttachments(ns).Create(ctx, attachment, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b, err := bed(ctx).ironic.StartBMC(ctx, "admin", "secret")
	if err != nil {
		t.Fatal(err)
	}
	createSecret(t, ctx, ns, "bmc", "admin", "secret")
	mac := testbed.NewMAC()
	createHost(t, ctx, ns, "worker-0", b.Address(), "bmc", mac, func(h *metal3.BareMetalHost) {
		h.Spec.NetworkInterfaces = []metal3.NetworkInterface{{
			MACAddress: mac, HostNetworkAttachment: &metal3.HostNetworkAttachmentRef{Name: "tenant"},
			SwitchPort: &metal3.SwitchPortIdentifier{SwitchID: "00:1b:21:aa:bb:cc", PortID: "Eth1"},
		}}
	})
	host := waitAvailable(t, ctx, ns, "worker-0")
	reason := func(want string) {
		t.Helper()
		bed(ctx).WaitHost(t, ctx, ns, "worker-0", "the condition has the reason "+want, func(h *metal3.BareMetalHost) bool {
			c := meta.FindStatusCondition(h.Status.Conditions, metal3.NetworkInterfacesValidCondition)
			return c == nil && want == "" || c != nil && c.Reason == want
		})
	}
	reason(metal3.NetworkingNotSupportedReason)
	switchport := func() string {
		t.Helper()
		var ports struct{ Ports []ironic.SwitchPort }
		if err := bed(ctx).ironic.Operator().Do(ctx, http.MethodGet, "/v1/ports?fields=address,extra,local_link_connection&node="+host.Status.Provisioning.ID, nil, &ports); err != nil {
			t.Fatal(err)
		}
		if len(ports.Ports) != 1 {
			t.Fatalf("ports %+v", ports)
		}
		text, err := json.Marshal([]any{ports.Ports[0].Link["port_id"], ports.Ports[0].Extra["switchport"]})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got := switchport(); got != "[null,null]" {
		t.Errorf("an Ironic that configures no switch ports was told %s", got)
	}
	sim, isSimulated := bed(ctx).ironic.(*simulated)
	if !isSimulated {
		return // Ironic's networking service would have to run, with a switch
	}
	// In maintenance, Ironic accepts what a port of an available node is connected to.
	if err := sim.SetNode(host.Status.Provisioning.ID, map[string]any{"network_interface": ironic.NetworkInterfaceNetworking, "maintenance": true}); err != nil {
		t.Fatal(err)
	}
	bed(ctx).PatchHost(t, ctx, ns, "worker-0", `{"spec":{"description":"with another network interface"}}`)
	reason(metal3.AllInterfacesValidReason)
	if got, want := switchport(), `["Eth1",{"mode":"access","native_vlan":10}]`; got != want {
		t.Errorf("Ironic was told %s, want %s", got, want)
	}
	bed(ctx).PatchHost(t, ctx, ns, "worker-0", `{"spec":{"networkInterfaces":null}}`)
	reason("")
	if got, want := switchport(), `["Eth1",null]`; got != want {
		t.Errorf("Ironic has %s, want %s", got, want)
	}
}
