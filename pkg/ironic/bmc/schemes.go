// SPDX-License-Identifier: Apache-2.0

package bmc

// Access is how Ironic gets at a BMC: the driver, its hardware interfaces and
// what they can do. An empty interface is left to Ironic's default.
type Access struct {
	// Scheme is the scheme of the address, without +http or +https.
	Scheme string
	// Driver is Ironic's hardware type.
	Driver string

	BootInterface       string
	RAIDInterface       string
	BIOSInterface       string
	ManagementInterface string
	PowerInterface      string
	VendorInterface     string
	FirmwareInterface   string
	// FastInspectInterface is the inspect interface that asks the BMC alone;
	// empty where the driver has none. The agent interface works everywhere.
	FastInspectInterface string

	// SupportsSecureBoot is set where Ironic can switch UEFI secure boot on.
	SupportsSecureBoot bool
	// SupportsISO is set where the host can boot an ISO by itself, without PXE.
	SupportsISO bool
	// RequiresProvisioningNetwork is set where the host boots over PXE.
	RequiresProvisioningNetwork bool
	// NeedsMAC is set where the boot MAC address must always be given.
	NeedsMAC bool

	endpoint endpoint
}

// Host returns the name or IP address of the BMC.
func (a Access) Host() string { return a.endpoint.host }

// IsPlainHTTP reports whether the BMC is asked without TLS, as an address with +http wants.
func (a Access) IsPlainHTTP() bool { return a.endpoint.plainHTTP }

// redfish reports whether the BMC speaks Redfish (or, with vendor extensions,
// iDRAC); the others speak IPMI.
func (a Access) redfish() bool { return !a.IsIPMI() }

// IsIPMI reports whether Ironic reaches the BMC by IPMI.
func (a Access) IsIPMI() bool { return a.Driver == "ipmi" }

// schemes are the accepted schemes, in the order in which errors list them.
// The Redfish ones are also accepted with +http and +https.
var schemes = []Access{
	{
		Scheme:                      "ipmi",
		Driver:                      "ipmi",
		BootInterface:               "ipxe",
		RAIDInterface:               "no-raid",
		RequiresProvisioningNetwork: true,
	},
	{
		// Virtual machines behind virtualbmc, which speaks IPMI.
		Scheme:                      "libvirt",
		Driver:                      "ipmi",
		BootInterface:               "ipxe",
		RAIDInterface:               "no-raid",
		RequiresProvisioningNetwork: true,
		NeedsMAC:                    true,
	},
	redfish("redfish", "ipxe"),
	redfish("redfish-virtualmedia", "redfish-virtual-media"),
	redfish("redfish-uefihttp", "redfish-https"),
	redfish("ilo5-redfish", "ipxe"),
	redfish("ilo5-virtualmedia", "redfish-virtual-media"),
	idrac("idrac-redfish", "ipxe"),
	idrac("idrac-virtualmedia", "idrac-redfish-virtual-media"),
}

func redfish(scheme, boot string) Access {
	pxe := boot == "ipxe"
	return Access{
		Scheme:                      scheme,
		Driver:                      "redfish",
		BootInterface:               boot,
		RAIDInterface:               "redfish",
		FirmwareInterface:           "redfish",
		FastInspectInterface:        "redfish",
		SupportsSecureBoot:          true,
		SupportsISO:                 !pxe,
		RequiresProvisioningNetwork: pxe,
	}
}

func idrac(scheme, boot string) Access {
	access := redfish(scheme, boot)
	access.Driver = "idrac"
	access.RAIDInterface = "idrac-redfish"
	access.BIOSInterface = "idrac-redfish"
	access.ManagementInterface = "idrac-redfish"
	access.PowerInterface = "idrac-redfish"
	access.VendorInterface = "idrac-redfish"
	// The driver does not have the one of plain Redfish, in which Ironic replaces it.
	access.FastInspectInterface = "idrac-redfish"
	return access
}

// lookup finds a scheme. plain is set for +http.
func lookup(scheme string) (access Access, plain, ok bool) {
	for _, known := range schemes {
		switch {
		case scheme == known.Scheme:
			return known, false, true
		case known.redfish() && scheme == known.Scheme+"+https":
			return known, false, true
		case known.redfish() && scheme == known.Scheme+"+http":
			return known, true, true
		}
	}
	return Access{}, false, false
}
