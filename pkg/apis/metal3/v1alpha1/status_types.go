package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BareMetalHostStatus is what is known about a host.
type BareMetalHostStatus struct {
	// How the host is, in one word: OK, discovered (not managed, for lack of BMC
	// details), error (see errorType and errorMessage), delayed (waiting for
	// others to finish), detached or servicing. Empty while nothing is known.
	OperationalStatus OperationalStatus `json:"operationalStatus"`

	// What failed, where operationalStatus is error.
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

	// Where the host is in its life, and the settings that were last applied.
	Provisioning ProvisionStatus `json:"provisioning"`

	// The last BMC credentials that worked.
	// +optional
	GoodCredentials CredentialsStatus `json:"goodCredentials,omitempty"`

	// The last BMC credentials that were sent to Ironic.
	// +optional
	TriedCredentials CredentialsStatus `json:"triedCredentials,omitempty"`

	// What went wrong, in Ironic's own words where they come from Ironic. Empty
	// when all is well.
	ErrorMessage string `json:"errorMessage"`

	// Whether the host is powered on, by Ironic. Keeps its last value while
	// Ironic does not know.
	PoweredOn bool `json:"poweredOn"`

	// When the host was last registered, inspected, provisioned and
	// deprovisioned.
	// +optional
	OperationHistory OperationHistory `json:"operationHistory,omitempty"`

	// How many errors there have been since the last success. The next attempt
	// waits longer with each.
	// +default=0
	ErrorCount int `json:"errorCount"`

	// How many times provisioning has failed in a row. May be reset to 0 through
	// the status subresource, to try again.
	// +default=0
	ProvisioningFailCount int `json:"provisioningFailCount"`

	// The last image that was tried.
	// +optional
	LastAttemptedImage *Image `json:"lastAttemptedImage,omitempty"`

	// The host as a set of yes-or-no questions, for kubectl wait: Registered,
	// Manageable, AvailableForProvisioning, Provisioned, Ready, Progressing,
	// Healthy, IronicReachable.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	// +k8s:validation:maxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// The Ironic node of the host, as Ironic told it last. Absent while the host
	// is not in Ironic.
	// +optional
	Ironic *IronicStatus `json:"ironic,omitempty"`
}

// OperationalStatus is how a host is, in one word.
// +enum
type OperationalStatus string

// The operational statuses.
const (
	// OperationalStatusOK is a host that is managed and has no error.
	OperationalStatusOK OperationalStatus = "OK"
	// OperationalStatusDiscovered is a host whose BMC details are not given.
	OperationalStatusDiscovered OperationalStatus = "discovered"
	// OperationalStatusError is a host with an error.
	OperationalStatusError OperationalStatus = "error"
	// OperationalStatusDelayed is a host that waits for others to finish.
	OperationalStatusDelayed OperationalStatus = "delayed"
	// OperationalStatusDetached is a host that was taken out of Ironic.
	OperationalStatusDetached OperationalStatus = "detached"
	// OperationalStatusServicing is a provisioned host whose firmware or BIOS
	// settings are being changed.
	OperationalStatusServicing OperationalStatus = "servicing"
)

// ErrorType is the class of an error.
// +enum
type ErrorType string

// The error types.
const (
	// ProvisionedRegistrationError is a provisioned host that cannot be
	// registered again.
	ProvisionedRegistrationError ErrorType = "provisioned registration error"
	// RegistrationError is a host that cannot be registered: bad BMC address or
	// credentials, or a BMC that does not answer.
	RegistrationError ErrorType = "registration error"
	// InspectionError is an inspection that failed.
	InspectionError ErrorType = "inspection error"
	// PreparationError is a failure of the RAID, BIOS or firmware steps before
	// the host is available.
	PreparationError ErrorType = "preparation error"
	// ProvisioningError is a failure to provision or deprovision.
	ProvisioningError ErrorType = "provisioning error"
	// PowerManagementError is a failure to change or read the power.
	PowerManagementError ErrorType = "power management error"
	// ServicingError is a failure to change firmware or BIOS settings of a
	// provisioned host.
	ServicingError ErrorType = "servicing error"
	// DetachError is a failure to take a host out of Ironic.
	DetachError ErrorType = "detach error"
)

// ProvisioningState is where a host is in its life.
type ProvisioningState string

// The provisioning states. Some of their values contain spaces.
const (
	// StateNone is a host that nobody has looked at yet.
	StateNone ProvisioningState = ""
	// StateUnmanaged is a host without BMC details.
	StateUnmanaged ProvisioningState = "unmanaged"
	// StateRegistering is a host on its way into Ironic.
	StateRegistering ProvisioningState = "registering"
	// StateInspecting is a host whose hardware is being found out.
	StateInspecting ProvisioningState = "inspecting"
	// StateMatchProfile is a state of older releases between inspecting and
	// preparing.
	StateMatchProfile ProvisioningState = "match profile"
	// StatePreparing is a host whose RAID, BIOS and firmware are being set up.
	StatePreparing ProvisioningState = "preparing"
	// StateReady is the older name of StateAvailable.
	StateReady ProvisioningState = "ready"
	// StateAvailable is a host that can be provisioned.
	StateAvailable ProvisioningState = "available"
	// StateProvisioning is a host that an image is being written to.
	StateProvisioning ProvisioningState = "provisioning"
	// StateProvisioned is a host that runs an image.
	StateProvisioned ProvisioningState = "provisioned"
	// StateExternallyProvisioned is a host that runs what something else has
	// installed.
	StateExternallyProvisioned ProvisioningState = "externally provisioned"
	// StateDeprovisioning is a host whose image is being removed.
	StateDeprovisioning ProvisioningState = "deprovisioning"
	// StatePoweringOffBeforeDelete is a host that is powered off for the last
	// time.
	StatePoweringOffBeforeDelete ProvisioningState = "powering off before delete"
	// StateDeleting is a host on its way out of Ironic.
	StateDeleting ProvisioningState = "deleting"
)

// ProvisionStatus is where a host is in its life, and the settings that were
// last applied to it.
type ProvisionStatus struct {
	// Where the host is in its life: unmanaged, registering, inspecting,
	// preparing, available, provisioning, provisioned, externally provisioned,
	// deprovisioning, powering off before delete or deleting.
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

// CredentialsStatus names one version of a Secret.
type CredentialsStatus struct {
	// The Secret.
	// +optional
	Reference *corev1.SecretReference `json:"credentials,omitempty"`

	// The resource version of the Secret.
	// +optional
	Version string `json:"credentialsVersion,omitempty"`
}

// Match tells whether this is the given version of the given Secret.
func (c CredentialsStatus) Match(secret *corev1.Secret) bool {
	return c.Reference != nil &&
		c.Reference.Name == secret.Name &&
		c.Reference.Namespace == secret.Namespace &&
		c.Version == secret.ResourceVersion
}

// OperationMetric is when an operation began and ended.
type OperationMetric struct {
	// When it began.
	// +optional
	Start metav1.Time `json:"start,omitempty"`

	// When it ended. null while it goes on.
	// +optional
	End metav1.Time `json:"end,omitempty"`
}

// OperationHistory is when the host was last registered, inspected, provisioned
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

// IronicStatus is the Ironic node of a host, in Ironic's own words.
type IronicStatus struct {
	// The UUID of the node.
	NodeUUID string `json:"nodeUUID"`

	// The provision state of the node, for instance manageable or clean wait.
	ProvisionState string `json:"provisionState"`

	// The provision state that Ironic is working towards. Empty when nothing is
	// under way.
	// +optional
	TargetProvisionState string `json:"targetProvisionState,omitempty"`

	// The power state of the node: power on or power off. Empty while Ironic does
	// not know it.
	// +optional
	PowerState string `json:"powerState,omitempty"`

	// The power state that Ironic is working towards. Empty when nothing is under
	// way.
	// +optional
	TargetPowerState string `json:"targetPowerState,omitempty"`

	// The clean, deploy or service step under way, for instance
	// deploy.erase_devices_metadata.
	// +optional
	Step string `json:"step,omitempty"`

	// Whether the node is in maintenance: Ironic leaves it alone.
	// +optional
	Maintenance bool `json:"maintenance,omitempty"`

	// Why the node is in maintenance.
	// +optional
	MaintenanceReason string `json:"maintenanceReason,omitempty"`

	// The fault that Ironic found, for instance power failure where the BMC does
	// not answer. Goes away by itself.
	// +optional
	Fault string `json:"fault,omitempty"`

	// The conductor that holds the lock of the node. Changes are refused while
	// there is one.
	// +optional
	Reservation string `json:"reservation,omitempty"`

	// Ironic's last error about the node. Ironic keeps it after the trouble is
	// over, until the next operation.
	// +optional
	LastError string `json:"lastError,omitempty"`

	// When the last inspection whose inventory was read ended, as Ironic tells it.
	// +optional
	InspectionFinishedAt *metav1.MicroTime `json:"inspectionFinishedAt,omitempty"`
}
