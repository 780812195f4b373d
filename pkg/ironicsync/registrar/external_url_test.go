// SPDX-License-Identifier: Apache-2.0

package registrar

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/destination"
)

// names are what a resolver knows.
type names map[string][]string

func (n names) LookupNetIP(_ context.Context, _, host string) (addresses []netip.Addr, err error) {
	for _, address := range n[host] {
		addresses = append(addresses, netip.MustParseAddr(address))
	}
	if len(addresses) == 0 {
		err = errors.New("no such host")
	}
	return addresses, err
}

// TestExternalURL: a BMC fetches virtual media from the URL for IPv6 if it has no IPv4 address, whether it is given by address or by name.
func TestExternalURL(t *testing.T) {
	const v6 = "http://[2001:db8::2]:6180"
	known := names{"six.example.com.": {"2001:db8::1"}, "both.example.com.": {"2001:db8::1", "192.0.2.1"}, "four.example.com.": {"192.0.2.1"}}
	for address, test := range map[string]struct {
		url   any
		keeps bool
	}{
		"redfish-virtualmedia+http://[2001:db8::1]:8000/redfish/v1/Systems/1": {url: v6},
		"ipmi://[2001:db8::1]:623":               {url: v6},
		"redfish://192.0.2.1":                    {},
		"redfish://[::ffff:192.0.2.1]":           {},
		"redfish-virtualmedia://six.example.com": {url: v6},
		"ipmi://six.example.com":                 {url: v6},
		"redfish://both.example.com":             {},
		"redfish://four.example.com":             {},
		"redfish://unknown.example.com":          {keeps: true},
	} {
		for _, configured := range []string{v6, ""} {
			r := requirements{ironic: oldIronic{}, settings: Settings{BMCs: destination.Policy{Resolver: known}, Ramdisk: deploy.Ramdisk{ExternalURLv6: configured}}}
			access, err := bmc.Parse(address, false)
			if err != nil {
				t.Fatal(err)
			}
			wanted, err := r.wantedOf(t.Context(), new(metal3.BareMetalHost), access)
			if err != nil {
				t.Fatal(err)
			}
			if configured == "" {
				test.url, test.keeps = nil, false
			}
			if wanted.ramdisk[externalURLKey] != test.url || wanted.keepsExternalURL != test.keeps {
				t.Errorf("%s, where %q is configured: %v, keeps what it has: %t", address, configured, wanted.ramdisk[externalURLKey], wanted.keepsExternalURL)
			}
		}
	}
}
