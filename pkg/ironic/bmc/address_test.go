// SPDX-License-Identifier: Apache-2.0

package bmc

import "testing"

func TestAddressOf(t *testing.T) {
	for _, c := range []struct{ driver, redfish, system, ipmi, port, want string }{
		{"redfish", "https://192.0.2.1", "/redfish/v1/Systems/1", "", "", "redfish://192.0.2.1/redfish/v1/Systems/1"},
		{"redfish", "http://192.0.2.1:8000", "/redfish/v1/Systems/1", "", "", "redfish+http://192.0.2.1:8000/redfish/v1/Systems/1"},
		{"redfish", "https://user:secret@192.0.2.1", "/redfish/v1/Systems/1", "", "", "redfish://192.0.2.1/redfish/v1/Systems/1"},
		{"idrac", "bmc.example.org", "/redfish/v1/Systems/1", "", "", "idrac-redfish://bmc.example.org/redfish/v1/Systems/1"},
		{"redfish", "https://192.0.2.1", "/redfish/v1/Systems/a b?c#d@e%20", "", "", "redfish://192.0.2.1/redfish/v1/Systems/a%20b%3Fc%23d%40e%2520"},
		{"redfish", "https://192.0.2.1", "/redfish/v1/Managers/1", "", "", ""},
		{"redfish", "https://192.0.2.1", "redfish/v1/Systems/1", "", "", "redfish://192.0.2.1/redfish/v1/Systems/1"},
		{"redfish", "https://192.0.2.1", "1", "", "", "redfish://192.0.2.1/1"}, // for which Ironic asks, too
		{"redfish", "2001:DB8::1", "/redfish/v1/Systems/1", "", "", "redfish://[2001:DB8::1]/redfish/v1/Systems/1"},
		{"redfish", "https://[fd00::50%eno1]", "/redfish/v1/Systems/1", "", "", "redfish://[fd00::50%25eno1]/redfish/v1/Systems/1"},
		{"redfish", "https://gw.example.org/redfish/v1/", "/redfish/v1/Systems/1", "", "", "redfish://gw.example.org/redfish/v1/Systems/1"},
		{"redfish", "https://gw.example.org/bmc-a/redfish/v1/", "", "", "", ""},
		{"redfish", "https://gw.example.org/bmc-a/redfish/v1/", "/bmc-a/redfish/v1/Systems/1", "", "", ""},
		{"ipmi", "", "", "192.0.2.1", "", "ipmi://192.0.2.1"},
		{"ipmi", "", "", "192.0.2.1", "6230", "ipmi://192.0.2.1:6230"},
		{"ipmi", "", "", "2001:db8::1", "", "ipmi://[2001:db8::1]"},
		{"ipmi", "", "", "2001:db8::1", "6230", "ipmi://[2001:db8::1]:6230"},
		{"ipmi", "", "", "not a name", "", ""},
		{"fake-hardware", "", "", "", "", ""},
		{"ilo", "", "", "192.0.2.1", "", ""},
	} {
		got := AddressOf(c.driver, c.redfish, c.system, c.ipmi, c.port)
		if got != c.want {
			t.Errorf("%+v: %q", c, got)
			continue
		}
		if got == "" {
			continue
		}
		access, err := Parse(got, false)
		if err != nil {
			t.Errorf("%q: %v", got, err)
		}
		if key := RegisteredKey(c.redfish, c.system, c.ipmi, c.port); access.Key() != key {
			t.Errorf("%q is %s, the node has %s", got, access.Key(), key)
		}
	}
}
