// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

var interfaceNamePattern = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

func validateNetworkInterfaces(interfaces []v1alpha1.NetworkInterface, path *field.Path) field.ErrorList {
	var all field.ErrorList
	names, macs := sets.New[string](), sets.New[string]()
	for i, nic := range interfaces {
		path := path.Index(i)
		if (nic.Name == "") == (nic.MACAddress == "") {
			all = append(all, field.Invalid(path, field.OmitValueType{}, "must have exactly one of name and macAddress"))
		}
		all = append(all, validateIdentifier(names, nic.Name, path.Child("name"), interfaceNamePattern,
			"must consist of letters, digits, '.', '_' and '-'")...)
		all = append(all, validateIdentifier(macs, nic.MACAddress, path.Child("macAddress"), macPattern, macMessage)...)
		if ref := nic.HostNetworkAttachment; ref != nil {
			path := path.Child("hostNetworkAttachment")
			all = append(all, required(path.Child("name"), ref.Name, "must name a HostNetworkAttachment")...)
			all = append(all, maxLength(path.Child("name"), ref.Name, 253)...)
			all = append(all, maxLength(path.Child("namespace"), ref.Namespace, 63)...)
		}
		if port := nic.SwitchPort; port != nil {
			path := path.Child("switchPort")
			if !macPattern.MatchString(port.SwitchID) {
				all = append(all, field.Invalid(path.Child("switchID"), port.SwitchID, macMessage))
			}
			if port.PortID == "" {
				all = append(all, field.Required(path.Child("portID"), "must name a port of the switch"))
			}
		}
	}
	return all
}

// validateIdentifier checks the name or the MAC address of an interface, if it is set, and
// adds it to those that were seen.
func validateIdentifier(seen sets.Set[string], value string, path *field.Path, pattern *regexp.Regexp, message string) field.ErrorList {
	if value == "" {
		return nil
	}
	if !pattern.MatchString(value) {
		return field.ErrorList{field.Invalid(path, value, message)}
	}
	key := strings.ToLower(value)
	if seen.Has(key) {
		return field.ErrorList{field.Duplicate(path, value)}
	}
	seen.Insert(key)
	return nil
}
