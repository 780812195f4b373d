// SPDX-License-Identifier: Apache-2.0

package hostnetwork

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// world is one host with one port.
type world struct {
	enginetest.NoObjects
	host        *metal3.BareMetalHost
	attachments map[string]*metal3.HostNetworkAttachment
	network     string // the network interface of the node
	port        ironic.SwitchPort
	refusal     error
	updates     int
	unproven    string // why the node is not the host's
	// ironics are those that there are, by name. The world is that of the server's flags.
	ironics enginetest.Ironics[Ironic]
}

const mac = "52:54:00:aa:00:01"

func newWorld() *world {
	w := &world{
		network: ironic.NetworkInterfaceNetworking,
		port:    ironic.SwitchPort{UUID: "port", Address: mac, Extra: map[string]any{"note": "kept"}},
		host: &metal3.BareMetalHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "worker-0", Generation: 3},
			Spec: metal3.BareMetalHostSpec{NetworkInterfaces: []metal3.NetworkInterface{{
				Name: "eno1", HostNetworkAttachment: &metal3.HostNetworkAttachmentRef{Name: "tenant"},
			}}},
			Status: metal3.BareMetalHostStatus{
				Ironic:       &metal3.IronicStatus{},
				Provisioning: metal3.ProvisionStatus{ID: "node", State: metal3.StateAvailable}, Record: metal3.HostRecord{RegisteredWith: &metal3.RegisteredWith{}, Inspected: true},
				HardwareDetails: &metal3.HardwareDetails{NIC: []metal3.NIC{
					{Name: "eno0", MAC: "52:54:00:aa:00:00"},
					{Name: "eno1", MAC: "52:54:00:AA:00:01", LLDP: &metal3.LLDP{SwitchID: "00:1b:21:aa:bb:cc", PortID: "Eth1", SwitchSystemName: "leaf-1"}},
				}},
			},
		},
		attachments: map[string]*metal3.HostNetworkAttachment{
			"metal3/tenant": {Spec: metal3.HostNetworkAttachmentSpec{Mode: metal3.SwitchPortTrunk, NativeVLAN: 10, AllowedVLANs: []string{"30-32", "20", "31"}, MTU: new(9000)}},
			"shared/access": {Spec: metal3.HostNetworkAttachmentSpec{Mode: metal3.SwitchPortAccess, NativeVLAN: 7}},
		},
	}
	w.ironics = enginetest.Ironics[Ironic]{"": w}
	return w
}

func (w *world) Get(_ context.Context, namespace, name string) (*metal3.HostNetworkAttachment, error) {
	if found, ok := w.attachments[namespace+"/"+name]; ok {
		return found, nil
	}
	return nil, apierrors.NewNotFound(metal3.Resource("hostnetworkattachments"), name)
}

func (*world) GetNode(context.Context, string) (*ironic.Node, error) {
	return &ironic.Node{UUID: "node"}, nil
}

func (w *world) GetRegistration(context.Context, string) (*ironic.Registration, error) {
	return &ironic.Registration{NetworkInterface: w.network}, nil
}

func (w *world) ListSwitchPorts(context.Context, string) ([]ironic.SwitchPort, error) {
	return []ironic.SwitchPort{w.port}, nil
}

func (w *world) UpdatePort(_ context.Context, fence ironic.Fence, _ string, patches []ironic.Patch) error {
	if err := fence.Check(); err != nil { // as the client does
		return err
	}
	w.updates++
	if w.refusal != nil {
		return w.refusal
	}
	for _, p := range patches {
		switch p.Path {
		case "/local_link_connection":
			w.port.Link = maps.Clone(p.Value.(map[string]any))
			w.port.Link["switch_id"] = strings.ToLower(w.port.Link["switch_id"].(string)) // as Ironic has it
		case "/extra/switchport":
			w.port.Extra = map[string]any{"note": "kept", "switchport": p.Value}
			if p.Op == ironic.PatchRemove {
				w.port.Extra = map[string]any{"note": "kept"}
			}
		}
	}
	return nil
}

func (w *world) reconcile(t *testing.T) (time.Duration, error) {
	t.Helper()
	return w.controller().reconcile(t.Context(), hostKey)
}

var hostKey = types.NamespacedName{Namespace: "metal3", Name: "worker-0"}

func (w *world) controller() *Controller { return New(w.deps()) }

func (w *world) deps() Deps {
	return Deps{Attachments: w, Hosts: &enginetest.Slot[*metal3.BareMetalHost]{Resource: "baremetalhosts", Object: &w.host}, Nodes: enginetest.NodesOf(w.ironics, &w.unproven), Clock: clock.RealClock{}}
}

// The hosts that refer to an attachment are reconciled when it is created, changed or deleted, and no others.
func TestChangesOfAnAttachment(t *testing.T) {
	attachment := func(namespace, name string) *metal3.HostNetworkAttachment {
		return &metal3.HostNetworkAttachment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	for name, test := range map[string]struct {
		given func(*world)
		after time.Duration
	}{
		"that does not exist": {func(w *world) { w.attachments = nil }, missingRetry},
		"that exists":         {func(*world) {}, 0},
	} {
		w := newWorld()
		test.given(w)
		c := w.controller()
		if after, err := c.reconcile(t.Context(), hostKey); after != test.after || err != nil {
			t.Fatalf("%s: again after %s, %v", name, after, err)
		}
		for _, another := range []*metal3.HostNetworkAttachment{attachment("shared", "tenant"), attachment("metal3", "worker-0")} {
			if keys := c.hostsOf(another); len(keys) > 0 {
				t.Errorf("%s: attachment %s/%s requeues %v", name, another.Namespace, another.Name, keys)
			}
		}
		for range 2 {
			if keys := c.hostsOf(attachment("metal3", "tenant")); !slices.Equal(keys, []types.NamespacedName{hostKey}) {
				t.Errorf("%s: the attachment requeues %v, want the host", name, keys)
			}
		}
	}
}

// An attachment in another namespace can be changed while hosts refer to it: the ports follow.
func TestFollowsAnAttachmentOfAnotherNamespace(t *testing.T) {
	w := newWorld()
	w.host.Spec.NetworkInterfaces[0].HostNetworkAttachment.Namespace = "shared"
	w.attachments["shared/tenant"] = w.attachments["metal3/tenant"]
	c := w.controller()
	if _, err := c.reconcile(t.Context(), hostKey); err != nil {
		t.Fatal(err)
	}
	changed := w.attachments["shared/tenant"].DeepCopy()
	changed.Namespace, changed.Name, changed.Spec.NativeVLAN = "shared", "tenant", changed.Spec.NativeVLAN+1
	w.attachments["shared/tenant"] = changed
	for _, key := range c.hostsOf(changed) {
		if _, err := c.reconcile(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if vlan := w.port.Extra["switchport"].(map[string]any)["native_vlan"]; vlan != changed.Spec.NativeVLAN {
		t.Errorf("the switch port has the VLAN %v, want %v", vlan, changed.Spec.NativeVLAN)
	}
}

// unlinked takes away what the switch announces.
func unlinked(w *world) { w.host.Status.HardwareDetails.NIC[1].LLDP = nil }

// TestKnownLink: what a port is connected to may be known to Ironic alone, which reads the announcements itself.
func TestKnownLink(t *testing.T) {
	w := newWorld()
	unlinked(w)
	w.port.Link = map[string]any{"switch_id": "00:1b:21:aa:bb:cc", "port_id": "Eth1"}
	if _, err := w.reconcile(t); err != nil || w.port.Extra["switchport"] == nil {
		t.Errorf("%v, the port is %+v", err, w.port)
	}
	if c := verdictOn(w.host); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("condition %+v", c)
	}
}

// What Ironic is told of a port, once, and that it is told when the interface is gone.
func TestPorts(t *testing.T) {
	w := newWorld()
	for range 2 {
		if _, err := w.reconcile(t); err != nil {
			t.Fatal(err)
		}
	}
	want := ironic.SwitchPort{
		UUID: "port", Address: mac,
		Extra: map[string]any{"note": "kept", "switchport": map[string]any{"mode": "trunk", "native_vlan": 10, "allowed_vlans": []int{20, 30, 31, 32}, "mtu": 9000}},
		Link:  map[string]any{"switch_id": "00:1b:21:aa:bb:cc", "port_id": "Eth1", "switch_info": "leaf-1"},
	}
	if diff := cmp.Diff(want, w.port); diff != "" || w.updates != 1 {
		t.Errorf("after %d updates (-want +got):\n%s", w.updates, diff)
	}
	if c := verdictOn(w.host); c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != 3 {
		t.Errorf("condition %+v", c)
	}

	w.host.Spec.NetworkInterfaces = []metal3.NetworkInterface{{
		MACAddress: strings.ToUpper(mac), HostNetworkAttachment: &metal3.HostNetworkAttachmentRef{Name: "access", Namespace: "shared"},
		SwitchPort: &metal3.SwitchPortIdentifier{SwitchID: "00:1B:21:00:00:01", PortID: "Eth2"},
	}}
	for range 2 {
		if _, err := w.reconcile(t); err != nil {
			t.Fatal(err)
		}
	}
	if w.updates != 2 {
		t.Errorf("%d updates for two changes", w.updates)
	}
	want.Extra["switchport"] = map[string]any{"mode": "access", "native_vlan": 7}
	want.Link = map[string]any{"switch_id": "00:1b:21:00:00:01", "port_id": "Eth2"}
	if diff := cmp.Diff(want, w.port); diff != "" {
		t.Errorf("another switch port (-want +got):\n%s", diff)
	}

	w.host.Spec.NetworkInterfaces = nil
	if _, err := w.reconcile(t); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"note": "kept"}, w.port.Extra); diff != "" || verdictOn(w.host) != nil {
		t.Errorf("without interfaces: condition %+v, extra (-want +got):\n%s", verdictOn(w.host), diff)
	}
	updates := w.updates
	if _, err := w.reconcile(t); err != nil || w.updates != updates {
		t.Errorf("a host without interfaces costs requests: %d, %v", w.updates-updates, err)
	}
}

// Why the interfaces of a host cannot be configured.
func TestProblems(t *testing.T) {
	for name, test := range map[string]struct {
		given           func(*world)
		reason, message string
		retried         bool
	}{
		"an older Ironic":    {given: func(w *world) { w.network = "noop" }, reason: "NotSupported", message: "Ironic 34.0"},
		"not inspected":      {given: func(w *world) { w.host.Status.HardwareDetails = nil }, reason: "HardwareInspectionIncomplete"},
		"no such interface":  {given: func(w *world) { w.host.Spec.NetworkInterfaces[0].Name = "eth0" }, reason: "InvalidInterfaceNames", message: "no interface eth0; it has eno0, eno1"},
		"no port":            {given: func(w *world) { w.port.Address = "52:54:00:aa:00:99" }, reason: "InvalidInterfaceNames", message: mac},
		"no such attachment": {given: func(w *world) { w.attachments = nil }, reason: "AttachmentNotFound", message: "metal3/tenant does not exist", retried: true},
		"a switch without a MAC address": {given: func(w *world) {
			nics := w.host.Status.HardwareDetails.NIC
			for i := range nics {
				if nics[i].LLDP != nil {
					nics[i].LLDP.SwitchID = "leaf-4-1"
				}
			}
		}, reason: "IronicRefused", message: `announces "leaf-4-1" as its ID, which is no MAC address: give its switchPort`},
		"no announcement":                         {given: unlinked, reason: "IronicRefused", message: "The switch port of interface " + mac + " is not known: no switch announces it, so give its switchPort"},
		"an announcement that a user has written": {given: func(w *world) { w.host.Status.Record.Inspected = false }, reason: "IronicRefused", message: "was given, and not inspected, so give its switchPort"},
		"no announcement yet": {given: func(w *world) {
			w.host.Status.HardwareDetails, w.host.Spec.NetworkInterfaces[0] = nil, metal3.NetworkInterface{MACAddress: mac, HostNetworkAttachment: &metal3.HostNetworkAttachmentRef{Name: "tenant"}}
		}, reason: "HardwareInspectionIncomplete", message: "is not known before the host was inspected: wait for that, or give its switchPort"},
		"a port that boots by PXE": {given: func(w *world) { w.port.PXEEnabled = true }, reason: "IronicRefused", message: "boots by PXE (pxe_enabled), and its attachment has the mode trunk"},
		"too many VLANs": {given: func(w *world) { // stored before there was validation
			w.attachments["metal3/tenant"].Spec.AllowedVLANs = []string{"1-101"}
		}, reason: "IronicRefused", message: "has 101 VLANs, more than 100"},
		"refused": {given: func(w *world) {
			w.refusal = ironic.NewAPIError(t.Context(), "update port", 400, []byte(`{"error_message":"{\"faultstring\":\"no such switch\"}"}`), nil)
		}, reason: "IronicRefused", message: "no such switch", retried: true},
		"a node that is locked": {given: func(w *world) {
			w.refusal = ironic.NewAPIError(t.Context(), "update port", 409, []byte(`{"error_message":"{\"faultstring\":\"Node node is locked by host conductor-0\"}"}`), nil)
		}, retried: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			test.given(w)
			after, err := w.reconcile(t)
			c := verdictOn(w.host)
			if w.port.Extra["switchport"] != nil {
				t.Errorf("Ironic refuses whatever the node is asked for with the switch port %v", w.port.Extra["switchport"])
			}
			if test.reason == "" && c != nil || test.reason != "" && (c == nil || c.Status != metav1.ConditionFalse || c.Reason != test.reason || !strings.Contains(c.Message, test.message)) {
				t.Errorf("condition %+v, want the reason %q and %q", c, test.reason, test.message)
			}
			if retried := after > 0 || err != nil; retried != test.retried {
				t.Errorf("it is tried again after %s, %v", after, err)
			}
		})
	}
}

// TestLeftAlone: nothing is told to Ironic of hosts that have no node of their own, or are not worked on.
func TestLeftAlone(t *testing.T) {
	unproven := newWorld()
	unproven.unproven = "another host's"
	if _, err := unproven.reconcile(t); err != nil || unproven.updates != 0 {
		t.Errorf("a node that is not proven: %d updates of ports, error %v", unproven.updates, err)
	}
	for name, change := range map[string]func(*metal3.BareMetalHost){
		"not registered":         func(h *metal3.BareMetalHost) { h.Status.Provisioning.ID = "" },
		"with a restored status": func(h *metal3.BareMetalHost) { h.Status.Record.RegisteredWith = nil },
		"with the node of another host": func(h *metal3.BareMetalHost) {
			h.Status.Record.Hold = &metal3.Hold{Reason: metal3.NodeOfAnotherHostReason, Message: "not yours"}
		},
		"that another user of Ironic has deployed": func(h *metal3.BareMetalHost) {
			h.Status.Record.Hold = &metal3.Hold{Reason: metal3.AnotherDeploymentReason, Message: "somebody else's"}
		},
		"detached": func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusDetached },
		"paused":   func(h *metal3.BareMetalHost) { h.Annotations = map[string]string{metal3.PausedAnnotation: ""} },
		"deleted":  func(h *metal3.BareMetalHost) { h.DeletionTimestamp = new(metav1.Now()) },
	} {
		w := newWorld()
		change(w.host)
		if _, err := w.reconcile(t); err != nil || w.updates != 0 || verdictOn(w.host) != nil {
			t.Errorf("a host %s: %d updates of ports, condition %+v, error %v", name, w.updates, verdictOn(w.host), err)
		}
	}
}

// TestToldAgain: Ironic is told what the ports are attached to when a hold ends, and when it has made them anew.
func TestToldAgain(t *testing.T) {
	registered := &metal3.Registration{Reason: metal3.RegisteredReason}
	for name, change := range map[string]func(old, host *metal3.BareMetalHost){
		"a hold ends": func(old, _ *metal3.BareMetalHost) {
			old.Status.Record.Hold = &metal3.Hold{Reason: metal3.DeploymentGoneReason}
		},
		"given hardware is inspected":   func(old, _ *metal3.BareMetalHost) { old.Status.Record.Inspected = false },
		"attached again, moved or lost": func(old, _ *metal3.BareMetalHost) { old.Status.Ironic = nil },
		"proven again":                  func(old, _ *metal3.BareMetalHost) { old.Status.Ironic.Unproven = metal3.NodeOfAnotherHostReason },
		"registered again": func(old, _ *metal3.BareMetalHost) {
			old.Status.Record.Registration = &metal3.Registration{Reason: metal3.NodeLostReason}
		},
	} {
		host := newWorld().host
		host.Status.Ironic, host.Status.Record.Registration = &metal3.IronicStatus{NodeUUID: "node"}, registered
		old := host.DeepCopy()
		if mayDiffer(old, host) {
			t.Fatal("an unchanged host is looked at again")
		}
		if change(old, host); !mayDiffer(old, host) {
			t.Errorf("%s: the host is not looked at", name)
		}
	}
}

// verdictOn returns the condition that shows what was recorded of the interfaces of a host.
func verdictOn(host *metal3.BareMetalHost) *metav1.Condition {
	return meta.FindStatusCondition(host.Status.Conditions, metal3.NetworkInterfacesValidCondition)
}

// A host that is gone refers to no attachment.
func TestHostsThatAreGoneAreForgotten(t *testing.T) {
	w := newWorld()
	c := w.controller()
	for name, forget := range map[string]func(){
		"as was told": func() { c.HostChanged(w.host, nil) },
		"as was seen": func() {
			gone := w.host
			w.host = nil
			if _, err := c.reconcile(t.Context(), hostKey); err != nil {
				t.Error(err)
			}
			w.host = gone
		},
	} {
		if _, err := c.reconcile(t.Context(), hostKey); err != nil || len(c.attachments) != 1 {
			t.Fatalf("%s: %v, %v", name, err, c.attachments)
		}
		if forget(); len(c.attachments) != 0 {
			t.Errorf("%s: %v", name, c.attachments)
		}
	}
}
