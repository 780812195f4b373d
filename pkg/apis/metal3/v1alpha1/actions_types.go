// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostPower requests a change of the power of a host (POST to the power subresource) and
// reports the power state that Ironic knows at that moment (POST and GET).
type HostPower struct {
	metav1.TypeMeta `json:",inline"`
	// The name and namespace of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The requested change. Required in a POST.
	// +optional
	Spec HostPowerSpec `json:"spec,omitempty"`
	// What Ironic reports.
	// +optional
	Status HostPowerStatus `json:"status,omitempty"`
}

// HostPowerSpec is the requested change of the power of a host.
type HostPowerSpec struct {
	// The change to make: on, off or reboot. on and off also set spec.online of the host, so
	// that the change is not undone. Required.
	// +optional
	Action PowerAction `json:"action,omitempty"`

	// How off and reboot are done: soft asks the running system to shut down, hard cuts the
	// power. The default is soft. If the driver does not support a soft power off, the power
	// is cut, and the status says so.
	// +optional
	Mode PowerMode `json:"mode,omitempty"`
}

// HostPowerStatus is the power state of a host, as reported by Ironic.
type HostPowerStatus struct {
	// The power state in Ironic's words: power on or power off. Empty if Ironic does not
	// know it.
	// +optional
	PowerState string `json:"powerState,omitempty"`

	// The power state that Ironic is changing to, in Ironic's words. Empty if no change is in
	// progress.
	// +optional
	TargetPowerState string `json:"targetPowerState,omitempty"`

	// The last error that Ironic recorded for the host's node.
	// +optional
	LastError string `json:"lastError,omitempty"`

	// The mode that was requested from Ironic for off or reboot. It is hard if the driver
	// does not support soft.
	// +optional
	Mode PowerMode `json:"mode,omitempty"`

	// A description of what was done.
	// +optional
	Message string `json:"message,omitempty"`
}

// PowerAction is a change of the power of a host.
// +enum
type PowerAction string

// The power actions.
const (
	// PowerActionOn powers the host on and sets spec.online to true.
	PowerActionOn PowerAction = "on"
	// PowerActionOff powers the host off and sets spec.online to false.
	PowerActionOff PowerAction = "off"
	// PowerActionReboot reboots the host and leaves spec.online unchanged.
	PowerActionReboot PowerAction = "reboot"
)

// PowerMode is how a host is powered off or rebooted.
// +enum
type PowerMode string

// The power modes.
const (
	// PowerModeSoft asks the running system to shut down.
	PowerModeSoft PowerMode = "soft"
	// PowerModeHard cuts the power.
	PowerModeHard PowerMode = "hard"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostInspection requests an inspection of a host's hardware (POST to the inspect
// subresource) and reports its progress (POST and GET).
type HostInspection struct {
	metav1.TypeMeta `json:",inline"`
	// The name and namespace of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The details of the request. There are none to specify yet.
	// +optional
	Spec HostInspectionSpec `json:"spec,omitempty"`
	// What Ironic reports.
	// +optional
	Status HostInspectionStatus `json:"status,omitempty"`
}

// HostInspectionSpec is a request for an inspection.
type HostInspectionSpec struct{}

// HostInspectionStatus is the progress of an inspection, as reported by Ironic.
type HostInspectionStatus struct {
	// The provision state of the node in Ironic's words, for example inspecting,
	// inspect wait, manageable or inspect failed.
	// +optional
	State string `json:"state,omitempty"`

	// When the last inspection began.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// When the last inspection ended. Empty while an inspection is in progress.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`

	// The last error that Ironic recorded for the host's node.
	// +optional
	LastError string `json:"lastError,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostRetry requests that the operation that failed on a host is retried immediately
// instead of after the back-off (POST to the retry subresource).
type HostRetry struct {
	metav1.TypeMeta `json:",inline"`
	// The name and namespace of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The details of the request. There are none to specify yet.
	// +optional
	Spec HostRetrySpec `json:"spec,omitempty"`
	// What was done, and the error that the host had before.
	// +optional
	Status HostRetryStatus `json:"status,omitempty"`
}

// HostRetrySpec is a request for a retry.
type HostRetrySpec struct{}

// HostRetryStatus says what is retried.
type HostRetryStatus struct {
	// A description of what was done.
	// +optional
	Message string `json:"message,omitempty"`

	// The errorType of the host before the retry. Empty if nothing had failed.
	// +optional
	ErrorType ErrorType `json:"errorType,omitempty"`

	// The errorMessage of the host before the retry.
	// +optional
	ErrorMessage string `json:"errorMessage,omitempty"`

	// The errorCount of the host before it was set to 0: the number of errors since the last
	// success.
	// +default=0
	ErrorCount int `json:"errorCount"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostTakeover confirms that a node in Ironic, as it is now, is the host's, and that it
// runs what the host's spec says (POST to the takeover subresource). It ends what the
// condition Held says. From then on the server treats the machine as the spec asks, which
// can mean that it is powered off, or deprovisioned and its disks erased: compare the spec
// with the machine first.
type HostTakeover struct {
	metav1.TypeMeta `json:",inline"`
	// The name and namespace of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which node is taken over.
	Spec HostTakeoverSpec `json:"spec"`
	// What was confirmed.
	// +optional
	Status HostTakeoverStatus `json:"status,omitempty"`
}

// HostTakeoverSpec is a request to take a node over.
type HostTakeoverSpec struct {
	// The UUID of the node, which must be the one in status.provisioning.ID. Whoever writes
	// it shows that it is this machine that was looked at.
	NodeUUID string `json:"nodeUUID"`

	// What is deployed on the node, as status.ironic.instanceUUID had it; empty for nothing. If
	// it is set, the request is refused if something else is deployed by now.
	// +optional
	InstanceUUID *string `json:"instanceUUID,omitempty"`
}

// HostTakeoverStatus says what was confirmed.
type HostTakeoverStatus struct {
	// A description of what follows.
	// +optional
	Message string `json:"message,omitempty"`

	// What Ironic said of the node.
	// +optional
	Confirmed *Takeover `json:"confirmed,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostTransfer moves a host to another Ironic (POST to the transfer subresource). Its node leaves
// the Ironic where it is, and is created and adopted in the other one. The machine goes on running
// as it is: its power is not switched, it is not booted, and nothing is written to its disks.
type HostTransfer struct {
	metav1.TypeMeta `json:",inline"`
	// The name and namespace of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Where the host is moved.
	Spec HostTransferSpec `json:"spec"`
	// What follows.
	// +optional
	Status HostTransferStatus `json:"status,omitempty"`
}

// HostTransferSpec is a request to move a host.
type HostTransferSpec struct {
	// The name of the IronicInstance to which the host is moved; "" is the Ironic of the server's
	// flags. Required, also where it is "". The name of the one where the host is calls off a move
	// that has not ended.
	// +optional
	Ironic *string `json:"ironic,omitempty"`
}

// HostTransferStatus says what follows.
type HostTransferStatus struct {
	// The name of the IronicInstance in which the host has its node at this moment; empty for the
	// Ironic of the server's flags.
	// +optional
	Ironic string `json:"ironic,omitempty"`

	// A description of what follows.
	// +optional
	Message string `json:"message,omitempty"`
}

// Describe says what is requested, for people.
func (r *HostTransfer) Describe() string {
	to := ""
	if r.Spec.Ironic != nil {
		to = *r.Spec.Ironic
	}
	if to == r.Status.Ironic {
		return "the host to stay in " + describeIronic(to)
	}
	return "the host to be moved to " + describeIronic(to)
}

func describeIronic(name string) string {
	if name == "" {
		return "the Ironic of the server's flags"
	}
	return "the Ironic of IronicInstance " + name
}

// Describe says what is requested, for people.
func (r *HostPower) Describe() string {
	what := "the power to be switched " + string(r.Spec.Action)
	if r.Spec.Action == PowerActionReboot {
		what = "a reboot"
	}
	if r.Spec.Mode != "" {
		what += " (" + string(r.Spec.Mode) + ")"
	}
	return what
}
