// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BareMetalHostStatus is the observed state of a host.
type BareMetalHostStatus struct {
	// A summary of the state of the host: OK, discovered (not managed because there are no
	// BMC details), error (see errorType and errorMessage), delayed (waiting for other hosts
	// to finish), detached or servicing. Empty while nothing is known.
	OperationalStatus OperationalStatus `json:"operationalStatus"`

	// The kind of operation that failed, if operationalStatus is error.
	// +optional
	ErrorType ErrorType `json:"errorType,omitempty"`

	// When this status last changed.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// The name of the hardware profile of the host.
	// +optional
	HardwareProfile string `json:"hardwareProfile,omitempty"`

	// The hardware that the last inspection found.
	// +optional
	HardwareDetails *HardwareDetails `json:"hardware,omitempty"`

	// The provisioning state of the host, and the settings that were last applied to it.
	Provisioning ProvisionStatus `json:"provisioning"`

	// The last BMC credentials that worked.
	// +optional
	GoodCredentials CredentialsStatus `json:"goodCredentials,omitempty"`

	// The last BMC credentials that were sent to Ironic.
	// +optional
	TriedCredentials CredentialsStatus `json:"triedCredentials,omitempty"`

	// A description of the error. Errors of Ironic are shown in Ironic's own words. Empty if
	// there is no error.
	ErrorMessage string `json:"errorMessage"`

	// Whether the host is powered on, according to Ironic. Keeps its last value while Ironic
	// does not know the power state.
	PoweredOn bool `json:"poweredOn"`

	// When the host was last registered, inspected, provisioned and deprovisioned.
	// +optional
	OperationHistory OperationHistory `json:"operationHistory,omitempty"`

	// The number of errors since the last success. The more errors there are, the longer the
	// wait before the next attempt.
	// +default=0
	ErrorCount int `json:"errorCount"`

	// How many times in a row provisioning has failed. Can be set to 0 through the status
	// subresource to retry.
	// +default=0
	ProvisioningFailCount int `json:"provisioningFailCount"`

	// The image that was last tried.
	// +optional
	LastAttemptedImage *Image `json:"lastAttemptedImage,omitempty"`

	// The conditions of the host, for example for kubectl wait: Registered, Manageable,
	// AvailableForProvisioning, Provisioned, Ready, Progressing, Healthy, IronicReachable,
	// NetworkInterfacesValid if it has any networkInterfaces,
	// and, only in case of a problem, Held, ImageBuilt, InventoryRead, PowerSynced and
	// StepFailed.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	// +k8s:validation:maxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// The Ironic node of the host, as last reported by Ironic. Absent while the host is not
	// in Ironic.
	// +optional
	Ironic *IronicStatus `json:"ironic,omitempty"`

	// What the server has recorded of the host for itself. This is no interface: its fields may
	// change in any release. Only the server writes it; what clients send for it is ignored.
	// +optional
	Record HostRecord `json:"record,omitzero"`
}

// OperationalStatus is a summary of the state of a host.
// +enum
type OperationalStatus string

// The operational statuses.
const (
	// OperationalStatusOK means that the host is managed and has no error.
	OperationalStatusOK OperationalStatus = "OK"
	// OperationalStatusDiscovered means that the host has no BMC details.
	OperationalStatusDiscovered OperationalStatus = "discovered"
	// OperationalStatusError means that the host has an error.
	OperationalStatusError OperationalStatus = "error"
	// OperationalStatusDelayed means that the host waits for other hosts to finish.
	OperationalStatusDelayed OperationalStatus = "delayed"
	// OperationalStatusDetached means that the host was removed from Ironic by
	// DetachedAnnotation.
	OperationalStatusDetached OperationalStatus = "detached"
	// OperationalStatusServicing means that firmware or BIOS settings of a provisioned host
	// are being changed.
	OperationalStatusServicing OperationalStatus = "servicing"
)

// ErrorType is the kind of operation that failed.
// +enum
type ErrorType string

// The error types.
const (
	// ProvisionedRegistrationError means that Ironic could not adopt a provisioned host, which
	// is registered in it again, or that such a host is held.
	ProvisionedRegistrationError ErrorType = "provisioned registration error"
	// RegistrationError means that the host could not be registered, for example because the
	// BMC address or credentials are wrong or the BMC does not answer.
	RegistrationError ErrorType = "registration error"
	// InspectionError means that an inspection failed.
	InspectionError ErrorType = "inspection error"
	// PreparationError means that RAID, BIOS, firmware or cleaning failed before the host was
	// available.
	PreparationError ErrorType = "preparation error"
	// ProvisioningError means that provisioning or deprovisioning failed.
	ProvisioningError ErrorType = "provisioning error"
	// PowerManagementError means that the power could not be read or changed.
	PowerManagementError ErrorType = "power management error"
	// ServicingError means that firmware or BIOS settings of a provisioned host could not be
	// changed.
	ServicingError ErrorType = "servicing error"
	// DetachError means that the host could not be removed from Ironic.
	DetachError ErrorType = "detach error"
)

// ProvisioningState is the phase of a host's life cycle.
type ProvisioningState string

// The provisioning states. Some of their values contain spaces.
const (
	// StateNone is a host that has not been processed yet.
	StateNone ProvisioningState = ""
	// StateUnmanaged is a host without BMC details.
	StateUnmanaged ProvisioningState = "unmanaged"
	// StateRegistering is a host that is being registered in Ironic.
	StateRegistering ProvisioningState = "registering"
	// StateInspecting is a host whose hardware is being inspected.
	StateInspecting ProvisioningState = "inspecting"
	// StateMatchProfile is a state of older releases between inspecting and preparing.
	StateMatchProfile ProvisioningState = "match profile"
	// StatePreparing is a host that is being made available.
	StatePreparing ProvisioningState = "preparing"
	// StateReady is the older name of StateAvailable.
	StateReady ProvisioningState = "ready"
	// StateAvailable is a host that can be provisioned.
	StateAvailable ProvisioningState = "available"
	// StateProvisioning is a host to which an image is being written.
	StateProvisioning ProvisioningState = "provisioning"
	// StateProvisioned is a host that runs an image.
	StateProvisioned ProvisioningState = "provisioned"
	// StateExternallyProvisioned is a host that runs a system that was installed by other
	// means.
	StateExternallyProvisioned ProvisioningState = "externally provisioned"
	// StateDeprovisioning is a host whose image is being removed.
	StateDeprovisioning ProvisioningState = "deprovisioning"
	// StatePoweringOffBeforeDelete is a host that is being powered off before it is deleted.
	StatePoweringOffBeforeDelete ProvisioningState = "powering off before delete"
	// StateDeleting is a host that is being removed from Ironic.
	StateDeleting ProvisioningState = "deleting"
)

// RunsSomething reports whether a host in this state is provisioned or externally provisioned.
func (s ProvisioningState) RunsSomething() bool {
	return s == StateProvisioned || s == StateExternallyProvisioned
}

// ProvisionStatus is the provisioning state of a host, and the settings that were last
// applied to it.
type ProvisionStatus struct {
	// The provisioning state: unmanaged, registering, inspecting, preparing, available,
	// provisioning, provisioned, externally provisioned, deprovisioning, powering off before
	// delete or deleting.
	State ProvisioningState `json:"state"`

	// The UUID of the host's node in Ironic.
	ID string `json:"ID"`

	// The image that the host runs.
	// +optional
	Image Image `json:"image,omitempty"`

	// The root device hints that were applied.
	// +optional
	RootDeviceHints *RootDeviceHints `json:"rootDeviceHints,omitempty"`

	// The boot mode that was applied.
	// +optional
	BootMode BootMode `json:"bootMode,omitempty"`

	// The RAID layout that was applied.
	// +optional
	RAID *RAIDConfig `json:"raid,omitempty"`

	// The BIOS settings that were applied.
	// +optional
	Firmware *FirmwareConfig `json:"firmware,omitempty"`

	// The custom deploy procedure that was run.
	// +optional
	CustomDeploy *CustomDeploy `json:"customDeploy,omitempty"`
}

// CredentialsStatus identifies a version of a Secret.
type CredentialsStatus struct {
	// The Secret with the credentials.
	// +optional
	Reference *corev1.SecretReference `json:"credentials,omitempty"`

	// The resource version of the Secret.
	// +optional
	Version string `json:"credentialsVersion,omitempty"`
}

// Match reports whether this is the given Secret in its current version.
func (c CredentialsStatus) Match(secret *corev1.Secret) bool {
	return c.Reference != nil &&
		c.Reference.Name == secret.Name &&
		c.Reference.Namespace == secret.Namespace &&
		c.Version == secret.ResourceVersion
}

// OperationMetric has the times at which an operation began and ended.
type OperationMetric struct {
	// When the operation began.
	// +optional
	Start metav1.Time `json:"start,omitempty"`

	// When the operation ended. null while it is in progress.
	// +optional
	End metav1.Time `json:"end,omitempty"`
}

// OperationHistory has the times at which a host was last registered, inspected, provisioned
// and deprovisioned.
type OperationHistory struct {
	// The last registration.
	// +optional
	Register OperationMetric `json:"register,omitempty"`

	// The last inspection.
	// +optional
	Inspect OperationMetric `json:"inspect,omitempty"`

	// The last provisioning.
	// +optional
	Provision OperationMetric `json:"provision,omitempty"`

	// The last deprovisioning.
	// +optional
	Deprovision OperationMetric `json:"deprovision,omitempty"`
}

// IronicStatus is the state of a host's node in Ironic, in Ironic's own words.
type IronicStatus struct {
	// The UUID of the node.
	NodeUUID string `json:"nodeUUID"`

	// The name of the IronicInstance whose Ironic has the node. Empty if that is the Ironic of the
	// server's flags.
	// +optional
	Instance string `json:"instance,omitempty"`

	// Why nothing else of the node is shown: it is not proven that it is this host's. A reason of the
	// condition Held. Empty if the node is proven to be this host's.
	// +optional
	Unproven string `json:"unproven,omitempty"`

	// The name of the node.
	// +optional
	NodeName string `json:"nodeName,omitempty"`

	// The provision state of the node, for example manageable or clean wait.
	ProvisionState string `json:"provisionState"`

	// The provision state to which Ironic is bringing the node. Empty if no transition is in
	// progress.
	// +optional
	TargetProvisionState string `json:"targetProvisionState,omitempty"`

	// When the node came into its provision state. Absent while Ironic is at work on it.
	// +optional
	StateChangedAt *metav1.MicroTime `json:"stateChangedAt,omitempty"`

	// How many RAID volumes Ironic says that it has made on the machine, in hardware or in
	// software.
	// +optional
	RAIDVolumes int `json:"raidVolumes,omitempty"`

	// The power state of the node: power on or power off. Empty if Ironic does not know it.
	// +optional
	PowerState string `json:"powerState,omitempty"`

	// The power state that Ironic is changing to. Empty if no change is in progress.
	// +optional
	TargetPowerState string `json:"targetPowerState,omitempty"`

	// Since when the node has been seen without a reservation although its provision state or its
	// target power state says that Ironic is at work on it. A conductor reserves a node while it
	// works on it, so one that did was stopped. Absent otherwise.
	// +optional
	UnreservedSince *metav1.Time `json:"unreservedSince,omitempty"`

	// Whether the node has been seen so for so long that no conductor can be at work on it any more:
	// Ironic will never end what it has begun.
	// +optional
	Forgotten bool `json:"forgotten,omitempty"`

	// What Ironic is doing that takes minutes: inspect, clean, deploy or service. Empty if it
	// is doing none of these.
	// +optional
	Operation IronicOperation `json:"operation,omitempty"`

	// When the operation began, as far as this server has seen.
	// +optional
	OperationStartedAt *metav1.Time `json:"operationStartedAt,omitempty"`

	// The clean, deploy or service step that is in progress, for example
	// deploy.erase_devices_metadata. Empty while the ramdisk that carries out the first
	// step boots, and during an inspection, which has no steps.
	// +optional
	Step string `json:"step,omitempty"`

	// The number of that step, counted from 1.
	// +optional
	StepIndex int `json:"stepIndex,omitempty"`

	// How many steps the operation has. Empty until Ironic knows it: the ramdisk adds
	// its own steps to those of a deployment when it has booted.
	// +optional
	StepCount int `json:"stepCount,omitempty"`

	// When that step began, as far as this server has seen.
	// +optional
	StepStartedAt *metav1.Time `json:"stepStartedAt,omitempty"`

	// Whether the node is in maintenance. Ironic does not act on a node in maintenance.
	// +optional
	Maintenance bool `json:"maintenance,omitempty"`

	// Why the node is in maintenance.
	// +optional
	MaintenanceReason string `json:"maintenanceReason,omitempty"`

	// The fault that Ironic detected, for example power failure if the BMC does not answer.
	// Ironic clears a power failure by itself when the BMC answers again.
	// +optional
	Fault string `json:"fault,omitempty"`

	// The instance_uuid of the node, which identifies what was deployed on it.
	// +optional
	InstanceUUID string `json:"instanceUUID,omitempty"`

	// The BMC that Ironic talks to, as protocol, host, port and system.
	// +optional
	BMC string `json:"bmc,omitempty"`

	// Whether Ironic cleans the node automatically: true, false, or empty if Ironic's own default
	// applies.
	// +optional
	AutomatedClean string `json:"automatedClean,omitempty"`

	// Whether Ironic has firmware updates in progress, or has yet to discard one that failed.
	// +optional
	UpdatingFirmware bool `json:"updatingFirmware,omitempty"`

	// Whether Ironic has made the node its own parent, a defect of Ironic 29.0.5. It then no longer
	// reads the power state of the machine, nor notices when a ramdisk is silent.
	// +optional
	OwnParent bool `json:"ownParent,omitempty"`

	// The UID of the host that the node is marked with. Empty where no server of this kind
	// has marked it.
	// +optional
	MarkedHost string `json:"markedHost,omitempty"`

	// The UID of the cluster that the node is marked with.
	// +optional
	MarkedCluster string `json:"markedCluster,omitempty"`

	// Whether the host itself asks for what Ironic does on the node to be aborted: it
	// is deleted, detached by force, to be rebooted by force, or another image is
	// wanted. The failed state that Ironic leaves the node in is no error then.
	// +optional
	AbortRequested bool `json:"abortRequested,omitempty"`

	// The conductor that holds the lock of the node. Ironic refuses changes while the node is
	// locked.
	// +optional
	Reservation string `json:"reservation,omitempty"`

	// The last error that Ironic recorded for the node. Ironic keeps it until the next
	// operation, even if the problem no longer exists.
	// +optional
	LastError string `json:"lastError,omitempty"`

	// When the inspection ended whose inventory was last read, according to Ironic.
	// +optional
	InspectionFinishedAt *metav1.MicroTime `json:"inspectionFinishedAt,omitempty"`

	// The parts of that inventory that cannot be read, by their paths, and what is there instead. Of
	// these, status.hardware has what was known before.
	// +optional
	UnreadInventory string `json:"unreadInventory,omitempty"`

	// Whether the inventory of an inspection that has ended has yet to be read.
	// +optional
	InventoryPending bool `json:"inventoryPending,omitempty"`
}

// IronicOperation is what Ironic does on a node for minutes.
// +enum
type IronicOperation string

// The operations of Ironic that status.ironic tells the progress of.
const (
	// OperationInspect is an inspection of the hardware.
	OperationInspect IronicOperation = "inspect"
	// OperationClean is cleaning, also with settings that are applied before a host is
	// available.
	OperationClean IronicOperation = "clean"
	// OperationDeploy is the writing of an image.
	OperationDeploy IronicOperation = "deploy"
	// OperationService is a change of the settings of a provisioned host.
	OperationService IronicOperation = "service"
)

// HowToReplace says how a host in a state is replaced by one of another spec, where that cannot be changed. A host that runs something is
// detached first: to delete it as it is would undeploy and clean the machine, or switch it off.
func HowToReplace(state ProvisioningState) string {
	if state.RunsSomething() {
		return replaceRunning
	}
	return "delete the host, and create it again"
}

// HowToReplaceAny is HowToReplace for a host of which it is not known what it runs.
const HowToReplaceAny = "if it runs something, " + replaceRunning + "; otherwise, delete it, and create it again"

const replaceRunning = "detach it (annotation " + DetachedAnnotation + "), wait until status.operationalStatus is detached, delete it only then, " +
	"and create it and its Secret again, with externallyProvisioned: true. To delete it without that undeploys the machine and erases its disks"

// MayBeExternallyProvisioned reports whether the host is externally provisioned, or runs what nobody has named, as one does of which
// spec.externallyProvisioned was removed.
func MayBeExternallyProvisioned(status *BareMetalHostStatus) bool {
	switch saved := &status.Provisioning; saved.State {
	case StateExternallyProvisioned:
		return true
	case StateProvisioned:
		return saved.Image.URL == "" && saved.CustomDeploy == nil && status.Record.Deployment != nil
	}
	return false
}
