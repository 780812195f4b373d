// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// names is a DNS.
type names map[string][]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	found, ok := n[host]
	if !ok {
		return nil, errors.New("no such host")
	}
	var addresses []netip.Addr
	for _, address := range found {
		addresses = append(addresses, netip.MustParseAddr(address))
	}
	return addresses, nil
}

func TestPolicy(t *testing.T) {
	dns := names{
		"images.example.com.":   {"192.0.2.7"},
		"a.images.example.com.": {"203.0.113.1"},
		"both.example.com.":     {"192.0.2.8", "198.51.100.1"},
		"rebound.example.com.":  {"192.0.2.9", "127.0.0.1"},
		"metadata.example.com.": {"169.254.169.254"},
		"mapped.example.com.":   {"::ffff:127.0.0.1"},
	}
	for name, test := range map[string]struct {
		policy         Policy
		hosts          []string
		allow, refuse  []string
		refusalMessage string
	}{
		"default": {
			allow: []string{
				"http://192.0.2.1/a", "https://[2001:db8::1]/a", "http://10.0.0.1:8080/", "oci://images.example.com/a:b", "http://unknown.example.com/a",
				"d41d8cd98f00b204e9800998ecf8427e", "",
			},
			refuse: []string{
				"http://127.0.0.1/", "http://127.1.2.3:6385/", "http://[::1]/", "http://169.254.169.254/latest/meta-data/", "http://[fe80::1]/", "http://[fe80::1%25eth0]/",
				"http://0.0.0.0/", "http://0/", "http://[::]/", "http://[::ffff:127.0.0.1]/", "http://224.0.0.1/",
				"http://[::%251]/", "http://[::1%251]/", "http://[::ffff:127.0.0.1%251]/", "http://[ff02::1%25eth0]/",
				"http://localhost/", "http://LOCALHOST./", "http://a.localhost/", "http://localhost.localdomain/", "http://localhost6.localdomain6/", "http://ip6-loopback/",
				"http://2130706433/", "http://0x7f.1/", "http://127.1/", "http://0177.0.0.1/", "http://0x7f000001/", "http://1.2.3.4.5/", "http://1.2.3.999/",
				"http://rebound.example.com/", "http://metadata.example.com/", "http://METADATA.example.com./", "http://mapped.example.com/",
			},
			refusalMessage: "loopback, link-local or unspecified",
		},
		"local": {
			policy: Policy{AllowLocal: true},
			allow:  []string{"http://127.0.0.1/", "http://localhost/", "http://[fe80::1%25eth0]/", "http://metadata.example.com/"},
		},
		"schemes": {
			policy: Policy{Schemes: []string{"https", "oci"}},
			allow:  []string{"https://192.0.2.1/", "HTTPS://192.0.2.1/", "oci://images.example.com/a"},
			refuse: []string{"http://192.0.2.1/"}, refusalMessage: "use one of https, oci",
		},
		"what Ironic does not fetch from a server": {
			policy: Policy{AllowLocal: true},
			allow:  []string{"sha256:0123abcdef", "file", "/etc/passwd", "http://user:secret@192.0.2.1/"},
			refuse: []string{
				"ftp://192.0.2.1/", "gopher://192.0.2.1/", "file:///etc/passwd", "file:/etc/passwd", "FILE:///etc/passwd", " file:///etc/passwd", "\x00file:/etc/passwd", "fi\tle:/x",
				"swift:a", "http:192.0.2.1", "http://192。0.2.1/", "http://192.0.2.1/\u202ea",
			}, refusalMessage: "it is not allowed: it must be",
		},
		"names": {
			hosts: []string{"images.example.com", "*.mirror.example.com"},
			allow: []string{"http://images.example.com/", "http://Images.Example.com./", "http://a.mirror.example.com/"},
			refuse: []string{
				"http://a.images.example.com/", "http://mirror.example.com/", "http://xmirror.example.com/", "http://images.example.com.evil.example.net/", "http://192.0.2.7/",
			}, refusalMessage: "not a",
		},
		"a name that is allowed has a local address": {
			hosts: []string{"metadata.example.com"}, refuse: []string{"http://metadata.example.com/"}, refusalMessage: "link-local",
		},
		"networks": {
			hosts:  []string{"192.0.2.0/24", "2001:db8::/32", "203.0.113.1"},
			allow:  []string{"http://192.0.2.255/", "http://[2001:db8::1]/", "http://images.example.com/", "http://203.0.113.1/"},
			refuse: []string{"http://198.51.100.1/", "http://both.example.com/", "http://unknown.example.com/", "http://203.0.113.2/"}, refusalMessage: "not a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			policy := test.policy
			policy.Resolver = dns
			var err error
			if policy.Hosts, err = ParseHosts(test.hosts); err != nil {
				t.Fatal(err)
			}
			for _, text := range test.allow {
				if err := policy.CheckURL(t.Context(), text); err != nil {
					t.Errorf("%s: %v", text, err)
				}
			}
			for _, text := range test.refuse {
				err := policy.CheckURL(t.Context(), text)
				if refusal := new(NotAllowedError); !errors.As(err, &refusal) || !strings.Contains(err.Error(), test.refusalMessage) {
					t.Errorf("%s: %v, want a refusal with %q", text, err, test.refusalMessage)
				}
				if err != nil && (strings.Contains(err.Error(), "169.254") != strings.Contains(text, "169.254")) {
					t.Errorf("%s: the refusal tells what the name resolves to: %v", text, err)
				}
			}
		})
	}
}

func TestParseHosts(t *testing.T) {
	for _, bad := range []string{"", "*", "a b", "192.0.2.1/24", "192.0.2.256", "http://a", "*.*.a", "a:80", "2130706433"} {
		if _, err := ParseHosts([]string{"good.example.com", bad}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
