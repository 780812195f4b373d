// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// DriverInfo returns the driver_info that Ironic's driver needs to reach the
// BMC. It holds the password: it goes to Ironic and nowhere else.
func (a Access) DriverInfo(username, password string) map[string]any {
	if a.redfish() {
		return a.redfishInfo(username, password)
	}
	info := map[string]any{
		"ipmi_address":    a.ipmiAddress(),
		"ipmi_port":       a.form().port,
		"ipmi_username":   username,
		"ipmi_password":   password,
		"ipmi_priv_level": a.endpoint.privLevel,
	}
	if a.endpoint.port != "" {
		info["ipmi_port"] = a.endpoint.port
	}
	if a.endpoint.skipVerify {
		info["ipmi_verify_ca"] = false
	}
	return info
}

// ipmiAddress returns the host as Ironic is told of it. DNS names have no case, but since 33.0, Ironic's driver ipmi refuses the capital
// letters in one, for a node in whatever state. The zone of an IPv6 address has a case.
func (a Access) ipmiAddress() string {
	if _, err := netip.ParseAddr(a.endpoint.host); err == nil {
		return a.endpoint.host
	}
	return strings.ToLower(a.endpoint.host)
}

// IsRespelt reports whether Ironic is told the name of the BMC otherwise than the address has it.
func (a Access) IsRespelt() bool { return !a.redfish() && a.ipmiAddress() != a.endpoint.host }

// The most bytes that a user name and a password have with IPMI 2.0.
const (
	maxIPMIUsername = 16
	maxIPMIPassword = 20
)

// TooLong returns what the protocol of the BMC cannot carry of credentials, in words that tell nothing of them; nil if it carries them.
// ipmitool refuses them or cuts them off, and in either case, Ironic says only that its call has failed.
func (a Access) TooLong(username, password string) (messages []string) {
	if a.redfish() {
		return nil
	}
	if len(username) > maxIPMIUsername {
		messages = append(messages, fmt.Sprintf("the username has more bytes than IPMI takes, which is %d", maxIPMIUsername))
	}
	if len(password) > maxIPMIPassword {
		messages = append(messages, fmt.Sprintf("the password has more bytes than IPMI takes, which is %d", maxIPMIPassword))
	}
	return messages
}

func (a Access) redfishInfo(username, password string) map[string]any {
	host := a.endpoint.host
	switch {
	case a.endpoint.port != "":
		host = net.JoinHostPort(host, a.endpoint.port)
	case strings.Contains(host, ":"):
		host = "[" + host + "]"
	}
	scheme := "https://"
	if a.endpoint.plainHTTP {
		scheme = "http://"
	}
	info := map[string]any{
		"redfish_address":  scheme + host,
		"redfish_username": username,
		"redfish_password": password,
	}
	// Without a system, Ironic takes the only one that the BMC has. The root of
	// the Redfish service is not a system.
	switch strings.TrimRight(a.endpoint.path, "/") {
	case "", "/redfish/v1":
	default:
		info["redfish_system_id"] = a.endpoint.path
	}
	if a.endpoint.skipVerify {
		info["redfish_verify_ca"] = false
	}
	return info
}
