// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParseInterfaces(t *testing.T) {
	redfish := Access{
		Driver: "redfish", BootInterface: "ipxe", RAIDInterface: "redfish", FirmwareInterface: "redfish",
		FastInspectInterface: "redfish", SupportsSecureBoot: true, RequiresProvisioningNetwork: true,
	}
	virtualMedia := redfish
	virtualMedia.BootInterface = "redfish-virtual-media"
	virtualMedia.SupportsISO, virtualMedia.RequiresProvisioningNetwork = true, false
	https := virtualMedia
	https.BootInterface = "redfish-https"
	idrac := redfish
	idrac.Driver = "idrac"
	idrac.RAIDInterface, idrac.BIOSInterface, idrac.ManagementInterface = "idrac-redfish", "idrac-redfish", "idrac-redfish"
	idrac.PowerInterface, idrac.VendorInterface, idrac.FastInspectInterface = "idrac-redfish", "idrac-redfish", "idrac-redfish"
	idracMedia := idrac
	idracMedia.BootInterface = "idrac-redfish-virtual-media"
	idracMedia.SupportsISO, idracMedia.RequiresProvisioningNetwork = true, false
	ipmi := Access{Driver: "ipmi", BootInterface: "ipxe", RAIDInterface: "no-raid", RequiresProvisioningNetwork: true}
	libvirt := ipmi
	libvirt.NeedsMAC = true

	for scheme, want := range map[string]Access{
		"ipmi":                 ipmi,
		"libvirt":              libvirt,
		"redfish":              redfish,
		"ilo5-redfish":         redfish,
		"redfish-virtualmedia": virtualMedia,
		"ilo5-virtualmedia":    virtualMedia,
		"redfish-uefihttp":     https,
		"idrac-redfish":        idrac,
		"idrac-virtualmedia":   idracMedia,
	} {
		variants := []string{scheme, strings.ToUpper(scheme)}
		if want.Driver != "ipmi" {
			variants = append(variants, scheme+"+http", scheme+"+https")
		}
		want.Scheme = scheme
		for _, variant := range variants {
			got, err := Parse(variant+"://192.0.2.1", false)
			if err != nil {
				t.Errorf("%s: %v", variant, err)
				continue
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Access{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", variant, diff)
			}
		}
	}
}

func ipmiInfo(address, port string) map[string]any {
	return map[string]any{
		"ipmi_address": address, "ipmi_port": port, "ipmi_priv_level": "ADMINISTRATOR",
		"ipmi_username": "admin", "ipmi_password": "secret",
	}
}

func redfishInfo(address, system string) map[string]any {
	info := map[string]any{
		"redfish_address": address, "redfish_username": "admin", "redfish_password": "secret",
	}
	if system != "" {
		info["redfish_system_id"] = system
	}
	return info
}

func with(info map[string]any, key string, value any) map[string]any {
	info[key] = value
	return info
}

func TestDriverInfo(t *testing.T) {
	tests := []struct {
		address  string
		insecure bool
		want     map[string]any
	}{
		{address: "192.0.2.1", want: ipmiInfo("192.0.2.1", "623")},
		{address: "192.0.2.1:6233", want: ipmiInfo("192.0.2.1", "6233")},
		{address: "bmc-1.example.org", want: ipmiInfo("bmc-1.example.org", "623")},
		{address: "bmc-1.example.org:6233", want: ipmiInfo("bmc-1.example.org", "6233")},
		{address: "bmc_1:6233", want: ipmiInfo("bmc_1", "6233")},
		{address: "[2001:db8::1]", want: ipmiInfo("2001:db8::1", "623")},
		{address: "[2001:db8::1]:6233", want: ipmiInfo("2001:db8::1", "6233")},
		{address: "ipmi:192.0.2.1", want: ipmiInfo("192.0.2.1", "623")},
		{address: "ipmi:192.0.2.1:6233", want: ipmiInfo("192.0.2.1", "6233")},
		{address: "ipmi:[2001:db8::1]:6233", want: ipmiInfo("2001:db8::1", "6233")},
		{address: "ipmi://192.0.2.1", want: ipmiInfo("192.0.2.1", "623")},
		{address: "IPMI://192.0.2.1:6233/", want: ipmiInfo("192.0.2.1", "6233")},
		{address: "ipmi://[2001:db8::1]:6233", want: ipmiInfo("2001:db8::1", "6233")},
		{address: "libvirt://192.0.2.1:6230/", want: ipmiInfo("192.0.2.1", "6230")},
		{
			address: "ipmi://192.0.2.1?privilegelevel=OPERATOR",
			want:    with(ipmiInfo("192.0.2.1", "623"), "ipmi_priv_level", "OPERATOR"),
		},
		{
			address: "ipmi://192.0.2.1:6233?privilegelevel=user",
			want:    with(ipmiInfo("192.0.2.1", "6233"), "ipmi_priv_level", "USER"),
		},
		{
			address: "ipmi://192.0.2.1", insecure: true,
			want: with(ipmiInfo("192.0.2.1", "623"), "ipmi_verify_ca", false),
		},

		{address: "redfish://192.0.2.1", want: redfishInfo("https://192.0.2.1", "")},
		{address: "redfish://192.0.2.1/", want: redfishInfo("https://192.0.2.1", "")},
		{address: "redfish://192.0.2.1/redfish/v1", want: redfishInfo("https://192.0.2.1", "")},
		{address: "redfish://192.0.2.1/redfish/v1/", want: redfishInfo("https://192.0.2.1", "")},
		{
			address: "redfish://192.0.2.1/redfish/v1/Systems/1",
			want:    redfishInfo("https://192.0.2.1", "/redfish/v1/Systems/1"),
		},
		{
			address: "redfish:192.0.2.1:8443/redfish/v1/Systems/1",
			want:    redfishInfo("https://192.0.2.1:8443", "/redfish/v1/Systems/1"),
		},
		{
			address: "redfish+http://[2001:db8::1]:8000/redfish/v1/Systems/a",
			want:    redfishInfo("http://[2001:db8::1]:8000", "/redfish/v1/Systems/a"),
		},
		{
			address: "redfish-virtualmedia+https://[2001:db8::1]/redfish/v1/Systems/a",
			want:    redfishInfo("https://[2001:db8::1]", "/redfish/v1/Systems/a"),
		},
		{
			address: "redfish-uefihttp://192.0.2.1/redfish/v1/Systems/1",
			want:    redfishInfo("https://192.0.2.1", "/redfish/v1/Systems/1"),
		},
		{
			address: "idrac-virtualmedia://192.0.2.1/redfish/v1/Systems/System.Embedded.1", insecure: true,
			want: with(redfishInfo("https://192.0.2.1", "/redfish/v1/Systems/System.Embedded.1"), "redfish_verify_ca", false),
		},
	}
	for _, test := range tests {
		access, err := Parse(test.address, test.insecure)
		if err != nil {
			t.Errorf("%s: %v", test.address, err)
			continue
		}
		if diff := cmp.Diff(test.want, access.DriverInfo("admin", "secret")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.address, diff)
		}
	}
}

func TestParseErrors(t *testing.T) {
	tests := []struct {
		address string
		want    string
	}{
		{"", "is empty"},
		{"foo://192.0.2.1", `"foo://192.0.2.1": unknown type "foo"; use one of ipmi://, libvirt://, redfish://`},
		{"foo:192.0.2.1", `unknown type "foo"`},
		{"ipmi+http://192.0.2.1", `unknown type "ipmi+http"`},
		{"redfish+ftp://192.0.2.1", `unknown type "redfish+ftp"`},
		{"idrac://192.0.2.1", `unknown type "idrac"`},
		{"://192.0.2.1", `unknown type ""`},
		{"ipmi://", "no host"},
		{"ipmi:", "no host"},
		{"redfish:///redfish/v1/Systems/1", "no host"},
		{"ipmi://192.0.2.1:0", "port 0 is not between 1 and 65535"},
		{"ipmi://192.0.2.1:65536", "port 65536 is not between 1 and 65535"},
		{"ipmi://192.0.2.1:abc", "invalid port"},
		{"ipmi://192.0.2.256", "neither an IP address nor a DNS name"},
		{"ipmi://host name", "invalid character"},
		{"ipmi://-host", "neither an IP address nor a DNS name"},
		{"ipmi://a..b", "neither an IP address nor a DNS name"},
		{"2001:db8::1", "in brackets"},
		{"ipmi://2001:db8::1", "in brackets"},
		{"ipmi://[2001:db8::1", "missing ']'"},
		{"ipmi://192.0.2.1?privilegelevel=ROOT", "ADMINISTRATOR, OPERATOR, USER, CALLBACK"},
		{"ipmi://192.0.2.1/\x7f", "invalid control character"},
	}
	for _, test := range tests {
		access, err := Parse(test.address, false)
		if err == nil {
			t.Errorf("%q was accepted: %+v", test.address, access)
			continue
		}
		if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: error %q does not contain %q", test.address, err, test.want)
		}
	}
}

// A user may write the password into the address. It must not come back.
func TestParseHidesUserinfo(t *testing.T) {
	for _, address := range []string{
		"ipmi://root:s3cret@192.0.2.1",
		"ipmi://root:s3cret/s3cret@192.0.2.1",
		"ipmi://root:s3cret@s3cret@192.0.2.1",
		"ipmi://root:s3cret://s3cret@192.0.2.1",
		"root:s3cret@192.0.2.1",
		"root:s3cret@s3cret://s3cret@192.0.2.1",
		"root@192.0.2.1",
		"foo://root:s3cret@192.0.2.1",
		"redfish+http://root:%s3cret@192.0.2.1",
		"ipmi://root:99999/s3cret@192.0.2.1",
	} {
		_, err := Parse(address, false)
		if err == nil {
			t.Errorf("%s was accepted", address)
			continue
		}
		for _, secret := range []string{"root", "s3cret", "99999"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: error tells %q: %v", address, secret, err)
			}
		}
		if !strings.Contains(err.Error(), "192.0.2.1") || !strings.Contains(err.Error(), "credentialsName") {
			t.Errorf("%s: error does not help: %v", address, err)
		}
	}
}

// TestTooLong: what IPMI cannot carry is told, and nothing of it.
func TestTooLong(t *testing.T) {
	longName, longPassword := strings.Repeat("u", 17), strings.Repeat("s3cret", 4)
	const name, password = "the username has more bytes than IPMI takes, which is 16", "the password has more bytes than IPMI takes, which is 20"
	for _, test := range []struct {
		address, username, password string
		want                        []string
	}{
		{"ipmi://192.0.2.1", longName[:16], longPassword[:20], nil},
		{"ipmi://192.0.2.1", "root", longPassword[:21], []string{password}},
		{"libvirt://192.0.2.1:6230", longName, longPassword, []string{name, password}},
		{"ipmi://192.0.2.1", "root", strings.Repeat("ü", 11), []string{password}},
		{"redfish://192.0.2.1", longName, longPassword, nil},
	} {
		access, err := Parse(test.address, false)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, access.TooLong(test.username, test.password)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.address, diff)
		}
	}
}
