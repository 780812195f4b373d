// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/weburl"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/destination"
)

const allowLocalFlag = "allow-local-addresses"

func (o *Options) addDestinationFlags(fs *pflag.FlagSet) {
	s := &o.Settings
	fs.StringSliceVar(&s.BMCs.Schemes, "bmc-schemes", nil,
		"The schemes that addresses of BMCs may have, for example redfish,idrac-virtualmedia. One without TLS has to be listed separately, as in redfish+http. Default: all.")
	fs.StringSliceVar(&o.BMCHosts, "bmc-hosts", nil,
		"The hosts that addresses of BMCs may have: names, domains such as *.bmc.example.com, and networks such as 192.0.2.0/24. Default: all, except those that only --allow-local-addresses allows.")
	fs.StringSliceVar(&s.Images.Schemes, "image-schemes", nil,
		"The schemes that URLs of images and checksums may have, for example https,oci. Default: all.")
	fs.StringSliceVar(&o.ImageHosts, "image-hosts", nil,
		"The hosts that URLs of images and checksums may have, as for --bmc-hosts.")
	fs.StringSliceVar(&o.EventHosts, "event-hosts", nil,
		"The hosts to which BMCEventSubscriptions may have BMCs send events, as for --bmc-hosts.")
	fs.StringSliceVar(&o.CleanSteps, "clean-steps", nil,
		"Clean steps that may be requested with the subresource clean, as INTERFACE.STEP, in addition to those that are known to be harmless.")
	fs.BoolVar(&s.BMCs.AllowLocal, allowLocalFlag, false,
		"Allow loopback, link-local and unspecified addresses of BMCs, images and receivers of events. For Ironic, these are services of its own machine or, in clouds, the source of credentials.")
}

// validateDestinations completes and checks the allowed destinations.
func (o *Options) validateDestinations(refuse func(format string, args ...any)) {
	s := &o.Settings
	s.Images.AllowLocal, s.Events.AllowLocal = s.BMCs.AllowLocal, s.BMCs.AllowLocal
	for _, scheme := range s.BMCs.Schemes {
		if _, err := bmc.Parse(scheme+"://192.0.2.1", false); err != nil || scheme != strings.ToLower(scheme) || strings.HasSuffix(scheme, "+https") {
			refuse("--bmc-schemes: %q is not %s (in lower case, and without +https)", scheme, bmc.Accepted())
		}
	}
	for _, scheme := range s.Images.Schemes {
		if !slices.Contains(weburl.Image, scheme) {
			refuse("--image-schemes: %q is not one of %s", scheme, strings.Join(weburl.Image, ", "))
		}
	}
	var err error
	if s.BMCs.Hosts, err = destination.ParseHosts(o.BMCHosts); err != nil {
		refuse("--bmc-hosts: %w", err)
	}
	if s.Images.Hosts, err = destination.ParseHosts(o.ImageHosts); err != nil {
		refuse("--image-hosts: %w", err)
	}
	if s.Events.Hosts, err = destination.ParseHosts(o.EventHosts); err != nil {
		refuse("--event-hosts: %w", err)
	}
	if _, err := validation.AllowCleanSteps(o.CleanSteps); err != nil {
		refuse("--clean-steps: %w", err)
	}
}
