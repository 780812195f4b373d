// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"strings"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// Counts reports whether a node in this state, with this boot interface, takes part
// of the limit: Ironic works on it and the ramdisk is running or on its way.
func Counts(state ironic.ProvisionState, bootInterface string) bool {
	if Exempt(bootInterface) {
		return false
	}
	switch state {
	case ironic.Cleaning, ironic.CleanWait, ironic.Inspecting, ironic.InspectWait, ironic.Deploying, ironic.DeployWait, ironic.Deleting:
		return true
	}
	return false
}

// Exempt reports whether hosts with this boot interface never wait: virtual media
// takes nothing from the DHCP and TFTP servers that the limit is to spare.
func Exempt(bootInterface string) bool { return strings.Contains(bootInterface, "virtual-media") }
