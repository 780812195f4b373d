// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"net"
	"net/url"
	"strings"
)

// AddressOf returns the address, in the form that Check accepts, of the BMC that a node's
// driver_info names, without user name and password. It is empty if there is none, or if
// Check would not accept it.
func AddressOf(driver, redfishAddress, redfishSystem, ipmiAddress, ipmiPort string) string {
	address := ""
	switch {
	case redfishAddress != "" && (driver == "redfish" || driver == "idrac"):
		parsed, err := parseRedfish(redfishAddress)
		if err != nil || cleanSystem(parsed.Path) != "" { // the address of a host cannot say where the service is at the BMC
			return ""
		}
		scheme := "redfish"
		if driver == "idrac" {
			scheme = "idrac-redfish"
		}
		if strings.EqualFold(parsed.Scheme, "http") {
			scheme += "+http"
		}
		// An @ is not escaped in a path, but is taken for the end of a password in an address.
		if redfishSystem != "" && !strings.HasPrefix(redfishSystem, "/") {
			redfishSystem = "/" + redfishSystem // as Ironic's client joins them
		}
		path := strings.ReplaceAll((&url.URL{Path: redfishSystem}).EscapedPath(), "@", "%40")
		address = scheme + "://" + strings.Replace(parsed.Host, "%", "%25", 1) + path
	case ipmiAddress != "" && driver == "ipmi":
		host := ipmiAddress
		switch {
		case ipmiPort != "":
			host = net.JoinHostPort(ipmiAddress, ipmiPort)
		case strings.Contains(ipmiAddress, ":"):
			host = "[" + ipmiAddress + "]"
		}
		address = "ipmi://" + host
	default:
		return ""
	}
	if Check(address) != nil {
		return ""
	}
	return address
}
