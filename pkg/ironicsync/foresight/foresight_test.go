// SPDX-License-Identifier: Apache-2.0

package foresight

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/destination"
)

type change = func(*metal3.BareMetalHost)

func newHost(name string, state metal3.ProvisioningState, changes ...change) *metal3.BareMetalHost {
	h := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: name}}
	h.Spec.BMC = metal3.BMCDetails{Address: "ipmi://192.0.2." + strings.TrimPrefix(name, "w-"), CredentialsName: name + "-bmc"}
	h.Spec.Online, h.Status.PoweredOn = true, true
	h.Status.Provisioning.State = state
	for _, c := range changes {
		c(h)
	}
	return h
}

func at(address string) change { return func(h *metal3.BareMetalHost) { h.Spec.BMC.Address = address } }

func runs(url string) change {
	return func(h *metal3.BareMetalHost) { h.Status.Provisioning.Image.URL = url }
}

func wants(url string) change {
	return func(h *metal3.BareMetalHost) { h.Spec.Image = &metal3.Image{URL: url} }
}

func serial(number string) change {
	return func(h *metal3.BareMetalHost) {
		h.Status.HardwareDetails = &metal3.HardwareDetails{SystemVendor: metal3.HardwareSystemVendor{SerialNumber: number}}
	}
}

func nic(mac string) change {
	return func(h *metal3.BareMetalHost) {
		h.Status.HardwareDetails.NIC = append(h.Status.HardwareDetails.NIC, metal3.NIC{MAC: mac})
	}
}

// TestProblems: what the server will refuse or hold is said before it has the hosts.
func TestProblems(t *testing.T) {
	networks, err := destination.ParseHosts([]string{"192.0.2.0/24", "198.51.100.0/24"})
	if err != nil {
		t.Fatal(err)
	}
	checks := Checks{
		BMCs: destination.Policy{Hosts: networks}, Drivers: []string{"ipmi", "redfish"},
		HasSecret: func(_ context.Context, _, name string) (bool, error) { return name != "w-5-bmc", nil },
	}
	tests := map[string]struct {
		hosts []*metal3.BareMetalHost
		want  []string // a part of each problem
	}{
		"nothing":                        {hosts: []*metal3.BareMetalHost{newHost("w-1", metal3.StateAvailable), newHost("w-2", metal3.StateAvailable)}},
		"an address":                     {hosts: []*metal3.BareMetalHost{newHost("w-1", metal3.StateAvailable, at("telnet://192.0.2.1"))}, want: []string{"metal3/w-1 will not be registered: spec.bmc.address"}},
		"a network":                      {hosts: []*metal3.BareMetalHost{newHost("w-1", metal3.StateAvailable, at("ipmi://203.0.113.1"))}, want: []string{"metal3/w-1 will not be registered: spec.bmc.address"}},
		"a driver":                       {hosts: []*metal3.BareMetalHost{newHost("w-1", metal3.StateAvailable, at("idrac-virtualmedia://192.0.2.1"))}, want: []string{"not enabled the driver idrac"}},
		"no Secret":                      {hosts: []*metal3.BareMetalHost{newHost("w-5", metal3.StateAvailable)}, want: []string{"Secret w-5-bmc"}},
		"one BMC":                        {hosts: []*metal3.BareMetalHost{newHost("w-1", metal3.StateAvailable), newHost("w-2", metal3.StateAvailable, at("redfish://192.0.2.1/redfish/v1/Systems/1"))}, want: []string{"w-1 has the same BMC as BareMetalHost metal3/w-2", "w-2 has the same BMC as BareMetalHost metal3/w-1"}},
		"one machine":                    {hosts: []*metal3.BareMetalHost{newHost("w-1", metal3.StateAvailable, serial("CZ1234567"), nic("00:25:90:00:00:01")), newHost("w-2", metal3.StateAvailable, serial("CZ1234567"), nic("00:25:90:00:00:01"))}, want: []string{"w-1 is of the same machine as BareMetalHost metal3/w-2, according to serial number and network interfaces", "w-2 is of the same machine"}},
		"the serial number of a chassis": {hosts: []*metal3.BareMetalHost{newHost("w-1", metal3.StateAvailable, serial("CZ1234567"), nic("00:25:90:00:00:01")), newHost("w-2", metal3.StateAvailable, serial("CZ1234567"), nic("00:25:90:00:00:02"))}},
		"confirmed to be two":            {hosts: []*metal3.BareMetalHost{newHost("w-1", metal3.StateAvailable, serial("CZ1234567"), nic("00:25:90:00:00:01"), func(h *metal3.BareMetalHost) { h.Status.Record.OtherMachines = []types.UID{"2"} }), newHost("w-2", metal3.StateAvailable, serial("CZ1234567"), nic("00:25:90:00:00:01"), func(h *metal3.BareMetalHost) { h.UID = "2" })}},
		"an unmanaged host":              {hosts: []*metal3.BareMetalHost{newHost("w-1", metal3.StateUnmanaged, func(h *metal3.BareMetalHost) { h.Spec.BMC = metal3.BMCDetails{} })}},
		"what many have, is no":          {hosts: many(9, serial("Chassis Serial"))},
	}
	for name, test := range tests {
		report, err := checks.Of(t.Context(), test.hosts)
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Problems) != len(test.want) {
			t.Errorf("%s: %q, want %q", name, report.Problems, test.want)
			continue
		}
		for i, want := range test.want {
			if !strings.Contains(report.Problems[i], want) {
				t.Errorf("%s: %q, want %q", name, report.Problems[i], want)
			}
		}
	}
	// What is not known is not guessed.
	if report, err := (Checks{}).Of(t.Context(), []*metal3.BareMetalHost{newHost("w-5", metal3.StateAvailable, at("idrac-virtualmedia://203.0.113.1"))}); err != nil || len(report.Problems) > 0 {
		t.Errorf("%q, %v", report.Problems, err)
	}
}

func many(n int, c change) (hosts []*metal3.BareMetalHost) {
	for i := range n {
		hosts = append(hosts, newHost("w-"+strconv.Itoa(10+i), metal3.StateAvailable, c))
	}
	return hosts
}

// TestFirst: what the server will do to machines at once is said, and nothing of hosts that are as they should be.
func TestFirst(t *testing.T) {
	annotated := func(key, value string) change {
		return func(h *metal3.BareMetalHost) { metav1.SetMetaDataAnnotation(&h.ObjectMeta, key, value) }
	}
	deleted := func(h *metal3.BareMetalHost) { h.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	off := func(h *metal3.BareMetalHost) { h.Spec.Online = false }
	tests := map[string]struct {
		state   metal3.ProvisioningState
		changes []change
		want    []string
	}{
		"available":             {state: metal3.StateAvailable},
		"provisioned":           {state: metal3.StateProvisioned, changes: []change{runs("http://a"), wants("http://a")}},
		"another image":         {state: metal3.StateProvisioned, changes: []change{runs("http://a"), wants("http://b")}, want: []string{"will be deprovisioned, and its disks are cleaned, and then provisioned"}},
		"no image":              {state: metal3.StateProvisioned, changes: []change{runs("http://a")}, want: []string{"will be deprovisioned, and its disks are cleaned"}},
		"no image, not cleaned": {state: metal3.StateProvisioned, changes: []change{runs("http://a"), func(h *metal3.BareMetalHost) { h.Spec.AutomatedCleaningMode = metal3.CleaningModeDisabled }}, want: []string{"will be deprovisioned, without cleaning"}},
		"external":              {state: metal3.StateExternallyProvisioned, changes: []change{func(h *metal3.BareMetalHost) { h.Spec.ExternallyProvisioned = true }}},
		"external no longer":    {state: metal3.StateExternallyProvisioned},
		"external, not online":  {state: metal3.StateExternallyProvisioned, changes: []change{off}},
		"an image, not online":  {state: metal3.StateAvailable, changes: []change{off, wants("http://a")}, want: []string{"will be switched off"}},
		"an image":              {state: metal3.StateAvailable, changes: []change{wants("http://a")}, want: []string{"will be provisioned"}},
		"paused":                {state: metal3.StateAvailable, changes: []change{wants("http://a"), annotated(metal3.PausedAnnotation, "")}},
		"detached":              {state: metal3.StateProvisioned, changes: []change{annotated(metal3.DetachedAnnotation, ""), func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusDetached }}},
		"deleted":               {state: metal3.StateProvisioned, changes: []change{deleted}, want: []string{"is being deleted: it will be deprovisioned, and its disks are cleaned"}},
		"deleted, available":    {state: metal3.StateAvailable, changes: []change{deleted}, want: []string{"is being deleted"}},
		"on its way":            {state: metal3.StateInspecting, want: []string{"is inspecting: that will go on"}},
		"new":                   {state: metal3.StateNone, want: []string{"will be registered"}},
		"inspected again":       {state: metal3.StateAvailable, changes: []change{annotated(metal3.InspectAnnotation, "")}, want: []string{"will be inspected again"}},
		"switched off":          {state: metal3.StateAvailable, changes: []change{off}, want: []string{"will be switched off"}},
		"switched on":           {state: metal3.StateAvailable, changes: []change{func(h *metal3.BareMetalHost) { h.Status.PoweredOn = false }}, want: []string{"will be switched on"}},
		"rebooted":              {state: metal3.StateProvisioned, changes: []change{runs("http://a"), wants("http://a"), annotated(metal3.RebootAnnotation, "")}, want: []string{"will be rebooted"}},
	}
	for name, test := range tests {
		report, err := Checks{}.Of(t.Context(), []*metal3.BareMetalHost{newHost("w-1", test.state, test.changes...)})
		if err != nil {
			t.Fatal(err)
		}
		said := slices.Clone(report.First)
		if len(said) != len(test.want) || len(said) > 0 && !strings.HasPrefix(said[0], "BareMetalHost metal3/w-1 "+test.want[0]) {
			t.Errorf("%s: %q, want %q", name, said, test.want)
		}
	}
}
