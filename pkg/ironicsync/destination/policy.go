// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/weburl"
)

// lookupTimeout bounds how long a name is looked up.
const lookupTimeout = 2 * time.Second

// Resolver looks up the addresses of a name; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Policy is which destinations are allowed.
type Policy struct {
	// Schemes are the allowed schemes, in lower case; none means all.
	Schemes []string
	// Hosts are the allowed destinations; none means all.
	Hosts Hosts
	// AllowLocal allows addresses that are local to Ironic's own machine or network segment:
	// loopback, link-local and unspecified ones. They are where the services of that machine
	// listen that need no password, and where clouds serve the credentials of machines.
	AllowLocal bool
	// Resolver looks up names; nil means net.DefaultResolver.
	Resolver Resolver
}

// NotAllowedError says why a destination is not allowed. It does not tell to which addresses a
// name resolves.
type NotAllowedError struct{ message string }

func (e *NotAllowedError) Error() string { return e.message }

func notAllowed(format string, args ...any) error {
	return &NotAllowedError{fmt.Sprintf(format, args...)}
}

// CheckURL checks the URL of an image, of firmware or the like. A text that is no URL, as a checksum may
// be, is allowed. So is a user name and password, which are refused when they are written: an object
// from before keeps them.
func (p Policy) CheckURL(ctx context.Context, text string) error {
	if !weburl.IsURL(text) {
		return nil
	}
	parsed, err := weburl.Parse(text, weburl.Image)
	if err != nil {
		return notAllowed("it is not allowed: it %s", err)
	}
	return p.Check(ctx, parsed.Scheme, parsed.Hostname())
}

// CheckImage checks the URL and the checksum of an image, which can be nil. The error names the field.
func (p Policy) CheckImage(ctx context.Context, image *metal3.Image) error {
	if image == nil {
		return nil
	}
	if err := p.CheckURL(ctx, image.URL); err != nil {
		return fmt.Errorf("image.url: %w", err)
	}
	if err := p.CheckURL(ctx, image.Checksum); err != nil {
		return fmt.Errorf("image.checksum: %w", err)
	}
	return nil
}

// Check returns a NotAllowedError if the destination is not allowed. Names are looked up, so that
// it is the addresses that count. A name that cannot be looked up from here is allowed if Hosts
// does not restrict destinations: Ironic may use another DNS.
func (p Policy) Check(ctx context.Context, scheme, host string) error {
	if len(p.Schemes) > 0 && !slices.Contains(p.Schemes, scheme) {
		return notAllowed("the scheme %s is not allowed; use one of %s", scheme, strings.Join(p.Schemes, ", "))
	}
	if p.AllowLocal && p.Hosts.isAll() {
		return nil
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	addresses, err := p.Addresses(ctx, host)
	if err != nil {
		if p.Hosts.isAll() || p.Hosts.hasName(host) {
			return nil
		}
		return notAllowed("the host %s is not allowed, and its addresses cannot be looked up", host)
	}
	if !p.AllowLocal && slices.ContainsFunc(addresses, isLocal) {
		return notAllowed("the host %s has a loopback, link-local or unspecified address, which is not allowed", host)
	}
	if !p.Hosts.allow(host, addresses) {
		return notAllowed("the host %s is not among those that the administrator has allowed", host)
	}
	return nil
}

// Addresses returns the addresses of a host, which is an address or a name, without zones. An error means that the name cannot be looked up, or
// has none. (Those of netip are compared with their zones, but the C library
// takes a number as the zone of any address: [::%1] is the unspecified address, and connects to the machine itself.)
func (p Policy) Addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if address, ok := parseAddress(host); ok {
		return []netip.Addr{address.WithZone("")}, nil
	}
	if slices.Contains(localNames, host) || strings.HasSuffix(host, ".localhost") {
		return []netip.Addr{netip.IPv6Loopback()}, nil
	}
	var resolver Resolver = net.DefaultResolver
	if p.Resolver != nil {
		resolver = p.Resolver
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	// With a dot at the end, no search domain is tried: names such as kubernetes.default would
	// otherwise be looked up in this cluster.
	addresses, err := resolver.LookupNetIP(ctx, "ip", host+".")
	if err == nil && len(addresses) == 0 {
		err = fmt.Errorf("the name %s has no addresses", host)
	}
	for i := range addresses {
		addresses[i] = addresses[i].Unmap().WithZone("")
	}
	return addresses, err
}

// localNames are names of the machine itself, also those that distributions write into /etc/hosts: our DNS need not know them.
var localNames = []string{
	"localhost", "localhost.localdomain", "localhost4", "localhost4.localdomain4", "localhost6", "localhost6.localdomain6",
	"ip6-localhost", "ip6-loopback", "ipv6-localhost", "ipv6-loopback",
}

// isLocal reports whether an address is local to the machine or network segment of whoever
// connects to it.
func isLocal(address netip.Addr) bool {
	return address.IsLoopback() || address.IsLinkLocalUnicast() || address.IsMulticast() || thisNetwork.Contains(address) || address.IsUnspecified()
}

// thisNetwork are addresses that Linux takes for those of the machine itself.
var thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
