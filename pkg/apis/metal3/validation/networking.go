// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// ValidateBareMetalSwitch validates a switch; old is nil for a new object.
func ValidateBareMetalSwitch(device, old *v1alpha1.BareMetalSwitch) field.ErrorList {
	return ratchet(device, old, func(device *v1alpha1.BareMetalSwitch) field.ErrorList {
		spec, path := &device.Spec, field.NewPath("spec")
		all := required(path.Child("address"), spec.Address, "must be the IP address or host name of the switch")
		// It is written to a file with a setting in each line.
		all = append(all, trimmed(path.Child("address"), spec.Address)...)
		all = append(all, trimmed(path.Child("deviceType"), spec.DeviceType)...)
		if spec.Credentials != nil {
			all = append(all, objectName(path.Child("credentials", "name"), spec.Credentials.Name)...)
		}
		switch mac := path.Child("macAddress"); {
		case spec.MACAddress == "":
			all = append(all, field.Required(mac, macMessage))
		case !macPattern.MatchString(spec.MACAddress):
			all = append(all, field.Invalid(mac, spec.MACAddress, macMessage))
		}
		all = append(all, required(path.Child("deviceType"), spec.DeviceType, "must be a device type of networking-generic-switch, as in netmiko_arista_eos")...)
		all = append(all, enum(path.Child("driver"), spec.Driver, v1alpha1.GenericSwitch)...)
		if port := spec.Port; port != nil && (*port < 1 || *port > 65535) {
			all = append(all, field.Invalid(path.Child("port"), *port, "must be a TCP port, 1 to 65535"))
		}
		return append(all, validateConditions(device.Status.Conditions)...)
	})
}

// ValidateHostNetworkAttachment checks the configuration of a switch port; old is nil
// for a new object. That it stays as it is while a host refers to it is not a rule
// about one object.
func ValidateHostNetworkAttachment(attachment, old *v1alpha1.HostNetworkAttachment) field.ErrorList {
	return ratchet(attachment, old, func(attachment *v1alpha1.HostNetworkAttachment) field.ErrorList {
		spec, path := &attachment.Spec, field.NewPath("spec")
		all := requiredEnum(path.Child("mode"), spec.Mode, v1alpha1.SwitchPortAccess, v1alpha1.SwitchPortTrunk, v1alpha1.SwitchPortHybrid)
		if !isVLAN(spec.NativeVLAN) {
			all = append(all, field.Invalid(path.Child("nativeVLAN"), spec.NativeVLAN, "must be a VLAN identifier, 1 to 4094"))
		}
		if mtu := spec.MTU; mtu != nil && (*mtu < 68 || *mtu > 9216) {
			all = append(all, field.Invalid(path.Child("mtu"), *mtu, "must be 68 to 9216"))
		}
		allowed := path.Child("allowedVLANs")
		if spec.Mode == v1alpha1.SwitchPortAccess && len(spec.AllowedVLANs) > 0 {
			all = append(all, field.Forbidden(allowed, "is not allowed with the mode access, which has only nativeVLAN; use trunk or hybrid"))
		}
		for i, entry := range spec.AllowedVLANs {
			if !isVLANRange(entry) {
				all = append(all, field.Invalid(allowed.Index(i), entry, "must be a VLAN identifier, 1 to 4094, or an ascending range, as in 100-200"))
			}
		}
		if n := len(spec.VLANs()); n > v1alpha1.MaxAllowedVLANs {
			all = append(all, field.Invalid(allowed, n, fmt.Sprintf("Ironic accepts at most %d VLANs", v1alpha1.MaxAllowedVLANs)))
		}
		return all
	})
}

func isVLAN(id int) bool { return 1 <= id && id <= maxVLAN }

// vlanPattern is the pattern of the operator's schema. strconv alone would also accept a
// sign.
var vlanPattern = regexp.MustCompile(`^\d+(-\d+)?$`)

// isVLANRange reports whether text is a VLAN identifier or an ascending range of them.
func isVLANRange(text string) bool {
	if !vlanPattern.MatchString(text) {
		return false
	}
	from, to, isRange := strings.Cut(text, "-")
	first, err := strconv.Atoi(from)
	if err != nil || !isVLAN(first) {
		return false
	}
	if !isRange {
		return true
	}
	last, err := strconv.Atoi(to)
	return err == nil && isVLAN(last) && first < last
}
