// SPDX-License-Identifier: Apache-2.0

package registrar

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

func hostWith(bootMAC string, nics ...metal3.NIC) *metal3.BareMetalHost {
	return &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "host-0"}, Spec: metal3.BareMetalHostSpec{BootMACAddress: bootMAC},
		Status: metal3.BareMetalHostStatus{HardwareDetails: &metal3.HardwareDetails{NIC: nics}, Record: metal3.HostRecord{Inspected: true}},
	}
}

func detached(host *metal3.BareMetalHost) *metal3.BareMetalHost {
	host.Status.OperationalStatus = metal3.OperationalStatusDetached
	return host
}

// given returns the host with hardware that was not found by an inspection.
func given(host *metal3.BareMetalHost) *metal3.BareMetalHost {
	host.Status.Record.Inspected = false
	return host
}

// TestWantedPorts: Ironic has ports for Ethernet only. Of the interfaces that share an address, the one from which the host boots
// counts.
func TestWantedPorts(t *testing.T) {
	vms := make([]metal3.NIC, 1000)
	for i := range vms {
		vms[i] = metal3.NIC{MAC: fmt.Sprintf("52:54:00:00:%02x:%02x", i/256, i%256), PXE: i == 999}
	}
	for name, tt := range map[string]struct {
		host  *metal3.BareMetalHost
		want  []wantedPort
		first int // how many of the ports are compared; 0 is all
	}{
		"not inspected": {host: &metal3.BareMetalHost{Spec: metal3.BareMetalHostSpec{BootMACAddress: "00:16:3E:00:00:01"}}, want: []wantedPort{{"00:16:3e:00:00:01", true}}},
		"nothing known": {host: &metal3.BareMetalHost{}},
		"a placeholder": {host: hostWith("00:00:00:00:00:00", metal3.NIC{MAC: "00:16:3e:00:00:01", PXE: true}), want: []wantedPort{{"00:16:3e:00:00:01", true}}},
		"by the inspection alone": {
			host: hostWith("", metal3.NIC{MAC: "00:16:3e:00:00:01"}, metal3.NIC{MAC: "00:16:3e:00:00:02", PXE: true}),
			want: []wantedPort{{"00:16:3e:00:00:02", true}, {"00:16:3e:00:00:01", false}},
		},
		"an address in two forms and families": {
			host: hostWith("00:16:3e:00:00:01", metal3.NIC{MAC: "00-16-3E-00-00-01"}, metal3.NIC{MAC: "00:16:3E:00:00:02", IP: "192.0.2.1"}, metal3.NIC{MAC: "00:16:3e:00:00:02", IP: "2001:db8::1"}),
			want: []wantedPort{{"00:16:3e:00:00:01", true}, {"00:16:3e:00:00:02", false}},
		},
		"a VLAN on the boot interface": {
			host: hostWith("", metal3.NIC{Name: "eno1", MAC: "00:16:3e:00:00:01", PXE: true}, metal3.NIC{Name: "eno1.100", MAC: "00:16:3e:00:00:01"}),
			want: []wantedPort{{"00:16:3e:00:00:01", true}},
		},
		"Fibre Channel, InfiniBand, and what no interface has": {
			host: hostWith("", metal3.NIC{MAC: "21:00:00:16:3e:aa:bb:01"}, metal3.NIC{MAC: "a0:00:02:20:fe:80:00:00:00:00:00:00:00:16:3e:03:00:aa:bb:02", PXE: true},
				metal3.NIC{MAC: "00:00:00:00:00:00"}, metal3.NIC{MAC: "ff:ff:ff:ff:ff:ff"}, metal3.NIC{MAC: "..."}, metal3.NIC{}, metal3.NIC{MAC: "00:16:3e:00:00:09"}),
			want: []wantedPort{{"00:16:3e:00:00:09", false}},
		},
		"that of the BMC, and of a DPU": {
			host: hostWith("", metal3.NIC{MAC: "be:3a:f2:b6:05:9f"}, metal3.NIC{MAC: "00:1a:ca:ff:ff:01"}, metal3.NIC{MAC: "00:16:3e:00:00:01"}),
			want: []wantedPort{{"00:16:3e:00:00:01", false}},
		},
		"the machine boots from one that is administered locally": {
			host: hostWith("", metal3.NIC{MAC: "02:23:13:25:25:5b", PXE: true}, metal3.NIC{MAC: "02:23:13:25:25:5c"}, metal3.NIC{MAC: "00:16:3e:00:00:01"}),
			want: []wantedPort{{"02:23:13:25:25:5b", true}, {"00:16:3e:00:00:01", false}},
		},
		"there are no others": {
			host: hostWith("", metal3.NIC{MAC: "02:23:13:25:25:5b"}, metal3.NIC{MAC: "02:23:13:25:25:5c"}),
			want: []wantedPort{{"02:23:13:25:25:5b", false}, {"02:23:13:25:25:5c", false}},
		},
		"virtual machines of QEMU": {
			host: hostWith("52:54:00:00:00:01", metal3.NIC{MAC: "52:54:00:00:00:02"}),
			want: []wantedPort{{"52:54:00:00:00:01", true}, {"52:54:00:00:00:02", false}},
		},
		"a thousand virtual interfaces": {
			host: hostWith("00:16:3e:00:00:01", vms...), first: 3,
			want: []wantedPort{{"00:16:3e:00:00:01", true}, {"52:54:00:00:03:e7", true}, {"52:54:00:00:00:00", false}},
		},
	} {
		got := wantedPorts(tt.host)
		if tt.first > 0 {
			if len(got) != maxPorts+1 {
				t.Errorf("%s: %d ports", name, len(got))
			}
			got = got[:tt.first]
		}
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(wantedPort{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// concealed is the node of a port that Ironic does not show.
const concealed = "concealed"

// portIronic refuses ports with some addresses, and has those of other nodes.
type portIronic struct {
	Ironic
	refusals map[string]error
	others   map[string]string
	created  []string
}

func (p *portIronic) CreatePort(_ context.Context, _ ironic.Fence, node, mac string, pxe bool) (*ironic.Port, error) {
	if err := p.refusals[mac]; err != nil {
		return nil, err
	}
	if p.others[mac] != "" {
		return nil, &ironic.APIError{Status: http.StatusConflict, Message: "A port with MAC address " + mac + " already exists."}
	}
	p.created = append(p.created, fmt.Sprint(mac, " ", pxe))
	return &ironic.Port{NodeUUID: node, Address: mac}, nil
}

func (p *portIronic) ListPorts(_ context.Context, filter ironic.PortFilter) ([]ironic.Port, error) {
	if p.others[filter.Address] == concealed {
		return nil, nil
	}
	return []ironic.Port{{NodeUUID: p.others[filter.Address], Address: filter.Address}}, nil
}

// TestEnsurePorts: a port that Ironic rejects costs that port, unless the spec names its address. What may be over soon, and
// what is about all ports, is no such refusal.
func TestEnsurePorts(t *testing.T) {
	const boot, second, third = "00:16:3e:00:00:01", "00:16:3e:00:00:02", "00:16:3e:00:00:03"
	refusal := func(status int, message string) error {
		return &ironic.APIError{Status: status, Message: message, Op: "create port"}
	}
	notValid := func(mac string) error {
		return refusal(http.StatusBadRequest, "Expected valid MAC address for address: "+mac)
	}
	for name, tt := range map[string]struct {
		refusals map[string]error
		others   map[string]string
		sharing  *metal3.BareMetalHost
		noBoot   bool
		existing []string
		created  string
		missing  string
		problem  string
		err      bool
	}{
		"all are taken":                      {created: boot + " true, " + second + " false, " + third + " false"},
		"one is there":                       {existing: []string{second}, created: boot + " true, " + third + " false"},
		"one is no MAC address":              {refusals: map[string]error{second: notValid(second)}, created: boot + " true, " + third + " false", missing: "Ironic rejects " + second + ": Expected valid MAC address for address: " + second},
		"one is another node's":              {others: map[string]string{second: "other"}, created: boot + " true, " + third + " false", missing: second + " belongs to a node in Ironic that no host has"},
		"one is concealed":                   {others: map[string]string{second: concealed}, created: boot + " true, " + third + " false", missing: second + " belongs to a node that Ironic conceals from this server, as those of other Keystone projects"},
		"the boot address is concealed":      {others: map[string]string{boot: concealed}, problem: metal3.PortConflictReason + ": MAC address " + boot + " of host metal3/host-0 is that of a node that Ironic conceals from this server, as those of other Keystone projects already: delete the other one's port in Ironic if that is wrong, or replace the host whose spec.bootMACAddress is wrong: if it runs something, detach it"},
		"one is another machine's, too":      {sharing: hostWith("", metal3.NIC{MAC: second}, metal3.NIC{MAC: boot}), created: boot + " true, " + third + " false", missing: second + " is a network card of host metal3/host-1, too"},
		"all are another machine's, too":     {sharing: hostWith("", metal3.NIC{MAC: second}, metal3.NIC{MAC: third}), noBoot: true, created: second + " false", missing: third + " is a network card of host metal3/host-1, too"},
		"one is a detached host's":           {sharing: detached(hostWith("", metal3.NIC{MAC: second})), created: boot + " true, " + second + " false, " + third + " false"},
		"one was given to another host":      {sharing: given(hostWith("", metal3.NIC{MAC: second})), created: boot + " true, " + second + " false, " + third + " false"},
		"another host's spec has one":        {sharing: hostWith(second), created: boot + " true, " + second + " false, " + third + " false"},
		"one is this node's":                 {others: map[string]string{second: "node"}, created: boot + " true, " + third + " false"},
		"one is in conflict":                 {refusals: map[string]error{second: refusal(http.StatusConflict, "Cannot use "+second)}, created: boot + " true, " + third + " false", missing: "Ironic rejects " + second + ": Cannot use " + second},
		"Ironic does not see the node":       {refusals: map[string]error{second: refusal(http.StatusBadRequest, "Node node could not be found.")}, created: boot + " true", err: true},
		"the boot address":                   {refusals: map[string]error{boot: notValid(boot)}, problem: metal3.IronicRefusedReason + ": Ironic rejects spec.bootMACAddress " + boot + " as that of a port: Expected valid MAC address for address: " + boot},
		"another's boot address":             {others: map[string]string{boot: "other"}, problem: metal3.PortConflictReason + ": MAC address " + boot + " of host metal3/host-0 is that of a node in Ironic that no host has already: delete the other one's port in Ironic if that is wrong, or replace the host whose spec.bootMACAddress is wrong: if it runs something, detach it"},
		"the node is locked":                 {refusals: map[string]error{second: refusal(http.StatusConflict, "Node n is locked by host c, please retry after the current operation is completed.")}, created: boot + " true", err: true},
		"Ironic fails with one":              {refusals: map[string]error{second: refusal(http.StatusInternalServerError, "oops")}, created: boot + " true, " + third + " false", missing: "Ironic fails to create " + second + ": oops"},
		"Ironic fails with the boot address": {refusals: map[string]error{boot: refusal(http.StatusInternalServerError, "oops")}, existing: []string{second}, err: true},
		"Ironic refuses us":                  {refusals: map[string]error{second: refusal(http.StatusForbidden, "no")}, created: boot + " true", err: true},
		"Ironic is away":                     {refusals: map[string]error{second: &ironic.UnavailableError{Op: "create port", Reason: "no answer"}}, created: boot + " true", err: true},
	} {
		host := hostWith(boot, metal3.NIC{MAC: boot, PXE: true}, metal3.NIC{MAC: second}, metal3.NIC{MAC: third})
		if tt.noBoot {
			host = hostWith("", metal3.NIC{MAC: second}, metal3.NIC{MAC: third})
		}
		api := &portIronic{refusals: tt.refusals, others: tt.others}
		hosts := []*metal3.BareMetalHost{host}
		if tt.sharing != nil {
			tt.sharing.Name = "host-1"
			hosts = append(hosts, tt.sharing)
		}
		r := New(Deps{Ironic: api, Claims: claimsOf(t, hosts...)}, Settings{})
		var existing []ironic.Port
		for _, mac := range tt.existing {
			existing = append(existing, ironic.Port{NodeUUID: "node", Address: mac})
		}
		missing, err := r.ensurePorts(t.Context(), registration{host: host}, "node", existing)
		var said string
		if known := new(problem); errors.As(err, &known) {
			said = known.reason + ": " + known.message
		} else if (err != nil) != tt.err {
			t.Errorf("%s: the error is %v", name, err)
		}
		if created := strings.Join(api.created, ", "); created != tt.created || strings.Join(missing, "; ") != tt.missing || !strings.HasPrefix(said, tt.problem) || (said == "") != (tt.problem == "") {
			t.Errorf("%s: it created %q, says %q and lacks %q", name, created, said, missing)
		}
	}
}
