package v1alpha1

// The condition types of a host.
const (
	// RegisteredCondition is True when node, port and driver_info in Ironic are
	// in step with observedGeneration.
	RegisteredCondition = "Registered"
	// InventoryReadCondition is False when what the last inspection found cannot be
	// used. Otherwise the host does not have it.
	InventoryReadCondition = "InventoryRead"
	// IronicReachableCondition is False when Ironic has not answered for a grace
	// period: the status is then the last that is known.
	IronicReachableCondition = "IronicReachable"
	// PowerSyncedCondition is False when Ironic has stopped looking at the host's
	// power. It is absent otherwise.
	PowerSyncedCondition = "PowerSynced"
	// ManageableCondition is True when the host is registered and its BMC answers.
	ManageableCondition = "Manageable"
	// AvailableForProvisioningCondition is True when an image can be written.
	AvailableForProvisioningCondition = "AvailableForProvisioning"
	// ProvisionedCondition is True when the host runs an image.
	ProvisionedCondition = "Provisioned"
	// ReadyCondition is True when the host runs an image and has no error.
	ReadyCondition = "Ready"
	// ProgressingCondition is True while the host is on its way to another state.
	ProgressingCondition = "Progressing"
	// HealthyCondition is the health that the BMC reports, where Ironic can read
	// it.
	HealthyCondition = "Healthy"
	// StepFailedCondition is True while the last step towards the spec failed for
	// a reason that Ironic or the cluster gave. It is absent otherwise.
	StepFailedCondition = "StepFailed"
)

// Reasons of RegisteredCondition.
const (
	// RegisteredReason is a host in step with Ironic.
	RegisteredReason = "Registered"
	// SecretNotFoundReason is a missing Secret with the BMC credentials.
	SecretNotFoundReason = "SecretNotFound"
	// SecretIncompleteReason is a Secret without username or password.
	SecretIncompleteReason = "SecretIncomplete"
	// InvalidAddressReason is a BMC address that cannot be understood.
	InvalidAddressReason = "InvalidAddress"
	// IronicRefusedReason is a request that Ironic answered with an error.
	IronicRefusedReason = "IronicRefused"
	// PortConflictReason is a boot MAC address that another node has.
	PortConflictReason = "PortConflict"
	// NodeLostReason is a node that is gone from Ironic.
	NodeLostReason = "NodeLost"
)

// InventoryUnusableReason is the reason of InventoryReadCondition.
const InventoryUnusableReason = "InventoryUnusable"

// Reasons of IronicReachableCondition.
const (
	// ReachableReason is an Ironic that answers.
	ReachableReason = "Reachable"
	// UnreachableReason is an Ironic that does not answer.
	UnreachableReason = "Unreachable"
)

// OwnParentReason, of PowerSyncedCondition, is a node that Ironic has made its own
// parent, a defect of Ironic 29.0.5.
const OwnParentReason = "OwnParent"

// Reasons of StepFailedCondition: one for each ErrorType, but for
// RegistrationError, which RegisteredCondition tells, and CallbackTimeoutReason.
const (
	// InspectionErrorReason is an inspection that failed.
	InspectionErrorReason = "InspectionError"
	// PreparationErrorReason is a failure before the host is available: of RAID,
	// BIOS, firmware or cleaning.
	PreparationErrorReason = "PreparationError"
	// ProvisioningErrorReason is a failure to provision or deprovision.
	ProvisioningErrorReason = "ProvisioningError"
	// PowerManagementErrorReason is a failure to change or read the power.
	PowerManagementErrorReason = "PowerManagementError"
	// ProvisionedRegistrationErrorReason is a provisioned host that cannot be
	// registered again.
	ProvisionedRegistrationErrorReason = "ProvisionedRegistrationError"
	// ServicingErrorReason is a failure to change a provisioned host.
	ServicingErrorReason = "ServicingError"
	// DetachErrorReason is a failure to take a host out of Ironic.
	DetachErrorReason = "DetachError"
	// CallbackTimeoutReason is a ramdisk that does not call Ironic, where Ironic
	// itself has forgotten to wait for it (see OwnParentReason).
	CallbackTimeoutReason = "CallbackTimeout"
)

// Reasons of the other conditions. Several of them say of more than one
// condition why it is what it is.
const (
	NotManagedReason              = "NotManaged"
	NotManageableReason           = "NotManageable"
	NotAvailableReason            = "NotAvailable"
	NotProvisionedReason          = "NotProvisioned"
	NotProgressingReason          = "NotProgressing"
	RegisteringReason             = "Registering"
	RegistrationFailedReason      = "RegistrationFailed"
	ManageableReason              = "Manageable"
	PowerFailureReason            = "PowerFailure"
	InspectingReason              = "Inspecting"
	PreparingReason               = "Preparing"
	AvailableReason               = "Available"
	ProvisioningReason            = "Provisioning"
	ProvisionedReason             = "Provisioned"
	DeprovisioningReason          = "Deprovisioning"
	PoweringOffBeforeDeleteReason = "PoweringOffBeforeDelete"
	DeletingReason                = "Deleting"
	ErrorReason                   = "Error"
	ServicingReason               = "Servicing"
	DetachedReason                = "Detached"
	HealthyReason                 = "Healthy"
	WarningReason                 = "Warning"
	CriticalErrorReason           = "CriticalError"
	UnknownReason                 = "Unknown"
)
