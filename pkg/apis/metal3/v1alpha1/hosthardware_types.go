// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostMaintenance puts a host's node in Ironic into maintenance, or takes it out of it (POST
// to the maintenance subresource), and reports whether it is in maintenance (POST and GET).
// Ironic does not act on a node in maintenance, and neither does this server: the host stays
// as it is until the maintenance is over. The BMC is not asked.
type HostMaintenance struct {
	metav1.TypeMeta `json:",inline"`
	// The name and namespace of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The requested change. Required in a POST.
	// +optional
	Spec HostMaintenanceSpec `json:"spec,omitempty"`
	// What Ironic reports.
	// +optional
	Status HostMaintenanceStatus `json:"status,omitempty"`
}

// HostMaintenanceSpec is the requested change of the maintenance of a node.
type HostMaintenanceSpec struct {
	// The change to make: on or off. Required. The maintenance that is on because of a
	// request does not end by itself. off ends any maintenance, also one into which Ironic has
	// put the node because of a fault, and clears the fault.
	// +optional
	Action MaintenanceAction `json:"action,omitempty"`

	// Why, for those who find the host in maintenance. Required with the action on; at most
	// 1024 characters. Ironic is told it together with the name of the user.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// MaintenanceAction is a change of the maintenance of a node.
// +enum
type MaintenanceAction string

// The maintenance actions.
const (
	// MaintenanceActionOn puts the node into maintenance.
	MaintenanceActionOn MaintenanceAction = "on"
	// MaintenanceActionOff takes the node out of maintenance.
	MaintenanceActionOff MaintenanceAction = "off"
)

// HostMaintenanceStatus is the maintenance of a node, as reported by Ironic.
type HostMaintenanceStatus struct {
	// Whether the node is in maintenance.
	Maintenance bool `json:"maintenance"`

	// Why the node is in maintenance.
	// +optional
	Reason string `json:"reason,omitempty"`

	// The fault because of which Ironic itself has put the node into maintenance. Empty if
	// a person has.
	// +optional
	Fault string `json:"fault,omitempty"`

	// A description of what was done.
	// +optional
	Message string `json:"message,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostBootDevice sets from which device a host boots (POST to the bootdevice subresource), or
// reports from which it does (GET). Ironic asks the BMC while the caller waits, for at most 25
// seconds. Ironic sets the boot device itself whenever it inspects, cleans, provisions or
// services a host, so the setting holds until then.
type HostBootDevice struct {
	metav1.TypeMeta `json:",inline"`
	// The name and namespace of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The requested boot device. Required in a POST.
	// +optional
	Spec HostBootDeviceSpec `json:"spec,omitempty"`
	// What the BMC reports (GET), or was told (POST).
	// +optional
	Status HostBootDeviceStatus `json:"status,omitempty"`
}

// HostBootDeviceSpec is the requested boot device of a host.
type HostBootDeviceSpec struct {
	// The device, in Ironic's words: one of status.supported, for example pxe, disk, cdrom,
	// bios or uefihttp. Required.
	// +optional
	Device string `json:"device,omitempty"`

	// Whether the host boots from the device every time. By default it does so only the next
	// time.
	// +optional
	Persistent bool `json:"persistent,omitempty"`
}

// HostBootDeviceStatus is the boot device of a host.
type HostBootDeviceStatus struct {
	// The device, in Ironic's words. Empty if the BMC does not tell.
	// +optional
	Device string `json:"device,omitempty"`

	// Whether the host boots from the device every time. Absent if the BMC does not tell.
	// +optional
	Persistent *bool `json:"persistent,omitempty"`

	// The devices that the driver supports.
	// +optional
	// +listType=atomic
	Supported []string `json:"supported,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostNMI sends a non-maskable interrupt to the processor of a host, upon which its operating
// system mostly writes a crash dump (POST to the nmi subresource). Ironic asks the BMC while the
// caller waits, for at most 25 seconds.
type HostNMI struct {
	metav1.TypeMeta `json:",inline"`
	// The name and namespace of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The details of the request. There are none to specify yet.
	// +optional
	Spec HostNMISpec `json:"spec,omitempty"`
	// What was done.
	// +optional
	Status HostNMIStatus `json:"status,omitempty"`
}

// HostNMISpec is a request for a non-maskable interrupt.
type HostNMISpec struct{}

// HostNMIStatus says what was done.
type HostNMIStatus struct {
	// A description of what was done.
	// +optional
	Message string `json:"message,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostIndicator switches a light of a host, by which it is found in a rack (POST to the indicator
// subresource), or reports the lights that the BMC can switch and their states (GET). Ironic
// asks the BMC while the caller waits, for at most 25 seconds.
type HostIndicator struct {
	metav1.TypeMeta `json:",inline"`
	// The name and namespace of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The requested change. Required in a POST.
	// +optional
	Spec HostIndicatorSpec `json:"spec,omitempty"`
	// The lights: all (GET), or the one that was switched (POST).
	// +optional
	Status HostIndicatorStatus `json:"status,omitempty"`
}

// HostIndicatorSpec is the requested state of a light.
type HostIndicatorSpec struct {
	// The component that has the light, in Ironic's words: system, chassis, disk, power or
	// nic. The default is system or, if its light cannot be switched, chassis.
	// +optional
	Component string `json:"component,omitempty"`

	// The name of the light. Required if the component has more than one.
	// +optional
	Name string `json:"name,omitempty"`

	// The state: on, off or blinking. Required. It must be one of the light's states.
	// +optional
	State IndicatorState `json:"state,omitempty"`
}

// IndicatorState is the state of a light.
// +enum
type IndicatorState string

// The states of a light.
const (
	// IndicatorOn is a light that is on.
	IndicatorOn IndicatorState = "on"
	// IndicatorOff is a light that is off.
	IndicatorOff IndicatorState = "off"
	// IndicatorBlinking is a light that blinks.
	IndicatorBlinking IndicatorState = "blinking"
	// IndicatorUnknown is a light of which the BMC does not tell the state. It cannot be
	// requested.
	IndicatorUnknown IndicatorState = "unknown"
)

// HostIndicatorStatus has the lights of a host.
type HostIndicatorStatus struct {
	// The lights. Empty if the BMC has none that Ironic knows.
	// +optional
	// +listType=atomic
	Indicators []Indicator `json:"indicators,omitempty"`
}

// Indicator is a light of a host.
type Indicator struct {
	// The component that has the light, in Ironic's words.
	Component string `json:"component"`

	// The name of the light.
	Name string `json:"name"`

	// Whether the light can only be read.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`

	// The states that the light can have.
	// +optional
	// +listType=atomic
	States []IndicatorState `json:"states,omitempty"`

	// The state that the BMC reports (GET), or was asked for (POST).
	// +optional
	State IndicatorState `json:"state,omitempty"`

	// Why the state is not known.
	// +optional
	Error string `json:"error,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostRebuild requests that the image which a provisioned host runs is written to its disks
// again, with a new config drive (POST to the rebuild subresource). Everything on the root
// disk is lost; other disks are not touched, as nothing is cleaned. The host is provisioning
// until it is done. The BMC is not asked while the caller waits.
type HostRebuild struct {
	metav1.TypeMeta `json:",inline"`
	// The name and namespace of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The details of the request. There are none to specify yet.
	// +optional
	Spec HostRebuildSpec `json:"spec,omitempty"`
	// What was done.
	// +optional
	Status HostRebuildStatus `json:"status,omitempty"`
}

// HostRebuildSpec is a request to write the image again.
type HostRebuildSpec struct{}

// HostRebuildStatus says what is written.
type HostRebuildStatus struct {
	// A description of what follows.
	// +optional
	Message string `json:"message,omitempty"`

	// The image that is written.
	// +optional
	Image *Image `json:"image,omitempty"`
}
