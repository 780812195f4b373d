// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// RootDevice returns root device hints in Ironic's language (instance_info/
// root_device); nil when there are none. Ironic compares with s== letter by
// letter but for their case, with <in> as a part, with >= as numbers.
func RootDevice(hints *metal3.RootDeviceHints) map[string]any {
	if hints == nil {
		return nil
	}
	device := map[string]any{}
	add := func(key, operator, value string) {
		if value != "" {
			device[key] = operator + " " + value
		}
	}
	nameKey := "name"
	if strings.HasPrefix(hints.DeviceName, "/dev/disk/by-path/") {
		nameKey = "by_path"
	}
	add(nameKey, "s==", hints.DeviceName)
	add("hctl", "s==", hints.HCTL)
	add("model", "<in>", hints.Model)
	add("vendor", "<in>", hints.Vendor)
	add("serial", "s==", hints.SerialNumber)
	add("wwn", "s==", hints.WWN)
	add("wwn_with_extension", "s==", hints.WWNWithExtension)
	add("wwn_vendor_extension", "s==", hints.WWNVendorExtension)
	if hints.MinSizeGigabytes > 0 {
		add("size", ">=", strconv.Itoa(hints.MinSizeGigabytes))
	}
	if hints.Rotational != nil {
		device["rotational"] = strconv.FormatBool(*hints.Rotational) // Ironic has no operator for it
	}
	if len(device) == 0 {
		return nil
	}
	return device
}

// unknownProfile is the hardware profile of hosts that name none.
const unknownProfile = "unknown"

// profiles are the hardware profiles by what is left of them: the root device of
// hosts without hints of their own.
var profiles = map[string]metal3.RootDeviceHints{
	unknownProfile: {DeviceName: "/dev/sda"},
	"libvirt":      {DeviceName: "/dev/vda"},
	"dell":         {HCTL: "0:0:0:0"},
	"dell-raid":    {HCTL: "0:2:0:0"},
	"openstack":    {DeviceName: "/dev/vdb"},
	"empty":        {},
}

// HardwareProfile returns the name of the host's hardware profile: the one that
// was settled when it was prepared, or else its own choice, or else what its BMC
// address tells.
func HardwareProfile(host *metal3.BareMetalHost) string {
	//lint:ignore SA1019 deprecated for users, who may have it in their manifests
	chosen := host.Spec.HardwareProfile
	switch {
	case host.Status.HardwareProfile != "":
		return host.Status.HardwareProfile
	case chosen != "":
		return chosen
	case strings.HasPrefix(strings.ToLower(host.Spec.BMC.Address), "libvirt"):
		return "libvirt"
	}
	return unknownProfile
}

// defaultRootDeviceHints returns the root device hints of a hardware profile. For
// a profile that does not exist it returns those of a host that names none, and
// an error: an image written to them may be written to the wrong disk.
func defaultRootDeviceHints(profile string) (*metal3.RootDeviceHints, error) {
	hints, ok := profiles[profile]
	if !ok {
		hints = profiles[unknownProfile]
		return &hints, fmt.Errorf("there is no hardware profile %q, only %s: set spec.rootDeviceHints, or else the image might go to %s, as with profile %q",
			profile, strings.Join(slices.Sorted(maps.Keys(profiles)), ", "), hints.DeviceName, unknownProfile)
	}
	return &hints, nil
}

// RootDeviceHints returns the hints by which the host's root device is chosen: its
// own, or those of its hardware profile. It returns nil if there is no such profile, and for a
// host whose root device is a volume of software RAID, which Ironic knows by itself.
func RootDeviceHints(host *metal3.BareMetalHost) *metal3.RootDeviceHints {
	hints, err := rootDeviceHints(host)
	if err != nil {
		return nil
	}
	return hints
}

func rootDeviceHints(host *metal3.BareMetalHost) (*metal3.RootDeviceHints, error) {
	if isRootSoftwareVolume(host) {
		return nil, nil
	}
	if host.Spec.RootDeviceHints != nil {
		return host.Spec.RootDeviceHints.DeepCopy(), nil
	}
	return defaultRootDeviceHints(HardwareProfile(host))
}

// isRootSoftwareVolume reports whether the root device is a volume of software RAID: one that is said to be, or the first one if nothing
// is said. The disk of a hardware profile would be one of those of which the volume is made.
func isRootSoftwareVolume(host *metal3.BareMetalHost) bool {
	raid := host.Spec.RAID
	if raid == nil || len(raid.SoftwareRAIDVolumes) == 0 {
		return false
	}
	return host.Spec.RootDeviceHints == nil || slices.ContainsFunc(raid.SoftwareRAIDVolumes, func(v metal3.SoftwareRAIDVolume) bool { return v.RootVolume })
}
