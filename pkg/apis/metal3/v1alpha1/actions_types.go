package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostPower asks for a power change of a host (POST to the power subresource)
// and tells its power as Ironic knows it at that moment (POST and GET).
type HostPower struct {
	metav1.TypeMeta `json:",inline"`
	// The name and namespace of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What shall happen.
	// +optional
	Spec HostPowerSpec `json:"spec,omitempty"`
	// What Ironic says.
	// +optional
	Status HostPowerStatus `json:"status,omitempty"`
}

// HostPowerSpec is the power change that is asked for.
type HostPowerSpec struct {
	// What shall happen: on, off or reboot. on and off also set spec.online of
	// the host, so that nothing undoes them.
	// +optional
	Action PowerAction `json:"action,omitempty"`

	// How off and reboot are done: soft asks the running system to shut down,
	// hard cuts the power. Default soft; where the driver has no soft power off
	// it is done hard, and the status says so.
	// +optional
	Mode PowerMode `json:"mode,omitempty"`
}

// HostPowerStatus is the power of a host, from Ironic.
type HostPowerStatus struct {
	// The power state in Ironic's words: power on or power off. Empty while
	// Ironic does not know it.
	// +optional
	PowerState string `json:"powerState,omitempty"`

	// The power state that Ironic is working towards, in Ironic's words. Empty
	// when nothing is under way.
	// +optional
	TargetPowerState string `json:"targetPowerState,omitempty"`

	// Ironic's last error about the host.
	// +optional
	LastError string `json:"lastError,omitempty"`

	// How off or reboot was really asked for: hard where the driver cannot do
	// it softly.
	// +optional
	Mode PowerMode `json:"mode,omitempty"`

	// What was done, in words.
	// +optional
	Message string `json:"message,omitempty"`
}

// PowerAction is a power change.
// +enum
type PowerAction string

// The power actions.
const (
	// PowerActionOn powers the host on and sets spec.online to true.
	PowerActionOn PowerAction = "on"
	// PowerActionOff powers the host off and sets spec.online to false.
	PowerActionOff PowerAction = "off"
	// PowerActionReboot restarts the host and leaves spec.online as it is.
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

// HostInspection asks for an inspection of a host's hardware (POST to the
// inspect subresource) and tells how far it is (POST and GET).
type HostInspection struct {
	metav1.TypeMeta `json:",inline"`
	// The name and namespace of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What shall happen. There is nothing to choose yet.
	// +optional
	Spec HostInspectionSpec `json:"spec,omitempty"`
	// What Ironic says.
	// +optional
	Status HostInspectionStatus `json:"status,omitempty"`
}

// HostInspectionSpec is the inspection that is asked for.
type HostInspectionSpec struct{}

// HostInspectionStatus is how far the inspection is, from Ironic.
type HostInspectionStatus struct {
	// The provision state of the node in Ironic's words, for instance inspecting,
	// inspect wait, manageable or inspect failed.
	// +optional
	State string `json:"state,omitempty"`

	// When the last inspection began.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// When the last inspection ended. Empty while one is under way.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`

	// Ironic's last error about the host.
	// +optional
	LastError string `json:"lastError,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostRetry asks for another attempt at what failed, now instead of after the
// back-off (POST to the retry subresource).
type HostRetry struct {
	metav1.TypeMeta `json:",inline"`
	// The name and namespace of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What shall happen. There is nothing to choose yet.
	// +optional
	Spec HostRetrySpec `json:"spec,omitempty"`
	// What was done about which error.
	// +optional
	Status HostRetryStatus `json:"status,omitempty"`
}

// HostRetrySpec is the attempt that is asked for.
type HostRetrySpec struct{}

// HostRetryStatus is what is tried again.
type HostRetryStatus struct {
	// What was done, in words.
	// +optional
	Message string `json:"message,omitempty"`

	// What had failed: the errorType of the host. Empty when nothing had.
	// +optional
	ErrorType ErrorType `json:"errorType,omitempty"`

	// What went wrong: the errorMessage of the host.
	// +optional
	ErrorMessage string `json:"errorMessage,omitempty"`

	// How many errors there had been since the last success: the errorCount of
	// the host, before it was set to 0.
	// +default=0
	ErrorCount int `json:"errorCount"`
}
