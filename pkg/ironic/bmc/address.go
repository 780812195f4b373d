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
		if !strings.Contains(redfishAddress, "://") { // which Ironic takes for https
			redfishAddress = "https://" + redfishAddress
		}
		parsed, err := url.Parse(redfishAddress)
		if err != nil {
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
		path := strings.ReplaceAll((&url.URL{Path: redfishSystem}).EscapedPath(), "@", "%40")
		address = scheme + "://" + parsed.Host + path
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
