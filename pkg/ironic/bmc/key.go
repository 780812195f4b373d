// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"net"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Key identifies a BMC, and the system that it manages, however its address is spelt.
// Names are not resolved: a DNS name and its IP address have different keys.
type Key struct {
	// Service is the protocol, host and port, such as "redfish 192.0.2.1:443". It is
	// empty where there is no address, as with Ironic's driver fake-hardware.
	Service string
	// System is the path of the Redfish system; empty where it is the only one.
	System string
}

// Key returns the key of the BMC that the address names.
func (a Access) Key() Key {
	form := a.form()
	if !a.redfish() {
		return keyOf("ipmi", a.endpoint.host, a.endpoint.port, form.port, "")
	}
	port := form.port
	if a.endpoint.plainHTTP {
		port = form.plainPort
	}
	return keyOf("redfish", a.endpoint.host, a.endpoint.port, port, a.endpoint.path)
}

// RegisteredKey returns the key of the BMC that a node's driver_info names; a zero one
// where it names none.
func RegisteredKey(redfishAddress, redfishSystem, ipmiAddress, ipmiPort string) Key {
	switch {
	case redfishAddress != "":
		parsed, err := parseRedfish(redfishAddress)
		if err != nil {
			return Key{Service: "redfish " + redfishAddress, System: cleanSystem(redfishSystem)}
		}
		port := "443"
		if strings.EqualFold(parsed.Scheme, "http") {
			port = "80"
		}
		return keyOf("redfish", parsed.Hostname(), parsed.Port(), port, redfishSystem)
	case ipmiAddress != "":
		return keyOf("ipmi", ipmiAddress, ipmiPort, "623", "")
	}
	return Key{}
}

// zone is that of an IPv6 address, which is not escaped in what Ironic is told.
var zone = regexp.MustCompile(`(\[[^\]%]*)%([^\]]*\])`)

// parseRedfish reads a node's redfish_address as Ironic does, for which a host without a scheme is one of https, and may be an IPv6
// address without brackets.
func parseRedfish(address string) (*url.URL, error) {
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() {
		address = "[" + address + "]"
	}
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	if !strings.Contains(address, "%25") {
		address = zone.ReplaceAllString(address, "$1%25$2")
	}
	return url.Parse(address)
}

func keyOf(protocol, host, port, defaultPort, system string) Key {
	if port == "" {
		port = defaultPort
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if address, err := netip.ParseAddr(host); err == nil {
		host = address.Unmap().String()
	}
	return Key{Service: protocol + " " + net.JoinHostPort(host, port), System: cleanSystem(system)}
}

// cleanSystem returns one spelling of the path of a system: clients resolve dots, and take a path without a slash in front for one below
// the root; BMCs ignore doubled slashes.
func cleanSystem(system string) string {
	if system == "" {
		return ""
	}
	system = strings.TrimRight(path.Clean("/"+system), "/")
	if system == "/redfish/v1" {
		return ""
	}
	return system
}

// IsZero reports whether there is no address.
func (k Key) IsZero() bool { return k.Service == "" }

// Matches reports whether two keys may be of the same machine: without a path, the system is
// the only one that the BMC has, and all services at the usual ports of an address are of one BMC: IPMI, Redfish by https and
// by http. Keys without an address match nothing.
func (k Key) Matches(other Key) bool {
	if k.IsZero() || k.Service != other.Service && !slices.Contains(k.siblings(), other.Service) {
		return false
	}
	return k.System == other.System || k.System == "" || other.System == ""
}

// usualServices are the protocols and ports of the services of a BMC. (At other ports, simulators have the BMCs of many machines
// at one address.)
var usualServices = [][2]string{{"ipmi ", ":623"}, {"redfish ", ":443"}, {"redfish ", ":80"}}

// siblings returns the other services of the same BMC, if k is of one of the usual ones.
func (k Key) siblings() (services []string) {
	for _, own := range usualServices {
		address, isProtocol := strings.CutPrefix(k.Service, own[0])
		host, isPort := strings.CutSuffix(address, own[1])
		if !isProtocol || !isPort {
			continue
		}
		for _, other := range usualServices {
			if other != own {
				services = append(services, other[0]+host+other[1])
			}
		}
	}
	return services
}

// IndexValues returns what to index something with the key by, and LookupValues what to look
// up to find all with a key that matches it.
func (k Key) IndexValues() []string {
	switch {
	case k.IsZero():
		return nil
	case k.System == "":
		return []string{k.Service, k.Service + " *"}
	}
	return []string{k.Service, k.String()}
}

// LookupValues is explained with IndexValues.
func (k Key) LookupValues() []string {
	switch {
	case k.IsZero():
		return nil
	case k.System == "":
		return append(k.siblings(), k.Service)
	}
	var values []string
	for _, service := range append(k.siblings(), k.Service) {
		values = append(values, Key{service, k.System}.String(), service+" *")
	}
	return values
}

// String is for messages.
func (k Key) String() string {
	if k.System == "" {
		return k.Service
	}
	return k.Service + " " + k.System
}

// ParseKey returns the key that String has written.
func ParseKey(text string) Key {
	protocol, rest, found := strings.Cut(text, " ")
	if !found {
		return Key{Service: text}
	}
	endpoint, system, _ := strings.Cut(rest, " ")
	return Key{Service: protocol + " " + endpoint, System: system}
}
