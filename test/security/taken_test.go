package security

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestAdoptedNodesAreNotTaken: a node that an operator has made without a name is named and
// marked when a host takes it over. Who creates a host with the MAC address of one of its
// ports does not get it, and learns neither its UUID nor whose it is.
func TestAdoptedNodesAreNotTaken(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	victim := makeNamespace(t, ctx, "victim-")
	mac, address := testbed.NewMAC(), s.sim.NewBMC("admin", "theirs")
	host, port, _ := strings.Cut(strings.TrimPrefix(address, "ipmi://"), ":")
	node, err := s.sim.CreateNode(map[string]any{"driver": "ipmi", "driver_info": map[string]any{
		"ipmi_address": host, "ipmi_port": port, "ipmi_username": "admin", "ipmi_password": "theirs",
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.sim.CreatePort(node, mac); err != nil {
		t.Fatal(err)
	}
	createSecret(t, ctx, victim, "bmc", map[string]string{"username": "admin", "password": "theirs"})
	createHost(t, ctx, victim, "x", address, "bmc", func(spec *metal3.BareMetalHostSpec) { spec.BootMACAddress = mac })
	theirs := waitHost(t, ctx, victim, "x", "available", isAvailable)
	if theirs.Status.Provisioning.ID != node {
		t.Fatalf("the host has node %s, not %s", theirs.Status.Provisioning.ID, node)
	}
	fields, _ := s.sim.Node(node)
	if extra, _ := fields["extra"].(map[string]any); fields["name"] != victim+"~x" || extra["metal3_apiserver_host"] != string(theirs.UID) {
		t.Errorf("the node is named %v and marked %v", fields["name"], fields["extra"])
	}

	createSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": "mine"})
	createHost(t, ctx, ns, "thief", s.sim.NewBMC("admin", "mine"), "bmc", func(spec *metal3.BareMetalHostSpec) { spec.BootMACAddress = mac })
	thief := waitHost(t, ctx, ns, "thief", "refused", func(h *metal3.BareMetalHost) bool { return h.Status.ErrorType == metal3.RegistrationError })
	for _, secret := range []string{node, victim} {
		if strings.Contains(thief.Status.ErrorMessage, secret) {
			t.Errorf("a stranger is told %q", thief.Status.ErrorMessage)
		}
	}
	if now, _ := s.sim.Node(node); now["driver_info"].(map[string]any)["ipmi_port"] != port {
		t.Errorf("the node's driver_info is %v", now["driver_info"])
	}
}

// TestStatusDoesNotAllowDestruction: who may write statuses cannot confirm a node by that.
func TestStatusDoesNotAllowDestruction(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	createSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": "mine"})
	createHost(t, ctx, ns, "x", s.sim.NewBMC("admin", "mine"), "bmc")
	waitHost(t, ctx, ns, "x", "available", isAvailable)
	patch := `{"status":{"deployment":{"nodeUUID":"x","instanceUUID":"y"},"takeover":{"time":"2026-01-01T00:00:00Z","nodeUUID":"x"}}}`
	if _, err := s.Metal3.Metal3V1alpha1().BareMetalHosts(ns).Patch(ctx, "x", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	host, err := s.Metal3.Metal3V1alpha1().BareMetalHosts(ns).Get(ctx, "x", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if host.Status.Deployment != nil || host.Status.Takeover != nil {
		t.Errorf("recorded: %+v, %+v", host.Status.Deployment, host.Status.Takeover)
	}
}
