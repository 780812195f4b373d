// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:noStatus
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostNetworkAttachment says how a switch port is configured for a network interface of a
// host. While a host refers to it, the spec cannot be changed and the object cannot be
// deleted.
type HostNetworkAttachment struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The configuration of the switch port.
	// +optional
	Spec HostNetworkAttachmentSpec `json:"spec,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostNetworkAttachmentList is a list of host network attachments.
type HostNetworkAttachmentList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The host network attachments.
	Items []HostNetworkAttachment `json:"items"`
}

// HostNetworkAttachmentSpec is the configuration of a switch port.
type HostNetworkAttachmentSpec struct {
	// How the port handles VLANs: access for one untagged VLAN, trunk for tagged VLANs,
	// hybrid for both.
	// +optional
	// +default="access"
	Mode SwitchPortMode `json:"mode,omitempty"`

	// The VLAN of untagged traffic, 1 to 4094.
	// +k8s:validation:minimum=1
	// +k8s:validation:maximum=4094
	NativeVLAN int `json:"nativeVLAN"`

	// The VLANs of tagged traffic: numbers such as 100, and ranges such as 100-200. Must be
	// empty if the mode is access. At most 100 VLANs in all, because Ironic has no more.
	// +optional
	// +listType=atomic
	AllowedVLANs []string `json:"allowedVLANs,omitempty"`

	// The largest packet in bytes, 68 to 9216. The default depends on the network.
	// +optional
	// +k8s:validation:minimum=68
	// +k8s:validation:maximum=9216
	MTU *int `json:"mtu,omitempty"`
}

// SwitchPortMode is how a switch port handles VLANs.
// +enum
type SwitchPortMode string

// The modes of a switch port.
const (
	// SwitchPortAccess has one untagged VLAN.
	SwitchPortAccess SwitchPortMode = "access"
	// SwitchPortTrunk has tagged VLANs.
	SwitchPortTrunk SwitchPortMode = "trunk"
	// SwitchPortHybrid has an untagged VLAN and tagged VLANs.
	SwitchPortHybrid SwitchPortMode = "hybrid"
)

const maxVLAN = 4094

// MaxAllowedVLANs is how many VLANs Ironic's networking service accepts for a port.
const MaxAllowedVLANs = 100

// VLANs returns the VLANs of tagged traffic in ascending order, each once. Entries that validation refuses are left out.
func (s *HostNetworkAttachmentSpec) VLANs() []int {
	var has [maxVLAN + 1]bool // the entries may overlap, and be many
	for _, entry := range s.AllowedVLANs {
		from, to, isRange := strings.Cut(entry, "-")
		first, err := strconv.Atoi(from)
		last := first
		if isRange && err == nil {
			last, err = strconv.Atoi(to)
		}
		if err != nil || first < 1 || last > maxVLAN {
			continue
		}
		for vlan := first; vlan <= last; vlan++ {
			has[vlan] = true
		}
	}
	var vlans []int
	for vlan, isAllowed := range has {
		if isAllowed {
			vlans = append(vlans, vlan)
		}
	}
	return vlans
}
