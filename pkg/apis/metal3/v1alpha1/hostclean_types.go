// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostClean requests that Ironic carries out clean steps on the machine of an available host,
// once (POST to the clean subresource), for example to erase all disks. The host is preparing
// until it is done. Steps that fail are not tried again. The BMC is not asked while the caller
// waits.
type HostClean struct {
	metav1.TypeMeta `json:",inline"`
	// The name and namespace of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The steps.
	Spec HostCleanSpec `json:"spec"`
	// What was done.
	// +optional
	Status HostCleanStatus `json:"status,omitempty"`
}

// HostCleanSpec is a request for clean steps.
type HostCleanSpec struct {
	// The steps, which are carried out in this order.
	// +listType=atomic
	Steps []CleanStep `json:"steps"`
}

// CleanStep is a clean step of Ironic's. Which ones there are depends on the driver of the host,
// and on the ramdisk. Those that erase disks and a few others can be requested, and what the
// administrator of the server allows in addition.
type CleanStep struct {
	// The interface of the driver that has the step: deploy, management, bios, power, raid or vendor.
	Interface string `json:"interface"`

	// The name of the step, for example erase_devices.
	Step string `json:"step"`

	// The arguments of the step, an object. Most steps have none. A text in it that begins with a scheme
	// must be an http, https or oci URL without a password.
	// +optional
	Args *runtime.RawExtension `json:"args,omitempty"`
}

// HostCleanStatus says what was requested.
type HostCleanStatus struct {
	// A description of what follows.
	// +optional
	Message string `json:"message,omitempty"`
}
