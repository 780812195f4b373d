// SPDX-License-Identifier: Apache-2.0

package registrar

import (
	"context"
	"net/netip"
	"net/url"
	"slices"

	"k8s.io/klog/v2"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

// externalURLKey in driver_info is the URL from which the BMC fetches virtual media.
const externalURLKey = "external_http_url"

// chooseExternalURL has a BMC that has only IPv6 addresses fetch virtual media from the URL of the settings for such BMCs. If its name
// cannot be looked up now, the node keeps what it has.
func (r *requirements) chooseExternalURL(ctx context.Context, access bmc.Access, wanted *wantedNode) {
	v6, host := r.settings.Ramdisk.ExternalURLv6, bmcHost(access)
	if v6 == "" || host == "" {
		return
	}
	addresses, err := r.settings.BMCs.Addresses(ctx, host)
	switch {
	case err != nil:
		klog.FromContext(ctx).Info("It is not known whether the BMC has an IPv6 address only", "bmc", host, "err", err)
		wanted.keepsExternalURL = true
	case !slices.ContainsFunc(addresses, netip.Addr.Is4):
		wanted.ramdisk[externalURLKey] = v6
	}
}

// bmcHost is the name or the address of a BMC; empty if it is not known.
func bmcHost(access bmc.Access) string {
	info := access.DriverInfo("", "")
	host, _ := info[ipmiAddressKey].(string)
	if address, ok := info["redfish_address"].(string); ok {
		parsed, err := url.Parse(address)
		if err != nil {
			return ""
		}
		host = parsed.Hostname()
	}
	return host
}
