// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/failure"
)

// errorMessage returns the host's error as users see it: one short sentence about what has happened, and then the error in its own
// words, which are mostly Ironic's. It is empty if there is none. The record keeps the error's own words only.
func errorMessage(status *metal3.BareMetalHostStatus) string {
	failed := status.Record.Error
	switch {
	case failed == nil:
		return ""
	case status.Record.Hold != nil:
		return CutMessage(failure.Shorten(failed.Message, heldLead(status.Record.Hold.Reason))) // it may quote what others say about the node
	case goneDeployment(status) != nil:
		return CutMessage(failure.Shorten(failed.Message, heldLead(metal3.DeploymentGoneReason)))
	}
	return CutMessage(failure.Lead(failed.Message, errorLead(status)))
}

// heldLead says in a sentence why a host is held, for messages that take longer to say it.
func heldLead(reason string) string {
	switch reason {
	case metal3.RestoredReason:
		return "The server's etcd was restored from a backup."
	case metal3.OperatorRunningReason:
		return "The Bare Metal Operator is running."
	case metal3.DeploymentGoneReason:
		return "Somebody has changed in Ironic what the machine runs."
	case metal3.NodeOfAnotherClusterReason:
		return "The node in Ironic is marked as that of a host in another cluster."
	case metal3.AnotherBMCReason:
		return "The node in Ironic may have another BMC than the host."
	case metal3.BMCInUseReason:
		return "Another host or node may be using the machine."
	case metal3.AnotherDeploymentReason:
		return "Another user of Ironic may have deployed or reserved the node."
	case metal3.AnotherIronicReason:
		return "Ironic has none of the nodes of this server."
	case metal3.NodeInMaintenanceReason:
		return "The deletion waits until the maintenance of the node is ended."
	case metal3.StatusUnreadableReason:
		return "The status that the host brings along cannot be read."
	}
	return "The machine is left alone."
}

// registrationLead says in a sentence why a host could not be registered, for messages that take longer to say it.
func registrationLead(reason string) string {
	switch reason {
	case metal3.SecretNotFoundReason:
		return "The Secret with the credentials of the BMC does not exist."
	case metal3.SecretIncompleteReason:
		return "The Secret with the credentials of the BMC is incomplete, or cannot be used."
	case metal3.NetworkDataUnusableReason:
		return "The Secret with the network data of the ramdisk is missing or not valid."
	case metal3.InvalidAddressReason:
		return "The address of the BMC is not valid."
	case metal3.AddressNotAllowedReason:
		return "Ironic may not connect to an address that the host names."
	case metal3.PortConflictReason:
		return "Another host or node has the boot MAC address."
	case metal3.BMCInUseReason:
		return "Another host or node has the same BMC."
	case metal3.NamespaceNotManagedReason:
		return "The server does not manage the namespace of the host."
	case metal3.NoIronicReason:
		return "None of the Ironics of this server has the host."
	case metal3.IronicRefusedReason:
		return "Ironic has refused to register the host."
	}
	return "The host could not be registered in Ironic."
}

// errorLead says in a sentence what has failed, for errors whose meaning is not known.
func errorLead(status *metal3.BareMetalHostStatus) string {
	if r := status.Record.Registration; r != nil && r.Message == status.Record.Error.Message {
		return registrationLead(r.Reason)
	}
	switch status.Record.Error.Type {
	case metal3.RegistrationError, metal3.ProvisionedRegistrationError:
		if status.Provisioning.State.RunsSomething() {
			return "The host could not be registered in Ironic again."
		}
		return "The host could not be registered in Ironic."
	case metal3.InspectionError:
		return "The inspection has failed."
	case metal3.PreparationError:
		return "The preparation has failed."
	case metal3.PowerManagementError:
		return "The power of the machine could not be read or changed."
	case metal3.ServicingError:
		return "The settings of the machine could not be changed."
	case metal3.DetachError:
		return "The host could not be removed from Ironic."
	}
	if status.Provisioning.State == metal3.StateDeprovisioning {
		return "The deprovisioning has failed."
	}
	return "The provisioning has failed."
}
