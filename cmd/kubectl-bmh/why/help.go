// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/failure"
)

// heldHelp says what would help a host that is held.
func (s subject) heldHelp(reason string) string {
	confirm := fmt.Sprintf("If the machine is this host's all the same, look at it, make the spec say what it runs, and confirm its node %s: %s (which takes the role metal3-baremetalhosts-takeover)", s.host.Status.Provisioning.ID, s.command("takeover"))
	switch reason {
	case metal3.RestoredReason:
		return "The server's etcd was restored from a backup, and all hosts wait until an administrator has compared them with the machines: docs/restore.md shows how."
	case metal3.OperatorRunningReason:
		return "The Bare Metal Operator drives the machines, too, and all hosts wait until an administrator has stopped it: docs/migration.md#the-operator-comes-back says how it is started again. The server goes on three minutes later."
	case metal3.NodeOfAnotherHostReason:
		return "Another host owns the node in Ironic. Delete the one that is wrong. Nobody can confirm the node for this one while the other one has it."
	case metal3.NodeOfAnotherClusterReason:
		return "The server of another cluster has marked the node. Remove the host from that cluster first. " + confirm +
			fmt.Sprintf(". If this cluster replaces that one, its other hosts are held, too: kubectl bmh takeover --all -n %s shows what is known of each, and asks once", s.host.Namespace)
	case metal3.AnotherBMCReason:
		return "Ironic reaches the node through another BMC than spec.bmc.address, or does not say through which one. Correct the address that is wrong. " + confirm
	case metal3.BMCInUseReason:
		return "Delete the host, or the node in Ironic, that is too many, or correct its address. " + confirm
	case metal3.DeploymentGoneReason:
		if s.ironicState() == "active" {
			return "Another user of Ironic has rebuilt or deployed the node, and it is active again. If the machine runs what the spec says, you only have to confirm that: " + s.command("takeover") +
				" (which takes the role metal3-baremetalhosts-takeover). To have the image written again: " + s.command("rebuild") + ". To give it up, remove the image from the spec."
		}
		return "Another user of Ironic has undeployed, deployed, rebuilt or rescued the node: Ironic's log has the request, and `openstack baremetal node history list` may name the user. To have the image written again: " + s.command("rebuild") + ". To give it up, remove the image from the spec. " + confirm
	case metal3.AnotherDeploymentReason:
		return "Somebody has deployed something else on the machine, perhaps an operator in Ironic for this very host, and the server does not wipe that. " + confirm
	case metal3.AnotherIronicReason:
		return "The address of the host's Ironic leads to an Ironic that has none of this server's nodes, but others. An administrator has to correct it: spec.endpoint of the IronicInstance, or the server's flags. docs/several-ironics.md says what to do if that Ironic has lost its database."
	case metal3.StatusUnreadableReason:
		return fmt.Sprintf("The host brings along a status that cannot be read: compare its annotation %s with the status in the cluster from which it comes.", metal3.StatusAnnotation)
	case metal3.NodeInMaintenanceReason:
		return "Its deletion goes on when the maintenance ends: " + s.command("maintenance off") + " ends one that was asked for here, and `openstack baremetal node maintenance unset` one that was asked for in Ironic. To delete the host without touching the machine, detach it."
	}
	return confirm
}

// registrationHelp says what would help a host that is not registered; empty if that is not known.
func (s subject) registrationHelp(reason, message string) string {
	switch reason {
	case metal3.SecretNotFoundReason:
		return "Create the Secret that is missing. The host goes on at once."
	case metal3.SecretIncompleteReason:
		return "Add what is missing to the Secret, or correct it. The host goes on at once."
	case metal3.NetworkDataUnusableReason:
		return "Create or correct the Secret that spec.preprovisioningNetworkDataName names. The host goes on at once."
	case metal3.InvalidAddressReason:
		return "Correct spec.bmc.address."
	case metal3.AddressNotAllowedReason:
		return "The administrator of the server decides to which addresses Ironic may connect: docs/configuration.md."
	case metal3.PortConflictReason:
		return "Another node in Ironic has this boot MAC address. spec.bootMACAddress cannot be changed: delete the host that has the wrong one, and create it again."
	case metal3.BMCInUseReason:
		return "Two hosts, or a host and another node in Ironic, have the same BMC. Delete the one that is too many, or correct its address."
	case metal3.NoIronicReason:
		return "The administrator of the server decides which of several Ironics has which hosts: docs/several-ironics.md. kubectl bmh ironics shows them."
	case metal3.NamespaceNotManagedReason:
		return "The administrator of the server decides which namespaces it manages (--namespaces)."
	case metal3.RequestFailedReason:
		return s.requestHelp(message)
	case metal3.IronicRefusedReason:
		if strings.Contains(message, "spec.bootMACAddress") {
			return "spec.bootMACAddress cannot be changed: delete the host, and create it again with the right one."
		}
		return cmp.Or(s.helpAgainst(message), "Ironic does not accept what the spec makes of the node: correct what the message names.")
	}
	return s.helpAgainst(message)
}

// stepHelp says what would help after a step that has failed.
func (s subject) stepHelp(reason, message string) []string {
	if reason == metal3.RequestFailedReason {
		return []string{s.requestHelp(message)}
	}
	for errorType, itsReason := range reasons {
		if itsReason == reason {
			return s.errorHelp(errorType, message)
		}
	}
	return []string{s.helpAgainst(message)}
}

// requestHelp is for requests that fail whatever host they are about. Those for Secrets are told by what kube-apiserver says, and by
// the words in which the server has put it.
func (s subject) requestHelp(message string) string {
	const again = " The request is repeated every half a minute."
	switch {
	case strings.Contains(message, `resource "secrets"`):
		const role = "metal3-apiserver-secrets --clusterrole=metal3-apiserver-secrets --serviceaccount=metal3-system:metal3-apiserver"
		return fmt.Sprintf("An administrator of the cluster gives the server the right: kubectl create rolebinding -n %s %s. If the namespace is being deleted, nothing can be created in it, so give the right in all namespaces for a moment: kubectl create clusterrolebinding %s.", s.host.Namespace, role, role) + again
	case strings.Contains(message, "the admission of the cluster"):
		return "An administrator of the cluster has to exempt the server's service account from the policy or webhook that the message names." + again
	}
	return "That is no fault of this host: look at the log of Ironic, and at the credentials and rights of metal3-apiserver." + again
}

// reasons are the reasons of StepFailed by the type of the error.
var reasons = map[metal3.ErrorType]string{
	metal3.InspectionError:              metal3.InspectionErrorReason,
	metal3.PreparationError:             metal3.PreparationErrorReason,
	metal3.ProvisioningError:            metal3.ProvisioningErrorReason,
	metal3.PowerManagementError:         metal3.PowerManagementErrorReason,
	metal3.ProvisionedRegistrationError: metal3.ProvisionedRegistrationErrorReason,
	metal3.ServicingError:               metal3.ServicingErrorReason,
	metal3.DetachError:                  metal3.DetachErrorReason,
}

// errorHelp says what would help against an error, and what the server does about errors of that type.
func (s subject) errorHelp(errorType metal3.ErrorType, message string) []string {
	server := ""
	switch errorType {
	case metal3.ProvisioningError:
		server = "The server tries again by itself, after a pause that grows with the number of failures. If the image is removed from the spec, the host becomes available again."
		switch s.host.Status.Provisioning.State {
		case metal3.StateAvailable:
			if s.host.Status.ProvisioningFailCount == 0 {
				server = "Nothing has been done to the machine for the deployment. It goes on by itself when what is missing is there."
				break
			}
			server = "The deployment was tried as often as the server is allowed to (--max-provisioning-retries). It is tried again after a retry, or with another image."
		case metal3.StateDeprovisioning:
			server = "The server tries again by itself, after a pause that grows with the number of failures."
		}
	case metal3.InspectionError:
		server = "The server inspects it again by itself. With spec.inspectionMode: disabled, it becomes available without."
	case metal3.DetachError:
		server = "The server tries again by itself to remove it from Ironic."
		if s.host.Status.Record.Transfer != nil {
			server = "Unless the move is called off, the server tries again by itself."
		}
	}
	return []string{s.helpAgainst(message), server}
}

// helpAgainst says what would help against an error in Ironic's words, if it is known what they mean.
func (s subject) helpAgainst(message string) string {
	m, _ := failure.Of(message)
	return m.Help(failure.About{
		Address: bmc.Redact(s.host.Spec.BMC.Address),
		Secret:  fmt.Sprintf("the Secret %s/%s", s.host.Namespace, s.host.Spec.BMC.CredentialsName),
		Host:    s.host.Name + " -n " + s.host.Namespace,
	})
}

// withoutAdvice leaves out of the server's message what clients of the API are to do: for users of this plugin, it is said in its commands.
func withoutAdvice(message string) string {
	sentences := slices.DeleteFunc(strings.SplitAfter(message, ". "), func(s string) bool { return strings.Contains(s, "the subresource ") })
	if len(sentences) == 0 {
		return message
	}
	return strings.Join(sentences, "")
}
