// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Finalizers.
const (
	// BareMetalHostFinalizer keeps a host until its node is removed from Ironic.
	BareMetalHostFinalizer = "baremetalhost.metal3.io"
	// SecretFinalizer keeps the Secret with the BMC credentials as long as its host needs
	// it.
	SecretFinalizer = BareMetalHostFinalizer + "/secret"
	// HardwareDataFinalizer keeps the HardwareData of a host as long as the host exists.
	HardwareDataFinalizer = BareMetalHostFinalizer + "/hardwareData"
	// PreprovisioningImageInUseFinalizer keeps the PreprovisioningImage of a host as long as
	// the host exists.
	PreprovisioningImageInUseFinalizer = BareMetalHostFinalizer + "/preprovisioningImage"
	// PreprovisioningImageFinalizer keeps a PreprovisioningImage until the image that was
	// built for it is removed.
	PreprovisioningImageFinalizer = "preprovisioningimage.metal3.io"
	// DataImageFinalizer keeps a DataImage until it is detached from the host.
	DataImageFinalizer = "dataimage.metal3.io"
	// BMCEventSubscriptionFinalizer keeps a BMCEventSubscription until the BMC has
	// removed it.
	BMCEventSubscriptionFinalizer = "bmceventsubscription.metal3.io"
	// HostClaimFinalizer keeps a HostClaim until its host is released.
	HostClaimFinalizer = "metal3.io/hostclaim"
)

// Annotations of a host.
const (
	// PausedAnnotation, with any value, stops all actions on the host.
	PausedAnnotation = "baremetalhost.metal3.io/paused"
	// DeleteForMoveAnnotation is what clusterctl move sets on an object that it has copied to another cluster, before
	// it removes the finalizers and deletes the object. It pauses the host, too.
	DeleteForMoveAnnotation = "clusterctl.cluster.x-k8s.io/delete-for-move"
	// DetachedAnnotation removes the host from Ironic without changing its provisioning
	// state. Its value can be a DetachedAnnotationArguments in JSON.
	DetachedAnnotation = "baremetalhost.metal3.io/detached"
	// StatusAnnotation is a status in JSON, which a new host takes over.
	StatusAnnotation = "baremetalhost.metal3.io/status"
	// RebootAnnotation reboots the host once. Its value can be a RebootAnnotationArguments
	// in JSON.
	RebootAnnotation = "reboot.metal3.io"
	// RebootAnnotationPrefix, followed by a key, keeps the host off until the annotation is
	// removed.
	RebootAnnotationPrefix = RebootAnnotation + "/"
	// InspectAnnotation requests another inspection. With the value disabled, it disables
	// inspection.
	InspectAnnotation = "inspect.metal3.io"
	// InspectAnnotationValueDisabled is the value of InspectAnnotation that disables
	// inspection.
	InspectAnnotationValueDisabled = "disabled"
	// HardwareDetailsAnnotation is a HardwareDetails in JSON, for a host that is not
	// inspected.
	HardwareDetailsAnnotation = InspectAnnotation + "/hardwaredetails"
)

// Labels.
const (
	// EnvironmentLabel, with the value EnvironmentLabelValue, marks the Secrets that hosts
	// use.
	EnvironmentLabel = "environment.metal3.io"
	// EnvironmentLabelValue is the value of EnvironmentLabel.
	EnvironmentLabelValue = "baremetal"
)

// Keys of the Secret with the BMC credentials.
const (
	// SecretUsernameKey is the key of the user name.
	SecretUsernameKey = "username"
	// SecretPasswordKey is the key of the password.
	SecretPasswordKey = "password"
)

// RebootAnnotationArguments is the value of a reboot annotation.
type RebootAnnotationArguments struct {
	// Mode is hard to cut the power, or soft to ask the running system to shut down. The
	// default is soft.
	Mode PowerMode `json:"mode,omitempty"`
	// Force also reboots a host that is not provisioned, and aborts an operation that is in
	// progress.
	Force bool `json:"force,omitempty"`
}

// DetachedDeleteAction is what deleting a detached host does.
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
	// DeleteAction is what deleting the detached host does. The default is delete.
	DeleteAction DetachedDeleteAction `json:"deleteAction,omitempty"`
	// Force detaches the host in any state, and aborts an operation that is in progress.
	Force bool `json:"force,omitempty"`
}
