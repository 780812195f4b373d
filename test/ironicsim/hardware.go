// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// hardwareType is a driver: its Python class, which error messages name, and
// for each interface the implementations that it supports, the default first.
type hardwareType struct {
	class      string
	interfaces map[string][]string
}

var driverNames = []string{"fake-hardware", "ipmi", "redfish"}

var hardwareTypes = map[string]*hardwareType{
	"fake-hardware": {"FakeHardware", map[string][]string{
		"bios": {"fake", "no-bios"}, "boot": {"fake", "ipxe", "pxe"}, "console": {"fake", "no-console"},
		"deploy": {"fake", "direct", "ramdisk", "custom-agent"}, "firmware": {"fake", "no-firmware"},
		"inspect": {"fake", "agent", "no-inspect"}, "management": {"fake"}, "network": {"noop", ironicNetworking}, "power": {"fake"},
		"raid": {"fake", "no-raid", "agent"}, "rescue": {"fake", "no-rescue", "agent"}, "storage": {"noop", "fake"},
		"vendor": {"fake", "no-vendor"},
	}},
	"ipmi": {"IPMIHardware", generic(map[string][]string{
		"console": {"ipmitool-socat", "no-console"}, "management": {"ipmitool", "noop"}, "power": {"ipmitool"},
		"vendor": {"ipmitool", "no-vendor"},
	})},
	"redfish": {"RedfishHardware", generic(map[string][]string{
		"bios": {"redfish", "no-bios"}, "boot": {"ipxe", "pxe", "redfish-virtual-media"}, "console": {"no-console"},
		"firmware": {"redfish", "no-firmware"}, "inspect": {"redfish", "agent", "no-inspect"},
		"management": {"redfish", "noop"}, "power": {"redfish"}, "raid": {"redfish", "no-raid", "agent"},
		"vendor": {"redfish", "no-vendor"},
	})},
}

// generic adds what every hardware type but fake-hardware has in common.
func generic(own map[string][]string) map[string][]string {
	for kind, impls := range map[string][]string{
		"bios": {"no-bios"}, "boot": {"ipxe", "pxe"}, "deploy": {"direct", "ramdisk", "custom-agent"},
		"firmware": {"no-firmware"}, "inspect": {"agent", "no-inspect"}, "network": {"noop", ironicNetworking},
		"raid": {"no-raid", "agent"}, "rescue": {"no-rescue", "agent"}, "storage": {"noop"},
	} {
		if own[kind] == nil {
			own[kind] = impls
		}
	}
	return own
}

// enabledInterfaces are all implementations that the conductor has loaded;
// fake-hardware accepts any of them.
var enabledInterfaces = func() map[string][]string {
	all := map[string][]string{}
	for _, hw := range hardwareTypes {
		for kind, implementations := range hw.interfaces {
			all[kind] = append(all[kind], implementations...)
			slices.Sort(all[kind])
			all[kind] = slices.Compact(all[kind])
		}
	}
	return all
}()

// checkDriver reports whether a conductor serves the driver of a node.
func (s *Sim) checkDriver(driver, group string) error {
	if hardwareTypes[driver] == nil || group != "" && !slices.Contains(s.opts.ConductorGroups, group) {
		return fault(http.StatusBadRequest, "No valid host was found. Reason: No conductor service registered which supports driver %s for conductor group %q. Ensure the driver is valid and enabled.", driver, group)
	}
	return nil
}

// checkInterfaces fills in the default of each interface that a node does not
// name, and refuses those that do not exist or that its driver cannot use.
func checkInterfaces(n *node) error {
	hw := hardwareTypes[n.driver]
	for _, kind := range interfaceKinds {
		impl := interfaceOf(n, kind)
		if *impl == "" {
			*impl = hw.interfaces[kind][0]
			continue
		}
		if !slices.Contains(enabledInterfaces[kind], *impl) {
			return badRequest("Could not find the following interface in the 'ironic.hardware.interfaces.%s' entrypoint: %s. Valid interfaces are %s.",
				kind, *impl, pyRepr(enabledInterfaces[kind], true))
		}
		if n.driver != "fake-hardware" && !slices.Contains(hw.interfaces[kind], *impl) {
			object := fmt.Sprintf("<ironic.drivers.modules.%s.%s object at 0x7f79ab9156a0>", strings.ReplaceAll(*impl, "-", "_"), kind)
			return badRequest("%s interface implementation '%s' is not supported by hardware type %s.", kind, object, hw.class)
		}
	}
	return nil
}
