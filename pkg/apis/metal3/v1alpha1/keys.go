package v1alpha1

// Finalizers.
const (
	// BareMetalHostFinalizer keeps a host until its node is gone from Ironic.
	BareMetalHostFinalizer = "baremetalhost.metal3.io"
	// SecretFinalizer keeps the Secret with the BMC credentials as long as its
	// host needs it.
	SecretFinalizer = BareMetalHostFinalizer + "/secret"
	// HardwareDataFinalizer keeps the HardwareData of a host as long as the host
	// is there.
	HardwareDataFinalizer = BareMetalHostFinalizer + "/hardwareData"
	// PreprovisioningImageInUseFinalizer keeps the PreprovisioningImage of a host as
	// long as the host is there.
	PreprovisioningImageInUseFinalizer = BareMetalHostFinalizer + "/preprovisioningImage"
	// PreprovisioningImageFinalizer keeps a PreprovisioningImage until what was built
	// for it is removed.
	PreprovisioningImageFinalizer = "preprovisioningimage.metal3.io"
	// DataImageFinalizer keeps a DataImage until it is out of the host's drive.
	DataImageFinalizer = "dataimage.metal3.io"
	// BMCEventSubscriptionFinalizer keeps a BMCEventSubscription until the BMC has
	// removed it.
	BMCEventSubscriptionFinalizer = "bmceventsubscription.metal3.io"
	// HostClaimFinalizer keeps a HostClaim until its host is released.
	HostClaimFinalizer = "metal3.io/hostclaim"
)

// Annotations of a host.
const (
	// PausedAnnotation, with any value, stops all work on the host.
	PausedAnnotation = "baremetalhost.metal3.io/paused"
	// DetachedAnnotation takes the host out of Ironic and freezes its state. Its
	// value may be a DetachedAnnotationArguments in JSON.
	DetachedAnnotation = "baremetalhost.metal3.io/detached"
	// StatusAnnotation is a status in JSON, restored into a new host.
	StatusAnnotation = "baremetalhost.metal3.io/status"
	// RebootAnnotation reboots the host once. Its value may be a
	// RebootAnnotationArguments in JSON.
	RebootAnnotation = "reboot.metal3.io"
	// RebootAnnotationPrefix, followed by a key, holds the host off until the
	// annotation is removed.
	RebootAnnotationPrefix = RebootAnnotation + "/"
	// InspectAnnotation asks for another inspection; with the value disabled, it
	// switches inspection off.
	InspectAnnotation = "inspect.metal3.io"
	// InspectAnnotationValueDisabled is the value that switches inspection off.
	InspectAnnotationValueDisabled = "disabled"
	// HardwareDetailsAnnotation is a HardwareDetails in JSON, for a host that is
	// not inspected.
	HardwareDetailsAnnotation = InspectAnnotation + "/hardwaredetails"
)

// Labels.
const (
	// EnvironmentLabel marks, with EnvironmentLabelValue, the Secrets that hosts
	// use.
	EnvironmentLabel = "environment.metal3.io"
	// EnvironmentLabelValue is the value of EnvironmentLabel.
	EnvironmentLabelValue = "baremetal"
)

// Keys of the Secret with the BMC credentials.
const (
	// SecretUsernameKey holds the user name.
	SecretUsernameKey = "username"
	// SecretPasswordKey holds the password.
	SecretPasswordKey = "password"
)

// RebootAnnotationArguments is the value of a reboot annotation.
type RebootAnnotationArguments struct {
	// Mode is hard to cut the power; soft, the default, asks the running system
	// to shut down.
	Mode PowerMode `json:"mode,omitempty"`
	// Force reboots also a host that is not provisioned, and aborts what is
	// under way.
	Force bool `json:"force,omitempty"`
}

// DetachedDeleteAction is what the deletion of a detached host does.
type DetachedDeleteAction string

// The delete actions.
const (
	// DetachedDeleteActionDelete deletes the host at once.
	DetachedDeleteActionDelete DetachedDeleteAction = "delete"
	// DetachedDeleteActionDelay keeps the host until it is attached again.
	DetachedDeleteActionDelay DetachedDeleteAction = "delay"
)

// DetachedAnnotationArguments is the value of DetachedAnnotation.
type DetachedAnnotationArguments struct {
	// DeleteAction says what deleting the detached host does.
	DeleteAction DetachedDeleteAction `json:"deleteAction,omitempty"`
	// Force detaches in any state, and aborts what is under way.
	Force bool `json:"force,omitempty"`
}
