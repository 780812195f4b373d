// SPDX-License-Identifier: Apache-2.0

package registrar

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
)

// TestDriverInfoPatches: a PATCH is sent for what Ironic would do differently, and for nothing else.
func TestDriverInfoPatches(t *testing.T) {
	const persistent, address = "force_persistent_boot_device", "ipmi_address"
	type info = map[string]any
	add := func(key string, value any) []ironic.Patch {
		return []ironic.Patch{{Op: ironic.PatchAdd, Path: "/driver_info/" + key, Value: value}}
	}
	for name, test := range map[string]struct {
		current, wanted info
		passwordKnown   bool
		patches         []ironic.Patch
	}{
		"the same":                             {current: info{address: "192.0.2.1"}, wanted: info{address: "192.0.2.1"}},
		"another address":                      {current: info{address: "192.0.2.1"}, wanted: info{address: "192.0.2.2"}, patches: add(address, "192.0.2.2")},
		"no address":                           {wanted: info{address: "192.0.2.2"}, patches: add(address, "192.0.2.2")},
		"a default that is missing":            {wanted: info{persistent: "Default"}},
		"a default that is null":               {current: info{persistent: nil}, wanted: info{persistent: "Default"}},
		"a default, and something else":        {current: info{persistent: "Never"}, wanted: info{persistent: "Default"}, patches: add(persistent, "Default")},
		"no default":                           {wanted: info{persistent: "Never"}, patches: add(persistent, "Never")},
		"a password that is not known":         {current: info{"ipmi_password": "******"}, wanted: info{"ipmi_password": "secret"}, patches: add("ipmi_password", "secret")},
		"a password that is not there":         {wanted: info{"ipmi_password": "secret"}, passwordKnown: true, patches: add("ipmi_password", "secret")},
		"a password of another user":           {current: info{"ipmi_password": "******", "ipmi_username": "root"}, wanted: info{"ipmi_password": "secret", "ipmi_username": "admin"}, passwordKnown: true, patches: append(add("ipmi_password", "secret"), add("ipmi_username", "admin")...)},
		"a password of another BMC":            {current: info{"ipmi_password": "******", address: "192.0.2.1"}, wanted: info{"ipmi_password": "secret", address: "192.0.2.2"}, passwordKnown: true, patches: append(add(address, "192.0.2.2"), add("ipmi_password", "secret")...)},
		"a password of a BMC spelt otherwise":  {current: info{"ipmi_password": "******", address: "BMC-1.Example.org"}, wanted: info{"ipmi_password": "secret", address: "bmc-1.example.org"}, passwordKnown: true, patches: add(address, "bmc-1.example.org")},
		"a password that is known":             {current: info{"ipmi_password": "******"}, wanted: info{"ipmi_password": "secret"}, passwordKnown: true},
		"what others have set stays":           {current: info{"console_port_range": "1:2"}, wanted: info{}},
		"what a setting said that is gone now": {current: info{"ipmi_verify_ca": false}, wanted: info{}, patches: []ironic.Patch{{Op: ironic.PatchRemove, Path: "/driver_info/ipmi_verify_ca"}}},
	} {
		if diff := cmp.Diff(test.patches, driverInfoPatches(test.current, test.wanted, test.passwordKnown)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestMissing: what a registration lacks is told with it, in words that tell nothing of a password.
func TestMissing(t *testing.T) {
	host := &metal3.BareMetalHost{Spec: metal3.BareMetalHostSpec{BMC: metal3.BMCDetails{CredentialsName: "bmc"}}}
	const advice = ". If the BMC refuses the credentials, give its user shorter ones"
	for name, test := range map[string]struct{ address, username, password, want string }{
		"nothing":         {"ipmi://192.0.2.1", "admin", "s3cret-s3cret-s3cret", ""},
		"a long password": {"ipmi://192.0.2.1", "admin", "s3cret-s3cret-s3cret-s3c", `Secret "bmc": the password has more bytes than IPMI takes, which is 20` + advice},
		"both":            {"ipmi://192.0.2.1", "admin-of-the-machines", "s3cret-s3cret-s3cret-s3c", `Secret "bmc": the username has more bytes than IPMI takes, which is 16, and the password has more bytes than IPMI takes, which is 20` + advice},
		"Redfish":         {"redfish://192.0.2.1", "admin", "s3cret-s3cret-s3cret-s3c", ""},
	} {
		access, err := bmc.Parse(test.address, false)
		if err != nil {
			t.Fatal(err)
		}
		reg := registration{host: host, wanted: &wantedNode{access: access}, credentials: secrets.Credentials{Username: test.username, Password: test.password}}
		if got := reg.missing(nil); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
