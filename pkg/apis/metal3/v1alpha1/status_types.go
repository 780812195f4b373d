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

	// What the host's node in Ironic was last registered with, apart from the spec,
	// whose generation the condition Registered tells. The node is registered anew
	// when any of it differs. Absent while the node was never registered.
	// +optional
	RegisteredWith *RegisteredWith `json:"registeredWith,omitempty"`

	// The deployment on the host's node that this status is about. Absent while there is
	// none.
	// +optional
	Deployment *Deployment `json:"deployment,omitempty"`

	// The last manual clean in which Ironic applied settings to the host's machine, or carried out
	// the steps that were requested with the subresource clean. Absent if there was none.
	// +optional
	Preparation *Preparation `json:"preparation,omitempty"`

	// The clean steps that were requested with the subresource clean and have not ended.
	// +optional
	RequestedClean *RequestedClean `json:"requestedClean,omitempty"`

	// The last service in which Ironic changed settings of the machine while it ran something.
	// Absent if there was none since the host was provisioned.
	// +optional
	Servicing *Servicing `json:"servicing,omitempty"`

	// What was last confirmed through the subresource takeover. It counts as long as the
	// node is as it was then.
	// +optional
	Takeover *Takeover `json:"takeover,omitempty"`

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
	// ProvisionedRegistrationError means that a provisioned host could not be registered
	// again.
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

// RegisteredWith is what a node was registered with that the spec does not tell.
type RegisteredWith struct {
	// A digest of the server's settings for the ramdisk, which are part of the
	// node's driver_info.
	// +optional
	SettingsDigest string `json:"settingsDigest,omitempty"`

	// The resource version of the Secret with the network configuration of the
	// ramdisk (spec.preprovisioningNetworkDataName), as far as its contents are
	// concerned. Empty where the node has none.
	// +optional
	NetworkDataVersion string `json:"networkDataVersion,omitempty"`

	// A digest of the PreprovisioningImage of the host, which is part of the node's
	// driver_info. Empty where hosts boot the images of the server's settings.
	// +optional
	Image string `json:"image,omitempty"`

	// Whether the node was not idle (enroll, manageable or available), so that what
	// Ironic accepts only for idle nodes, such as the inspect interface, has yet to be
	// registered.
	// +optional
	DueWhenIdle bool `json:"dueWhenIdle,omitempty"`

	// The BMC that Ironic was told, as protocol, host, port and system.
	// +optional
	BMC string `json:"bmc,omitempty"`

	// Whether a node that is its own parent, a defect of Ironic 29.0.5, was given the
	// power supply without which that Ironic cannot switch it on.
	// +optional
	PowerSupply bool `json:"powerSupply,omitempty"`
}

// Deployment identifies what a host's node runs, or is to run when it is provisioned. What
// would end it rests on this: another deployment on the node is left alone.
type Deployment struct {
	// The UUID of the node.
	NodeUUID string `json:"nodeUUID"`

	// The instance_uuid of the node in Ironic. Each attempt to provision a host has one of
	// its own; Ironic forgets it when the node is undeployed. Empty where whoever deployed
	// the node gave it none.
	// +optional
	InstanceUUID string `json:"instanceUUID,omitempty"`

	// Whether the machine ran when it was taken over although spec.online was false. It is
	// left on until spec.online is changed.
	// +optional
	KeepPower bool `json:"keepPower,omitempty"`

	// The rebuild that was requested of the deployment and has not ended.
	// +optional
	Rebuild *Rebuild `json:"rebuild,omitempty"`
}

// Rebuild is a request to write the image of a deployment again.
type Rebuild struct {
	// When it was requested.
	RequestedAt metav1.Time `json:"requestedAt"`

	// When Ironic had last changed the provision state of the node by then. If that was at
	// another time, the rebuild has begun.
	// +optional
	StateChangedAt *metav1.MicroTime `json:"stateChangedAt,omitempty"`
}

// Preparation is a manual clean in which Ironic applies settings, such as a RAID layout, to
// the machine of a host that runs nothing.
type Preparation struct {
	// The UUID of the node.
	NodeUUID string `json:"nodeUUID"`

	// How far it is: Requested, Running, Succeeded or Failed.
	Phase PreparationPhase `json:"phase"`

	// When it was requested.
	StartedAt metav1.Time `json:"startedAt"`

	// When it ended, as far as this server has seen. Absent until then.
	// +optional
	EndedAt *metav1.Time `json:"endedAt,omitempty"`

	// Why it has failed, if Ironic takes it for a success.
	// +optional
	Problem string `json:"problem,omitempty"`

	// Why it has failed, in Ironic's words, or why it has not begun.
	// +optional
	Message string `json:"message,omitempty"`

	// Set if the steps were requested with the subresource clean.
	// +optional
	IsRequested bool `json:"isRequested,omitempty"`

	// The clean or service steps, for example raid.create_configuration.
	// +listType=atomic
	Steps []string `json:"steps"`

	// How many of the steps have ended, as far as this server has seen before all have.
	// +optional
	StepsDone int `json:"stepsDone,omitempty"`

	// When the node had come into the state in which it was when the steps were requested.
	// +optional
	StateChangedAt *metav1.MicroTime `json:"stateChangedAt,omitempty"`

	// The RAID layout that the machine has if the steps succeed. Absent if they do not
	// change it.
	// +optional
	RAID *RAIDConfig `json:"raid,omitempty"`

	// The BIOS settings that the steps change, with the values that they set. Absent if they
	// change none, and when the machine has these values.
	// +optional
	FirmwareSettings SettingsMap `json:"firmwareSettings,omitempty"`

	// The firmware updates that the steps make, in this order. Absent if they make none.
	// +optional
	// +listType=atomic
	FirmwareUpdates []FirmwareUpdate `json:"firmwareUpdates,omitempty"`
}

// Servicing is a service in which Ironic changes settings of a machine that runs something, in
// the course of a reboot.
type Servicing struct {
	Preparation `json:",inline"`

	// Whether Ironic has been asked to end a service that has failed or is not wanted any more,
	// so that the machine runs again what it ran before.
	// +optional
	Leaving bool `json:"leaving,omitempty"`
}

// PreparationPhase is how far a preparation or a service is.
// +enum
type PreparationPhase string

// The phases of a preparation.
const (
	// PreparationRequested means that Ironic has been asked for the steps, or is about to be,
	// and has not been seen to carry them out.
	PreparationRequested PreparationPhase = "Requested"
	// PreparationRunning means that Ironic carries out the steps.
	PreparationRunning PreparationPhase = "Running"
	// PreparationSucceeded means that Ironic has carried out all steps.
	PreparationSucceeded PreparationPhase = "Succeeded"
	// PreparationFailed means that a step has failed or was aborted.
	PreparationFailed PreparationPhase = "Failed"
)

// Takeover is what a person has confirmed through the subresource takeover: that the node,
// as it was described then, is the host's.
type Takeover struct {
	// When it was confirmed.
	Time metav1.Time `json:"time"`

	// The UUID of the node.
	NodeUUID string `json:"nodeUUID"`

	// The instance_uuid that the node had.
	// +optional
	InstanceUUID string `json:"instanceUUID,omitempty"`

	// The BMC that the node had.
	// +optional
	BMC string `json:"bmc,omitempty"`

	// The UID of the host that the node was marked with.
	// +optional
	MarkedHost string `json:"markedHost,omitempty"`

	// The UID of the cluster that the node was marked with.
	// +optional
	MarkedCluster string `json:"markedCluster,omitempty"`
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
