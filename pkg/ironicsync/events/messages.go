// SPDX-License-Identifier: Apache-2.0

package events

import (
	"fmt"
	"net/url"
	"regexp"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// after is how long an operation took.
func after(m metal3.OperationMetric) string {
	if m.Start.IsZero() || !m.End.After(m.Start.Time) {
		return ""
	}
	return " after " + m.End.Sub(m.Start.Time).Round(time.Second).String()
}

// of says what is or was deployed.
func of(image *metal3.Image, custom *metal3.CustomDeploy) string {
	text := ""
	if image != nil && image.URL != "" {
		kind := "image"
		if image.IsLiveISO() {
			kind = "live ISO"
		}
		text = ": " + kind + " " + shown(image.URL)
	}
	if custom != nil && custom.Method != "" {
		if text == "" {
			text = ": "
		} else {
			text += ", "
		}
		text += "custom deploy procedure " + custom.Method
	}
	return text
}

// shown is as much of an image's URL as may be told: neither user and password nor
// the query, which is where signed URLs have their signature.
func shown(imageURL string) string {
	u, err := url.Parse(imageURL)
	if err != nil {
		return "with a URL that cannot be parsed"
	}
	u.User, u.RawQuery, u.ForceQuery, u.Fragment = nil, "", false, ""
	return u.String()
}

// userinfo is the part of a URL that may hold a password.
var userinfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s"'<>]*@`)

// withoutCredentials removes users and passwords from the URLs in a text: errors
// from Ironic quote the URLs that they are about.
func withoutCredentials(text string) string { return userinfo.ReplaceAllString(text, "$1") }

// found sums up what an inspection found.
func found(hardware *metal3.HardwareDetails) string {
	if hardware == nil {
		return ""
	}
	vendor := ""
	if v := hardware.SystemVendor; v.Manufacturer+v.ProductName != "" {
		vendor = fmt.Sprintf("%s %s, ", v.Manufacturer, v.ProductName)
	}
	return fmt.Sprintf(": %s%s (%s), %d MiB of RAM, %s, %s", vendor, count(hardware.CPU.Count, "CPU"), hardware.CPU.Arch, hardware.RAMMebibytes,
		count(len(hardware.Storage), "disk"), count(interfaces(hardware.NIC), "network interface"))
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// interfaces counts network interfaces: one with IPv4 and IPv6 has two entries.
func interfaces(nics []metal3.NIC) int {
	names := map[string]bool{}
	for _, nic := range nics {
		names[nic.Name+" "+nic.MAC] = true
	}
	return len(names)
}
