package lifecycle

import (
	"encoding/json"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// inventory is the part of the ramdisk's inventory that HardwareDetails can hold. The hardware
// manager of ironic-python-agent makes it.
type inventory struct {
	Hostname     string `json:"hostname"`
	SystemVendor struct {
		Manufacturer string `json:"manufacturer"`
		ProductName  string `json:"product_name"`
		SerialNumber string `json:"serial_number"`
		Firmware     struct {
			Vendor    string `json:"vendor"`
			Version   string `json:"version"`
			BuildDate string `json:"build_date"`
		} `json:"firmware"`
	} `json:"system_vendor"`
	CPU struct {
		Architecture string   `json:"architecture"`
		ModelName    string   `json:"model_name"`
		Frequency    number   `json:"frequency"`
		Count        int      `json:"count"`
		Flags        []string `json:"flags"`
	} `json:"cpu"`
	Memory struct {
		PhysicalMB int `json:"physical_mb"`
	} `json:"memory"`
	Interfaces []inventoryInterface `json:"interfaces"`
	Disks      []inventoryDisk      `json:"disks"`
	Boot       struct {
		PXEInterface string `json:"pxe_interface"`
	} `json:"boot"`
}

type inventoryInterface struct {
	Name        string `json:"name"`
	MACAddress  string `json:"mac_address"`
	IPv4Address string `json:"ipv4_address"`
	IPv6Address string `json:"ipv6_address"`
	Vendor      string `json:"vendor"`
	Product     string `json:"product"`
	SpeedMbps   int    `json:"speed_mbps"`
	PCIAddress  string `json:"pci_address"`
}

type inventoryDisk struct {
	Name               string `json:"name"`
	Model              string `json:"model"`
	Size               int64  `json:"size"`
	Rotational         bool   `json:"rotational"`
	WWN                string `json:"wwn"`
	Serial             string `json:"serial"`
	Vendor             string `json:"vendor"`
	WWNWithExtension   string `json:"wwn_with_extension"`
	WWNVendorExtension string `json:"wwn_vendor_extension"`
	HCTL               string `json:"hctl"`
	ByPath             string `json:"by_path"`
}

// pluginData is what Ironic's inspection hooks add. Some of its fields have other names if the
// data comes from ironic-inspector.
type pluginData struct {
	AllInterfaces map[string]struct {
		PXEEnabled    bool `json:"pxe_enabled"`
		PXE           bool `json:"pxe"`            // ironic-inspector
		LLDPProcessed lldp `json:"lldp_processed"` // ironic-inspector
	} `json:"all_interfaces"`
	ParsedLLDP map[string]lldp `json:"parsed_lldp"`
}

type lldp struct {
	ChassisID      string `json:"switch_chassis_id"`
	PortID         string `json:"switch_port_id"`
	SystemName     string `json:"switch_system_name"`
	UntaggedVLANID int    `json:"switch_port_untagged_vlan_id"`
	VLANs          []struct {
		ID   int    `json:"id"`
		Name string `json:"name"`
	} `json:"switch_port_vlans"`
}

// number is decoded from a JSON number or a string that contains one, such as the CPU frequency
// "2400.000". Anything else is decoded as 0.
type number float64

func (n *number) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) { // JSON cannot represent NaN and infinity
		f = 0
	}
	*n = number(f)
	return nil
}

// HardwareFrom converts the inventory of an inspection, as Ironic stores it, to status.hardware.
// The error says why the inventory cannot be used.
func HardwareFrom(raw *ironic.Inventory) (*metal3.HardwareDetails, error) {
	if size := len(raw.Inventory) + len(raw.PluginData); size > maxInventory {
		return nil, fmt.Errorf("inventory from Ironic: it is larger (%d bytes) than any server's (%d bytes)", size, maxInventory)
	}
	var inv inventory
	if err := json.Unmarshal(raw.Inventory, &inv); err != nil {
		return nil, fmt.Errorf("inventory from Ironic: %w", err)
	}
	var plugins pluginData
	if len(raw.PluginData) > 0 {
		if err := json.Unmarshal(raw.PluginData, &plugins); err != nil {
			return nil, fmt.Errorf("plugin data of the inventory from Ironic: %w", err)
		}
	}
	hw := &metal3.HardwareDetails{
		SystemVendor: metal3.HardwareSystemVendor{
			Manufacturer: inv.SystemVendor.Manufacturer,
			ProductName:  inv.SystemVendor.ProductName,
			SerialNumber: inv.SystemVendor.SerialNumber,
		},
		Firmware: metal3.Firmware{BIOS: metal3.BIOS{
			Date:    inv.SystemVendor.Firmware.BuildDate,
			Vendor:  inv.SystemVendor.Firmware.Vendor,
			Version: inv.SystemVendor.Firmware.Version,
		}},
		RAMMebibytes: inv.Memory.PhysicalMB,
		CPU: metal3.CPU{
			Arch:           inv.CPU.Architecture,
			Model:          inv.CPU.ModelName,
			ClockMegahertz: metal3.ClockSpeed(inv.CPU.Frequency),
			Flags:          inv.CPU.Flags,
			Count:          inv.CPU.Count,
		},
		Hostname: inv.Hostname,
	}
	sort.Strings(hw.CPU.Flags)
	for _, iface := range inv.Interfaces {
		hw.NIC = append(hw.NIC, nics(iface, inv.Boot.PXEInterface, plugins)...)
	}
	for _, disk := range inv.Disks {
		hw.Storage = append(hw.Storage, storage(disk))
	}
	return cutHardware(hw)
}

// maxInventory bounds the size of the inventories that are decoded, in bytes. It allows for data
// that is not taken over into status.hardware, which is cut to validation.MaxHardware.
const maxInventory = 2 << 20

// isVLAN tells whether a number is a valid VLAN ID. Switches can send other numbers by LLDP, such
// as 4095, which the API does not accept.
func isVLAN(id int) bool { return id >= 0 && id <= 4094 }

// nics returns one entry for each address family of the interface, or a single one if the
// interface has no address.
func nics(iface inventoryInterface, pxeMAC string, plugins pluginData) []metal3.NIC {
	nic := metal3.NIC{
		Name:       iface.Name,
		Model:      strings.TrimSpace(iface.Vendor + " " + iface.Product),
		MAC:        iface.MACAddress,
		IP:         iface.IPv4Address,
		SpeedGbps:  iface.SpeedMbps / 1000,
		PCIAddress: iface.PCIAddress,
	}
	plugin, processed := plugins.AllInterfaces[iface.Name]
	nic.PXE = plugin.PXEEnabled || plugin.PXE
	if !processed && pxeMAC != "" {
		nic.PXE = strings.EqualFold(pxeMAC, iface.MACAddress)
	}
	l, ok := plugins.ParsedLLDP[iface.Name]
	if !ok {
		l = plugin.LLDPProcessed
	}
	for _, vlan := range l.VLANs {
		if isVLAN(vlan.ID) {
			nic.VLANs = append(nic.VLANs, metal3.VLAN{ID: metal3.VLANID(vlan.ID), Name: vlan.Name})
		}
	}
	if isVLAN(l.UntaggedVLANID) {
		nic.VLANID = metal3.VLANID(l.UntaggedVLANID)
	}
	if l.ChassisID != "" || l.PortID != "" || l.SystemName != "" {
		nic.LLDP = &metal3.LLDP{SwitchID: l.ChassisID, PortID: l.PortID, SwitchSystemName: l.SystemName}
	}
	if iface.IPv6Address == "" {
		return []metal3.NIC{nic}
	}
	v6 := nic
	v6.IP = iface.IPv6Address
	if iface.IPv4Address == "" {
		return []metal3.NIC{v6}
	}
	return []metal3.NIC{nic, v6}
}

func storage(disk inventoryDisk) metal3.Storage {
	s := metal3.Storage{
		Name:               firstOf(disk.ByPath, disk.Name),
		Rotational:         disk.Rotational,
		Type:               metal3.SSD,
		SizeBytes:          metal3.Capacity(disk.Size),
		Vendor:             disk.Vendor,
		Model:              disk.Model,
		SerialNumber:       disk.Serial,
		WWN:                disk.WWN,
		WWNVendorExtension: disk.WWNVendorExtension,
		WWNWithExtension:   disk.WWNWithExtension,
		HCTL:               disk.HCTL,
	}
	switch {
	case strings.HasPrefix(disk.Name, "/dev/nvme"):
		s.Type = metal3.NVME
	case disk.Rotational:
		s.Type = metal3.HDD
	}
	for _, name := range []string{disk.Name, disk.ByPath} {
		if name != "" {
			s.AlternateNames = append(s.AlternateNames, name)
		}
	}
	return s
}
