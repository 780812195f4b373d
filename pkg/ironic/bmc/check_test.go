// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// told is what Ironic is told, but for the credentials, in the order of the keys.
func told(access Access) string {
	info := access.DriverInfo("admin", "secret")
	text := []string{access.Driver}
	for _, key := range slices.Sorted(maps.Keys(info)) {
		if !strings.HasSuffix(key, "_username") && !strings.HasSuffix(key, "_password") {
			_, name, _ := strings.Cut(key, "_")
			text = append(text, fmt.Sprintf("%s=%v", name, info[key]))
		}
	}
	return strings.Join(text, " ")
}

// TestAccepted has what addresses lead to: the driver_info of the node, and the key by which BMCs are compared.
func TestAccepted(t *testing.T) {
	const system = "/redfish/v1/Systems/1"
	for _, c := range []struct{ address, told, key string }{
		{"192.0.2.1", "ipmi address=192.0.2.1 port=623 priv_level=ADMINISTRATOR", "ipmi 192.0.2.1:623"},
		{"192.0.2.1:6230", "ipmi address=192.0.2.1 port=6230 priv_level=ADMINISTRATOR", "ipmi 192.0.2.1:6230"},
		{"bmc.example.org", "ipmi address=bmc.example.org port=623 priv_level=ADMINISTRATOR", "ipmi bmc.example.org:623"},
		{"bmc.example.org:6230", "ipmi address=bmc.example.org port=6230 priv_level=ADMINISTRATOR", "ipmi bmc.example.org:6230"},
		{"[2001:db8::1]", "ipmi address=2001:db8::1 port=623 priv_level=ADMINISTRATOR", "ipmi [2001:db8::1]:623"},
		{"[2001:db8::1]:6230", "ipmi address=2001:db8::1 port=6230 priv_level=ADMINISTRATOR", "ipmi [2001:db8::1]:6230"},
		{"ipmi:192.0.2.1", "ipmi address=192.0.2.1 port=623 priv_level=ADMINISTRATOR", "ipmi 192.0.2.1:623"},
		{"ipmi:192.0.2.1:6230", "ipmi address=192.0.2.1 port=6230 priv_level=ADMINISTRATOR", "ipmi 192.0.2.1:6230"},
		{"ipmi://192.0.2.1/", "ipmi address=192.0.2.1 port=623 priv_level=ADMINISTRATOR", "ipmi 192.0.2.1:623"},
		{"ipmi://192.0.2.1/ignored", "ipmi address=192.0.2.1 port=623 priv_level=ADMINISTRATOR", "ipmi 192.0.2.1:623"},
		{"IPMI://BMC.example.org", "ipmi address=bmc.example.org port=623 priv_level=ADMINISTRATOR", "ipmi bmc.example.org:623"},
		{"ipmi://ILOCZJ1234ABC.mgmt.Example.org.:623", "ipmi address=iloczj1234abc.mgmt.example.org. port=623 priv_level=ADMINISTRATOR", "ipmi iloczj1234abc.mgmt.example.org:623"},
		{"libvirt://idrac-7ABC123.mgmt.example.org", "ipmi address=idrac-7abc123.mgmt.example.org port=623 priv_level=ADMINISTRATOR", "ipmi idrac-7abc123.mgmt.example.org:623"},
		{"ipmi://bmc-7.rack_3.example.org", "ipmi address=bmc-7.rack_3.example.org port=623 priv_level=ADMINISTRATOR", "ipmi bmc-7.rack_3.example.org:623"},
		{"ipmi://[fe80::A%25Eth0]", "ipmi address=fe80::A%Eth0 port=623 priv_level=ADMINISTRATOR", "ipmi [fe80::a%eth0]:623"},
		{"redfish://ILOCZJ1234ABC.mgmt.example.org", "redfish address=https://ILOCZJ1234ABC.mgmt.example.org", "redfish iloczj1234abc.mgmt.example.org:443"},
		{"ipmi://192.0.2.1:6230?privilegelevel=operator", "ipmi address=192.0.2.1 port=6230 priv_level=OPERATOR", "ipmi 192.0.2.1:6230"},
		{"ipmi://192.0.2.1/?privilegelevel=USER", "ipmi address=192.0.2.1 port=623 priv_level=USER", "ipmi 192.0.2.1:623"},
		{"ipmi://[fe80::1%25eth0]", "ipmi address=fe80::1%eth0 port=623 priv_level=ADMINISTRATOR", "ipmi [fe80::1%eth0]:623"},
		{"libvirt://192.0.2.1:6233/", "ipmi address=192.0.2.1 port=6233 priv_level=ADMINISTRATOR", "ipmi 192.0.2.1:6233"},
		{"libvirt://[::1]:6233", "ipmi address=::1 port=6233 priv_level=ADMINISTRATOR", "ipmi [::1]:6233"},

		{"redfish://192.0.2.1", "redfish address=https://192.0.2.1", "redfish 192.0.2.1:443"},
		{"redfish://192.0.2.1/", "redfish address=https://192.0.2.1", "redfish 192.0.2.1:443"},
		{"redfish://192.0.2.1/redfish/v1", "redfish address=https://192.0.2.1", "redfish 192.0.2.1:443"},
		{"redfish-virtualmedia://192.0.2.1/redfish/v1/", "redfish address=https://192.0.2.1", "redfish 192.0.2.1:443"},
		{"redfish:192.0.2.1", "redfish address=https://192.0.2.1", "redfish 192.0.2.1:443"},
		{"redfish:192.0.2.1:8443" + system, "redfish address=https://192.0.2.1:8443 system_id=" + system, "redfish 192.0.2.1:8443 " + system},
		{"redfish://192.0.2.1:" + system, "redfish address=https://192.0.2.1 system_id=" + system, "redfish 192.0.2.1:443 " + system},
		{"redfish://192.0.2.1" + system, "redfish address=https://192.0.2.1 system_id=" + system, "redfish 192.0.2.1:443 " + system},
		{"redfish://[2001:db8::1]" + system + "/", "redfish address=https://[2001:db8::1] system_id=" + system + "/", "redfish [2001:db8::1]:443 " + system},
		{"redfish://[2001:DB8::1]:8443", "redfish address=https://[2001:DB8::1]:8443", "redfish [2001:db8::1]:8443"},
		{"redfish+http://192.0.2.1:8000" + system, "redfish address=http://192.0.2.1:8000 system_id=" + system, "redfish 192.0.2.1:8000 " + system},
		{"redfish+https://192.0.2.1" + system, "redfish address=https://192.0.2.1 system_id=" + system, "redfish 192.0.2.1:443 " + system},
		{"REDFISH+HTTP://bmc", "redfish address=http://bmc", "redfish bmc:80"},
		{"redfish://bmc_1.example.org.", "redfish address=https://bmc_1.example.org.", "redfish bmc_1.example.org:443"},
		// A host may have the name of a scheme.
		{"redfish://ipmi:8443", "redfish address=https://ipmi:8443", "redfish ipmi:8443"},
		{"ipmi://https", "ipmi address=https port=623 priv_level=ADMINISTRATOR", "ipmi https:623"},
		{"ilo5-redfish://192.0.2.1" + system, "redfish address=https://192.0.2.1 system_id=" + system, "redfish 192.0.2.1:443 " + system},
		{"ilo5-virtualmedia+http://192.0.2.1" + system, "redfish address=http://192.0.2.1 system_id=" + system, "redfish 192.0.2.1:80 " + system},
		{"redfish-uefihttp://192.0.2.1" + system, "redfish address=https://192.0.2.1 system_id=" + system, "redfish 192.0.2.1:443 " + system},
		{"idrac-redfish://192.0.2.1:443/redfish/v1/Systems/System.Embedded.1", "idrac address=https://192.0.2.1:443 system_id=/redfish/v1/Systems/System.Embedded.1", "redfish 192.0.2.1:443 /redfish/v1/Systems/System.Embedded.1"},
		{"idrac-virtualmedia+http://bmc.example.org/redfish/v1/Systems/System.Embedded.1", "idrac address=http://bmc.example.org system_id=/redfish/v1/Systems/System.Embedded.1", "redfish bmc.example.org:80 /redfish/v1/Systems/System.Embedded.1"},

		// Other paths than /redfish/v1/Systems may lead to systems.
		{"redfish+http://192.0.2.1/foo/bar", "redfish address=http://192.0.2.1 system_id=/foo/bar", "redfish 192.0.2.1:80 /foo/bar"},
		{"redfish://192.0.2.1/redfish/v1/Nodes/1", "redfish address=https://192.0.2.1 system_id=/redfish/v1/Nodes/1", "redfish 192.0.2.1:443 /redfish/v1/Nodes/1"},
		{"redfish://192.0.2.1/redfish/v1/Systems/Managers", "redfish address=https://192.0.2.1 system_id=/redfish/v1/Systems/Managers", "redfish 192.0.2.1:443 /redfish/v1/Systems/Managers"},
		{"redfish://192.0.2.1/Managers/1", "redfish address=https://192.0.2.1 system_id=/Managers/1", "redfish 192.0.2.1:443 /Managers/1"},
		// Ironic encodes what it is told: a space, a question mark, or a number sign can be in a name.
		{"redfish://192.0.2.1/redfish/v1/Systems/vm 1", "redfish address=https://192.0.2.1 system_id=/redfish/v1/Systems/vm 1", "redfish 192.0.2.1:443 /redfish/v1/Systems/vm 1"},
		{"redfish://192.0.2.1/redfish/v1/Systems/vm%201", "redfish address=https://192.0.2.1 system_id=/redfish/v1/Systems/vm 1", "redfish 192.0.2.1:443 /redfish/v1/Systems/vm 1"},
		{"redfish://192.0.2.1/redfish/v1/Systems/a%3Fb%23c%40d", "redfish address=https://192.0.2.1 system_id=/redfish/v1/Systems/a?b#c@d", "redfish 192.0.2.1:443 /redfish/v1/Systems/a?b#c@d"},
		// One system, however it is spelt.
		{"redfish://192.0.2.1/redfish/v1//Systems/./1/", "redfish address=https://192.0.2.1 system_id=/redfish/v1//Systems/./1/", "redfish 192.0.2.1:443 " + system},
		{"redfish://192.0.2.1/redfish/v1/../v1/Systems/1", "redfish address=https://192.0.2.1 system_id=/redfish/v1/../v1/Systems/1", "redfish 192.0.2.1:443 " + system},
	} {
		if err := Check(c.address); err != nil {
			t.Errorf("%q: %v", c.address, err)
			continue
		}
		access, err := Parse(c.address, false)
		if err != nil {
			t.Errorf("%q: %v", c.address, err)
			continue
		}
		if got := told(access); got != c.told {
			t.Errorf("%q: Ironic is told %q, want %q", c.address, got, c.told)
		}
		if got := access.Key().String(); got != c.key {
			t.Errorf("%q has the key %q, want %q", c.address, got, c.key)
		}
		// Otherwise, a node that is created for the host would be deleted as that of another BMC, again and again.
		info := access.DriverInfo("admin", "secret")
		text := func(key string) string {
			if value, ok := info[key]; ok {
				return fmt.Sprint(value)
			}
			return ""
		}
		if got := RegisteredKey(text("redfish_address"), text("redfish_system_id"), text("ipmi_address"), text("ipmi_port")); !got.Matches(access.Key()) || !access.Key().Matches(got) {
			t.Errorf("%q: the node of the host has the key %q, and the host %q", c.address, got, access.Key())
		}
	}
}

// TestWarning: what BMCs may have, and nearly none has, is accepted with a warning.
func TestWarning(t *testing.T) {
	for address, want := range map[string]string{
		"idrac-virtualmedia://192.0.2.1/System.Embedded.1/":              "/redfish/v1/Systems/System.Embedded.1",
		"redfish+http://192.0.2.1:8000/Systems/1":                        "/redfish/v1/Systems/1",
		"redfish://192.0.2.1/proxy/redfish/v1/Systems/1":                 "/redfish/v1/Systems/1",
		"redfish://192.0.2.1/redfish/Systems/1":                          "/redfish/v1/Systems/1",
		"redfish://192.0.2.1/redfish/v1/System.Embedded.1":               "/redfish/v1/Systems/System.Embedded.1",
		"redfish://192.0.2.1/redfish/v1/Systems/1/":                      "",
		"redfish://192.0.2.1/Redfish/v1/systems/1":                       "",
		"redfish://192.0.2.1/redfish/v1/Nodes/1":                         "",
		"redfish-virtualmedia://[2001:db8::1]:8443/redfish/v1/Systems/1": "",
		"redfish://192.0.2.1/redfish/v1/":                                "",
		"redfish://192.0.2.1/":                                           "",
		"redfish://192.0.2.1":                                            "",
		"ipmi://192.0.2.1/ignored":                                       "",
		"nonsense://192.0.2.1/1":                                         "",
		"redfish://192.0.2.1/redfish":                                    "", // refused
	} {
		if got := Warning(address); (got == "") != (want == "") || !strings.HasSuffix(got, want) {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}

// TestRefused has what is wrong with addresses, and whether hosts that have them already can go on with them.
func TestRefused(t *testing.T) {
	const (
		system   = "/redfish/v1/Systems/1"
		isStored = true
	)
	for _, c := range []struct {
		address, message string
		isUnderstood     bool
	}{
		{"redfish://[fe80::1%eth0]" + system, "the zone of an IPv6 address is written with %25", false},
		{"redfish://[fe80::1%25eth0]:443/%zz", "invalid URL escape", false},
		{"redfish-virtualmedia://[192.0.2.1]:9000" + system, "brackets are for IPv6 addresses: write 192.0.2.1 without them", false},
		// A path of Redfish without its scheme.
		{"192.0.2.1" + system, "the path is one of Redfish, which IPMI does not know: begin the address with redfish://", isStored},
		{"192.0.2.1:443/REDFISH", "begin the address with redfish://", isStored},
		{"redfish//192.0.2.1" + system, "begin the address with redfish://", isStored},
		// A second scheme.
		{"redfish-virtualmedia://https://192.0.2.1" + system, "two schemes, redfish-virtualmedia and https: write redfish-virtualmedia://192.0.2.1" + system, isStored},
		{"redfish-virtualmedia+https://http://192.0.2.1" + system, "two schemes, redfish-virtualmedia+https and http: write redfish-virtualmedia+http://192.0.2.1" + system, isStored},
		{"redfish://HTTPS://[2001:db8::1]:8443", "write redfish://[2001:db8::1]:8443", isStored},
		{"idrac-virtualmedia+http://https:/192.0.2.1", "write idrac-virtualmedia://192.0.2.1", isStored},
		{"redfish:https://192.0.2.1", "two schemes, redfish and https: write redfish://192.0.2.1", false},
		{"ipmi://ipmi://192.0.2.1", "two schemes, ipmi and ipmi: write ipmi://192.0.2.1", isStored},
		{"ipmi://https://192.0.2.1", "write ipmi://192.0.2.1", isStored},
		{"ipmi://redfish://192.0.2.1", "write redfish://192.0.2.1", isStored},
		{"https://redfish://192.0.2.1", "write redfish://192.0.2.1", false},
		{"redfish://https//192.0.2.1" + system, "begins with more than one slash", isStored},

		// Spaces, and what looks like one.
		{"redfish://192.0.2.1" + system + " ", "begins or ends with a space", isStored},
		{" redfish://192.0.2.1" + system, "begins or ends with a space", false},
		{"redfish://192.0.2.1" + system + "\n", "begins or ends with a space", false},
		{"redfish://192.0.2.1" + system + "\u00a0", "begins or ends with a space", isStored},
		{" ", "begins or ends with a space", false},
		{"redfish://192.0.2.1/redfish/v1/\tSystems/1", "invisible character", false},
		{"redfish://192.0.2.1" + system + "\u200b", "invisible character", isStored},
		{"\ufeffredfish://192.0.2.1" + system, "invisible character", false},
		{"redfish://192.0.2.1" + system + "%e2%80%8b", "encoded invisible character", isStored},
		{"redfish://192.0.2.1" + system + "%00", "characters that are not text", false},
		{"redfish://192.0.2.1/redfish/v1/Systems/%ff", "characters that are not text", false},
		{"redfish: //192.0.2.1", "invalid character", false},
		{"red fish://192.0.2.1", `unknown type "red fish"`, false},
		{"ipmi://192.0.2.1 :623", "invalid character", false},

		// Paths of Redfish that are not those of systems.
		{"redfish://192.0.2.1/redfish/v1/Managers/1", "leads to Managers, which is not a Redfish system: write that of a system, as in /redfish/v1/Systems/1", isStored},
		{"idrac-virtualmedia://192.0.2.1/redfish/v1/Managers/iDRAC.Embedded.1", "or leave the path out if the BMC has only one", isStored},
		{"redfish://192.0.2.1/redfish/v1/Managers", "leads to Managers", isStored},
		{"redfish://192.0.2.1/redfish/v1/chassis/1/", "leads to chassis", isStored},
		{"redfish://192.0.2.1/redfish/v1/Systems/../Chassis/1", "leads to Chassis", isStored},
		{"redfish://192.0.2.1/redfish/v1//UpdateService", "leads to UpdateService", isStored},
		{"redfish://192.0.2.1/redfish/v1/Systems", "all systems of the BMC", isStored},
		{"redfish://192.0.2.1/redfish/v1/Systems/", "all systems of the BMC", isStored},
		{"redfish://192.0.2.1/redfish/", "not that of a Redfish system", isStored},
		{"redfish://192.0.2.1//192.0.2.2" + system, "begins with more than one slash", isStored},

		// Query and fragment.
		{"redfish://192.0.2.1" + system + "?x=1#y", "must not have a fragment: leave out #y", isStored},
		{"redfish://192.0.2.1" + system + "#1", "leave out #1", isStored},
		{"redfish://192.0.2.1" + system + "?x=1", "must not have a query: leave out ?x=1", isStored},
		{"redfish://192.0.2.1?privilegelevel=OPERATOR", "must not have a query", isStored},
		{"ipmi://192.0.2.1#y", "leave out #y", isStored},
		{"libvirt://192.0.2.1:6233/?abc=def", "the query may have privilegelevel only: leave out abc", isStored},
		{"ipmi://192.0.2.1?privilegelevel=USER&privilegeLevel=USER", "leave out privilegeLevel", isStored},
		{"ipmi://192.0.2.1?privilegelevel=", "must have one value for privilegelevel", isStored},
		{"ipmi://192.0.2.1?privilegelevel=USER&privilegelevel=OPERATOR", "must have one value for privilegelevel", isStored},
		{"ipmi://192.0.2.1?privilegelevel=ROOT", "use ADMINISTRATOR, OPERATOR, USER, CALLBACK", false},
		{"ipmi://192.0.2.1?privilegelevel=%zz", "the query cannot be read", isStored},

		// Names that Ironic refuses.
		{"ipmi://bmc_7.example.org", "the first part of the name, bmc_7, has an underscore, which Ironic does not take with IPMI: write the IP address of the BMC, or give it a DNS name such as bmc-7", isStored},
		{"bmc_7:6230", "underscore", isStored},
		{"libvirt://a_b_c", "such as a-b-c", isStored},

		// Scheme, host and port.
		{"https://192.0.2.1" + system, `unknown type "https": write redfish://192.0.2.1` + system + ` to boot from the network, or redfish-virtualmedia://192.0.2.1` + system + ` to boot by virtual media`, false},
		{"http://192.0.2.1:8000" + system, `unknown type "http": write redfish+http://192.0.2.1:8000` + system + ` to boot from the network, or redfish-virtualmedia+http://192.0.2.1:8000` + system, false},
		{"HTTPS:192.0.2.1", `write redfish://192.0.2.1 to`, false},
		{"https:/192.0.2.1", `write redfish://192.0.2.1 to`, false},
		{"redfish-virtual-media+http://192.0.2.1", `unknown type "redfish-virtual-media+http": write redfish+http://192.0.2.1 to boot from the network, or redfish-virtualmedia+http://192.0.2.1 to`, false},
		{"idrac://192.0.2.1", `write idrac-redfish://192.0.2.1 to boot from the network, or idrac-virtualmedia://192.0.2.1 to`, false},
		{"ilo5://192.0.2.1", `or ilo5-virtualmedia://192.0.2.1 to`, false},
		{"irmc://192.0.2.1", `or redfish-virtualmedia://192.0.2.1 to`, false},
		{"http://root:s3cret@192.0.2.1", "spec.bmc.credentialsName", false},
		{"ilo4-virtualmedia://192.0.2.1", `unknown type "ilo4-virtualmedia": write ipmi://192.0.2.1`, false},
		{"ibmc://192.0.2.1", `write redfish://192.0.2.1 to`, false},
		{"redfish://2001:db8::1" + system, "in brackets", false},
		{"redfish:///redfish/v1/Systems/1", "no host", false},
		{"redfish://192.0.2.1:0", "not between 1 and 65535", false},
		{"redfish://192.0.2.1:-1", "invalid port", false},
		{"redfish://192.0.2.1:4294967739", "not between 1 and 65535", false},
		{"redfish://192.0.2.01", "neither an IP address nor a DNS name", false},

		// Credentials. TestParseHidesUserinfo has more of them.
		{"redfish://root:s3cret@192.0.2.1" + system, "spec.bmc.credentialsName", false},
		{"redfish://https://root:s3cret@192.0.2.1" + system, "spec.bmc.credentialsName", false},
		{" redfish://root:s3cret@192.0.2.1", "spec.bmc.credentialsName", false},
		{"", "is empty", false},
	} {
		err := Check(c.address)
		if err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%q: %v, want %q", c.address, err, c.message)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: the error shows the password: %v", c.address, err)
		}
		if _, err := Parse(c.address, false); (err == nil) != c.isUnderstood {
			t.Errorf("%q: a host that has it already: %v", c.address, err)
		}
	}
}
