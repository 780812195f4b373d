// SPDX-License-Identifier: Apache-2.0

package destination

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Hosts are names and networks of hosts.
type Hosts struct {
	// names are in lower case. One that begins with a dot is that of a domain.
	names    []string
	networks []netip.Prefix
}

// ParseHosts parses names (host.example.com), domains (*.example.com), addresses and networks
// (192.0.2.0/24).
func ParseHosts(entries []string) (Hosts, error) {
	var hosts Hosts
	for _, entry := range entries {
		entry = strings.ToLower(entry)
		if network, err := netip.ParsePrefix(entry); err == nil {
			if network != network.Masked() {
				return hosts, fmt.Errorf("%s is not a network: its address has bits beyond the prefix; use %s", entry, network.Masked())
			}
			hosts.networks = append(hosts.networks, network)
			continue
		}
		if address, err := netip.ParseAddr(entry); err == nil {
			hosts.networks = append(hosts.networks, netip.PrefixFrom(address, address.BitLen()))
			continue
		}
		name, isDomain := strings.CutPrefix(entry, "*")
		if isDomain {
			name = strings.TrimPrefix(name, ".")
		}
		if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 || endsInNumber(name) {
			return hosts, fmt.Errorf("%q is neither a name (such as host.example.com or *.example.com) nor an address or network (such as 192.0.2.0/24)", entry)
		}
		if isDomain {
			name = "." + name
		}
		hosts.names = append(hosts.names, name)
	}
	return hosts, nil
}

func (h Hosts) isAll() bool { return len(h.names) == 0 && len(h.networks) == 0 }

// Equal reports whether both are the same names and networks, in the same order.
func (h Hosts) Equal(other Hosts) bool {
	return slices.Equal(h.names, other.names) && slices.Equal(h.networks, other.networks)
}

// allow reports whether a host is among these, by its name or because all of its addresses are.
func (h Hosts) allow(host string, addresses []netip.Addr) bool {
	if h.isAll() || h.hasName(host) {
		return true
	}
	return !slices.ContainsFunc(addresses, func(address netip.Addr) bool {
		return !slices.ContainsFunc(h.networks, func(n netip.Prefix) bool { return n.Contains(address) })
	})
}

func (h Hosts) hasName(host string) bool {
	return slices.ContainsFunc(h.names, func(name string) bool {
		return host == name || strings.HasPrefix(name, ".") && strings.HasSuffix(host, name)
	})
}

// parseAddress parses an IP address in all forms that the C library of Ironic accepts: an IPv4
// address may have fewer than four parts, and these may be octal or hexadecimal, as in 0x7f.1 and
// 2130706433, which are both 127.0.0.1.
func parseAddress(host string) (netip.Addr, bool) {
	if address, err := netip.ParseAddr(host); err == nil {
		return address.Unmap(), true
	}
	if !endsInNumber(host) {
		return netip.Addr{}, false
	}
	parts := strings.Split(host, ".")
	var bits uint64
	for i, part := range parts {
		width := 8
		if i == len(parts)-1 {
			width = 8 * (5 - len(parts))
		}
		number, err := strconv.ParseUint(part, 0, max(width, 0))
		if len(parts) > 4 || err != nil {
			// Nobody can mean a name. What the C library would make of it, only it knows.
			return netip.IPv4Unspecified(), true
		}
		bits = bits<<width | number
	}
	return netip.AddrFrom4([4]byte{byte(bits >> 24), byte(bits >> 16), byte(bits >> 8), byte(bits)}), true
}

// endsInNumber reports whether the last part of a host is a number, which no top-level domain is.
func endsInNumber(host string) bool {
	_, err := strconv.ParseUint(host[strings.LastIndex(host, ".")+1:], 0, 64)
	return err == nil
}
