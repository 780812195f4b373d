// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The condition types of a host.
const (
	// RegisteredCondition is True when the node, its ports and its driver_info in Ironic
	// match the spec of observedGeneration.
	RegisteredCondition = "Registered"
	// InventoryReadCondition is False when the results of the last inspection cannot be
	// used, and True when parts of them cannot be read, which its message names. It is absent otherwise.
	InventoryReadCondition = "InventoryRead"
	// IronicReachableCondition is False when Ironic has not answered for a grace period, and, in the answer
	// to a GET of the host, when it has not answered for that. The status is then the last known one.
	IronicReachableCondition = "IronicReachable"
	// PowerSyncedCondition is False when Ironic no longer polls the host's power state. It is
	// absent otherwise.
	PowerSyncedCondition = "PowerSynced"
	// ManageableCondition is True when the host is registered and its BMC answers.
	ManageableCondition = "Manageable"
	// AvailableForProvisioningCondition is True when an image can be written to the host.
	AvailableForProvisioningCondition = "AvailableForProvisioning"
	// ProvisionedCondition is True when the host runs an image.
	ProvisionedCondition = "Provisioned"
	// ReadyCondition is True when the host runs an image and has no error.
	ReadyCondition = "Ready"
	// ProgressingCondition is True while the host is changing to another state.
	ProgressingCondition = "Progressing"
	// HealthyCondition is the health that the BMC reports, if Ironic can read it.
	HealthyCondition = "Healthy"
	// HeldCondition is True when the host's record, its spec and its node in Ironic
	// contradict each other, so that the machine may not be this host's, or may run
	// something else than what the record is about. Nothing that the contradiction concerns
	// is done to the machine then. It is absent otherwise.
	HeldCondition = "Held"
	// InMaintenanceCondition is True while somebody has the host's node in maintenance, so that nothing is done with the host, its power
	// included. Its reason is NodeInMaintenanceReason. It is absent otherwise, also where Ironic has set the maintenance.
	InMaintenanceCondition = "InMaintenance"
	// MachineUniqueCondition is False while the machine reports something of itself that another host's machine reports, too, although
	// the rest differs. Nothing waits for it. It is absent otherwise.
	MachineUniqueCondition = "MachineUnique"
	// ImageBuiltCondition is False while the host waits for its PreprovisioningImage. It is
	// absent otherwise.
	ImageBuiltCondition = "ImageBuilt"
	// NetworkInterfacesValidCondition is True if Ironic has the switch ports of all
	// spec.networkInterfaces. It is absent if there are none.
	NetworkInterfacesValidCondition = "NetworkInterfacesValid"
	// StepFailedCondition is True if Ironic or the cluster refused the last step that would
	// bring the host closer to its spec. It is absent otherwise.
	StepFailedCondition = "StepFailed"
)

// Reasons of RegisteredCondition. UnknownReason is one, too, once this server has removed the node, as from a detached host.
const (
	// RegisteredReason means that Ironic has everything that it needs about the host.
	RegisteredReason = "Registered"
	// SecretNotFoundReason means that the Secret with the BMC credentials does not exist.
	SecretNotFoundReason = "SecretNotFound"
	// SecretIncompleteReason means that the Secret has no username or no password, or one that no BMC takes.
	SecretIncompleteReason = "SecretIncomplete"
	// NetworkDataUnusableReason means that the Secret of spec.preprovisioningNetworkDataName does not exist, or that
	// Ironic cannot use what it contains.
	NetworkDataUnusableReason = "NetworkDataUnusable"
	// InvalidAddressReason means that the BMC address is not valid.
	InvalidAddressReason = "InvalidAddress"
	// AddressNotAllowedReason means that the administrator does not allow Ironic to connect to
	// the BMC address.
	AddressNotAllowedReason = "AddressNotAllowed"
	// IronicRefusedReason means that Ironic answered a request with an error.
	IronicRefusedReason = "IronicRefused"
	// PortConflictReason means that another node has the boot MAC address.
	PortConflictReason = "PortConflict"
	// BMCInUseReason means that another host, or another node in Ironic, has the same BMC. It
	// is also a reason of HeldCondition.
	BMCInUseReason = "BMCInUse"
	// RequestFailedReason, of RegisteredCondition and of StepFailedCondition, means that a
	// request to Ironic or to the cluster keeps failing for reasons that are not the
	// host's: Ironic answers 500 or refuses our credentials, the cluster refuses a write
	// of a Secret. The request is repeated at least every half a minute.
	RequestFailedReason = "RequestFailed"
	// ImageNotBuiltReason means that the PreprovisioningImage of the host cannot be built, or
	// that Ironic may not use it.
	ImageNotBuiltReason = "ImageNotBuilt"
	// NodeLostReason means that the node no longer exists in Ironic.
	NodeLostReason = "NodeLost"
	// NamespaceNotManagedReason means that the server is configured to manage hosts in
	// other namespaces only.
	NamespaceNotManagedReason = "NamespaceNotManaged"
	// NoIronicReason means that it is not certain in which of several Ironics the host is to be
	// registered: several IronicInstances select it, or the one that does cannot be used.
	NoIronicReason = "NoIronic"
)

// Reasons of NetworkInterfacesValidCondition. IronicRefusedReason is one, too, and UnknownReason while Ironic has no node that is known to
// be the host's.
const (
	// AllInterfacesValidReason means that Ironic has all of them.
	AllInterfacesValidReason = "AllInterfacesValid"
	// InspectionIncompleteReason means that the interfaces of the host are not known yet.
	InspectionIncompleteReason = "HardwareInspectionIncomplete"
	// InvalidInterfaceNamesReason means that the host does not have an interface.
	InvalidInterfaceNamesReason = "InvalidInterfaceNames"
	// AttachmentNotFoundReason means that a HostNetworkAttachment does not exist.
	AttachmentNotFoundReason = "AttachmentNotFound"
	// NetworkingNotSupportedReason means that Ironic does not configure the switch ports of
	// the host.
	NetworkingNotSupportedReason = "NotSupported"
)

// WaitingForImageReason is the reason of ImageBuiltCondition.
const WaitingForImageReason = "WaitingForImage"

// SharedIdentityReason is the reason of MachineUniqueCondition.
const SharedIdentityReason = "SharedIdentity"

// Reasons of InventoryReadCondition.
const (
	// InventoryUnusableReason means that nothing of the inventory is used.
	InventoryUnusableReason = "InventoryUnusable"
	// InventoryIncompleteReason means that parts of the inventory cannot be read, and the others are used.
	InventoryIncompleteReason = "InventoryIncomplete"
)

// Reasons of HeldCondition.
const (
	// RestoredReason means that the server's etcd was restored from a backup, and nobody
	// has let the server go on yet.
	RestoredReason = "Restored"
	// OperatorRunningReason means that the Bare Metal Operator is at work on the hosts of this server, too.
	OperatorRunningReason = "OperatorRunning"
	// NodeOfAnotherHostReason means that the node is marked as that of another host.
	NodeOfAnotherHostReason = "NodeOfAnotherHost"
	// NodeOfAnotherClusterReason means that the node is marked by the server of another
	// cluster, or of one of which it is not known whether it is this one.
	NodeOfAnotherClusterReason = "NodeOfAnotherCluster"
	// AnotherBMCReason means that Ironic talks to another BMC than the host's for the node, or does not say to
	// which one, and the node was not made for the host.
	AnotherBMCReason = "AnotherBMC"
	// DeploymentGoneReason means that somebody has undeployed, rebuilt, rescued or redeployed the node of a
	// host that runs something, past this server. It is also a reason of the condition Provisioned.
	DeploymentGoneReason = "DeploymentGone"
	// AnotherDeploymentReason means that something else was deployed on the node than what
	// the host's status is about.
	AnotherDeploymentReason = "AnotherDeployment"
	// AnotherIronicReason means that the Ironic in which the host was to have its node has none of the nodes that were registered
	// in it, but those of others: its address leads to another one.
	AnotherIronicReason = "AnotherIronic"
	// StatusUnreadableReason means that the annotation with the status that the host brings along cannot be read.
	StatusUnreadableReason = "StatusUnreadable"
	// NodeInMaintenanceReason means that the host is being deleted while its node is in a maintenance that
	// somebody has asked for. It is also the reason of InMaintenanceCondition.
	NodeInMaintenanceReason = "NodeInMaintenance"
)

// ForeignNode returns why the host's node may not be the host's own; it is empty if
// nothing that was found says so.
func (host *BareMetalHost) ForeignNode() string {
	hold := host.Status.Record.Hold
	if hold == nil {
		return ""
	}
	switch hold.Reason {
	case NodeOfAnotherHostReason, NodeOfAnotherClusterReason, AnotherBMCReason, BMCInUseReason:
		return hold.Message
	}
	return ""
}

// Reasons of IronicReachableCondition.
const (
	// ReachableReason means that Ironic answers.
	ReachableReason = "Reachable"
	// UnreachableReason means that Ironic does not answer.
	UnreachableReason = "Unreachable"
	// RefusedReason means that Ironic answers, but refuses the server, which does not end by itself.
	RefusedReason = "Refused"
	// NodeUnreadableReason means that Ironic answers, but fails to show the host's node, which does not end by itself. NoIronicReason is
	// a reason, too: the server cannot use the IronicInstance of the host.
	NodeUnreadableReason = "NodeUnreadable"
)

// ConditionReason returns the reason of IronicReachableCondition for a silence.
func (s *Silence) ConditionReason() string {
	switch {
	case s.Refused:
		return RefusedReason
	case s.Cause != "":
		return s.Cause
	}
	return UnreachableReason
}

// OwnParentReason is a reason of PowerSyncedCondition. It means that Ironic has made the
// node its own parent, which is a defect of Ironic 29.0.5.
const OwnParentReason = "OwnParent"

// Reasons of StepFailedCondition. There is one for each ErrorType, except for
// RegistrationError, which RegisteredCondition reports. CallbackTimeoutReason has no
// ErrorType of its own.
const (
	// InspectionErrorReason means that an inspection failed.
	InspectionErrorReason = "InspectionError"
	// PreparationErrorReason means that RAID, BIOS, firmware or cleaning failed before the
	// host was available.
	PreparationErrorReason = "PreparationError"
	// ProvisioningErrorReason means that provisioning or deprovisioning failed.
	ProvisioningErrorReason = "ProvisioningError"
	// PowerManagementErrorReason means that the power could not be read or changed.
	PowerManagementErrorReason = "PowerManagementError"
	// ProvisionedRegistrationErrorReason means that Ironic could not adopt a provisioned host,
	// which is registered in it again.
	ProvisionedRegistrationErrorReason = "ProvisionedRegistrationError"
	// ServicingErrorReason means that a change of a provisioned host failed.
	ServicingErrorReason = "ServicingError"
	// DetachErrorReason means that the host could not be removed from Ironic.
	DetachErrorReason = "DetachError"
	// CallbackTimeoutReason means that a ramdisk did not call Ironic in time, on a node for
	// which Ironic does not enforce its own time-out (see OwnParentReason).
	CallbackTimeoutReason = "CallbackTimeout"
)

// Reasons of the other conditions. Some of them are used for several conditions.
const (
	NotManagedReason              = "NotManaged"
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
