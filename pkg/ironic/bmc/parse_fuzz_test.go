// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// FuzzParse: whatever somebody takes for an address, nothing panics, no error tells
// a password, what is accepted has all that Ironic needs, and the address that this
// makes is understood just so.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", ":", "://", "[", "192.0.2.1:623", "ipmi://[2001:db8::1]:6233", "redfish+http://a/redfish/v1/Systems/1",
		"idrac-virtualmedia://h/redfish/v1/Systems/System.Embedded.1", "ipmi:h:1?privilegelevel=user", "libvirt://%zz", "a:1/b", "ipmi://[fe80::1%25eth0]", "ipmi://[::1%25\xffth0]",
		"REDFISH-UEFIHTTP+HTTPS://h:8443", "ilo5-redfish:h", "redfish://h/a%2fb%20c?d#e", "redfish://h//", "ipmi://h?privilegelevel=%41DMINISTRATOR",
		"redfish://[::ffff:192.0.2.1]/a", "ipmi://h.:1", "ipmi://1.2.3", "redfish://h/%00", "redfish:///h", "ipmi://h:00623",
		"0." + strings.Repeat("\x86", 3000), strings.Repeat("a", 3000) + "://", "ipmi://h:" + strings.Repeat("1", 3000), "ipmi://h:" + strings.Repeat("a", 3000), "ipmi://h?privilegelevel=" + strings.Repeat("a", 3000),
		"ipmi://" + strings.Repeat("%zz", 1000), "ipmi://[" + strings.Repeat("a", 3000),
		"redfish://https://h/a", "ipmi:redfish:/" + strings.Repeat("a", 3000), strings.Repeat("a", 3000) + "://" + strings.Repeat("b", 3000) + "://h", "redfish://h/ ?x#y", "ipmi://h?" + strings.Repeat("a", 3000),
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, address string, skipVerify bool) {
		checkNoPassword(t, address)
		access, err := Parse(address, skipVerify)
		switch refusal := Check(address); {
		case refusal == nil && err != nil:
			t.Errorf("it may be written, but is not understood: %v", err)
		case refusal != nil && (refusal.Error() == "" || len(refusal.Error()) > 3000):
			t.Errorf("an error of %d bytes: %v", len(refusal.Error()), refusal)
		}
		if err != nil {
			if err.Error() == "" || len(err.Error()) > 3000 {
				t.Errorf("an error of %d bytes: %v", len(err.Error()), err)
			}
			return
		}
		if strings.Contains(address, "@") {
			t.Error("accepted with an @")
		}
		info := access.DriverInfo("u", "p")
		for key, value := range info {
			if text, ok := value.(string); ok && text == "" {
				t.Errorf("%s is empty", key)
			}
		}
		var told map[string]any
		if text, err := json.Marshal(info); err != nil || json.Unmarshal(text, &told) != nil || !cmp.Equal(info, told) {
			t.Errorf("Ironic is told %v instead of %v: %v", told, info, err)
		}
		again, err := Parse(addressOf(access), skipVerify)
		if err != nil {
			t.Fatalf("%q has become %v", address, err)
		}
		if diff := cmp.Diff(access, again, cmpopts.IgnoreUnexported(Access{})); diff != "" {
			t.Errorf("as %q it differs (-want +got):\n%s", addressOf(access), diff)
		}
		if diff := cmp.Diff(info, again.DriverInfo("u", "p")); diff != "" {
			t.Errorf("as %q it differs (-want +got):\n%s", addressOf(access), diff)
		}
	})
}

// addressOf writes out what an address was understood to mean.
func addressOf(access Access) string {
	info := access.DriverInfo("u", "p")
	if !access.redfish() {
		host := info["ipmi_address"].(string)
		if strings.Contains(host, ":") {
			host = "[" + strings.Replace(host, "%", "%25", 1) + "]"
		}
		return fmt.Sprintf("%s://%s:%s?privilegelevel=%s", access.Scheme, host, info["ipmi_port"], info["ipmi_priv_level"])
	}
	scheme, rest, _ := strings.Cut(info["redfish_address"].(string), "://")
	if host, zone, ok := strings.Cut(rest, "%"); ok {
		rest = host + "%25" + zone
	}
	path, _ := info["redfish_system_id"].(string)
	escaped := (&url.URL{Path: path}).EscapedPath()
	return access.Scheme + "+" + scheme + "://" + rest + strings.ReplaceAll(escaped, "@", "%40")
}

// checkNoPassword puts a user and a password into an address, wherever it can be
// taken apart, and looks for them in the error.
func checkNoPassword(t *testing.T, address string) {
	t.Helper()
	const user, password = "zq9xjkw7vb", "kx8yw5pq3m"
	at := 0
	if i := strings.Index(address, "://"); i >= 0 {
		at = i + len("://")
	}
	for _, cut := range []int{0, at, len(address) / 2, len(address)} {
		if strings.Contains(address[:cut], "@") {
			continue // that one begins what is told of the address
		}
		with := address[:cut] + user + ":" + password + "@" + address[cut:]
		err := Check(with)
		if err == nil {
			t.Errorf("%q was accepted", with)
			continue
		}
		for _, secret := range []string{user, password} {
			if strings.Contains(strings.ToLower(err.Error()), secret) {
				t.Errorf("the error about %q tells it: %v", with, err)
			}
		}
	}
}
