// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"slices"
	"testing"
)

func TestKey(t *testing.T) {
	tests := []struct {
		address, key string
	}{
		{"192.0.2.1", "ipmi 192.0.2.1:623"},
		{"ipmi://192.0.2.1:623/", "ipmi 192.0.2.1:623"},
		{"IPMI://192.0.2.1?privilegelevel=OPERATOR", "ipmi 192.0.2.1:623"},
		{"ipmi://BMC-1.Example.org.", "ipmi bmc-1.example.org:623"},
		{"ipmi://[2001:DB8:0::1]", "ipmi [2001:db8::1]:623"},
		{"ipmi://[::ffff:192.0.2.1]", "ipmi 192.0.2.1:623"},
		{"libvirt://192.0.2.1:6230", "ipmi 192.0.2.1:6230"},
		{"redfish://192.0.2.1/redfish/v1/Systems/1", "redfish 192.0.2.1:443 /redfish/v1/Systems/1"},
		{"redfish-virtualmedia+https://192.0.2.1:443/redfish/v1/Systems/1/", "redfish 192.0.2.1:443 /redfish/v1/Systems/1"},
		{"idrac-virtualmedia://192.0.2.1", "redfish 192.0.2.1:443"},
		{"redfish://192.0.2.1/redfish/v1/", "redfish 192.0.2.1:443"},
		{"redfish+http://192.0.2.1/redfish/v1/Systems/1", "redfish 192.0.2.1:80 /redfish/v1/Systems/1"},
		{"redfish://[fd00::50%25eno1]/redfish/v1/Systems/1", "redfish [fd00::50%eno1]:443 /redfish/v1/Systems/1"},
	}
	for _, test := range tests {
		access, err := Parse(test.address, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := access.Key().String(); got != test.key {
			t.Errorf("%s has the key %q, want %q", test.address, got, test.key)
		}
		// What Ironic is told has the same key.
		info := access.DriverInfo("admin", "secret")
		text := func(key string) string { value, _ := info[key].(string); return value }
		if got := RegisteredKey(text("redfish_address"), text("redfish_system_id"), text("ipmi_address"), text("ipmi_port")); got != access.Key() {
			t.Errorf("%s: driver_info has the key %q, the address %q", test.address, got, access.Key())
		}
	}
}

func TestKeyMatches(t *testing.T) {
	one, two, only := Key{"redfish 192.0.2.1:443", "/redfish/v1/Systems/1"}, Key{"redfish 192.0.2.1:443", "/redfish/v1/Systems/2"}, Key{Service: "redfish 192.0.2.1:443"}
	for _, test := range []struct {
		a, b Key
		want bool
	}{
		{one, one, true}, {one, two, false}, {one, only, true}, {only, two, true},
		{one, Key{"redfish 192.0.2.1:8443", one.System}, false},
		{one, Key{Service: "ipmi 192.0.2.1:623"}, true},
		{Key{"redfish 192.0.2.1:80", "/redfish/v1/Systems/1"}, Key{Service: "ipmi 192.0.2.1:623"}, true},
		{one, Key{"redfish 192.0.2.1:80", one.System}, true},
		{one, Key{"redfish 192.0.2.1:80", two.System}, false},
		{one, Key{Service: "redfish 192.0.2.1:80"}, true},
		{only, Key{"redfish 192.0.2.1:80", two.System}, true},
		{one, Key{"redfish 192.0.2.1:8080", one.System}, false},
		{Key{Service: "redfish [2001:db8::1]:443"}, Key{Service: "ipmi [2001:db8::1]:623"}, true},
		{one, Key{Service: "ipmi 192.0.2.1:6230"}, false},
		{one, Key{Service: "ipmi 192.0.2.2:623"}, false},
		{Key{"redfish 192.0.2.1:8443", one.System}, Key{Service: "ipmi 192.0.2.1:623"}, false},
		{Key{Service: "ipmi 192.0.2.1:443"}, Key{Service: "redfish 192.0.2.1:623"}, false},
		{Key{}, Key{}, false},
	} {
		if test.a.Matches(test.b) != test.want || test.b.Matches(test.a) != test.want {
			t.Errorf("%q and %q match: %t", test.a, test.b, !test.want)
		}
		found := slices.ContainsFunc(test.a.LookupValues(), func(value string) bool { return slices.Contains(test.b.IndexValues(), value) })
		if test.want && !found {
			t.Errorf("%q does not find %q", test.a, test.b)
		}
	}
}
