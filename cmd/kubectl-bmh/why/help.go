// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"fmt"
	"strings"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/failure"
)

// takeoverOfAPI and rebuildOfAPI are how the server's messages call these actions, whoever reads them.
const (
	takeoverOfAPI = "the subresource takeover"
	rebuildOfAPI  = "the subresource rebuild"
)

// inCommands has the server's message call actions by the commands of this plugin. Nothing of it is left out: only the server knows
// which of several causes a hold has, and each has a remedy of its own.
func (s subject) inCommands(message string) string {
	return strings.NewReplacer(takeoverOfAPI, "`"+s.command("takeover")+"`", rebuildOfAPI, "`"+s.command("rebuild")+"`").Replace(message)
}

// heldHelp says what the message of a held host does not say of what would help.
func (s subject) heldHelp(reason, message string) []string {
	var help []string
	switch reason {
	case metal3.RestoredReason:
		help = append(help, "The server's etcd was restored from a backup, and all hosts wait until an administrator has compared them with the machines: docs/restore.md shows how.")
	case metal3.OperatorRunningReason:
		help = append(help, "The Bare Metal Operator drives the machines, too, and all hosts wait until an administrator has stopped it: docs/migration.md#the-operator-comes-back says how it is started again. The server goes on three minutes later.")
	case metal3.NodeOfAnotherHostReason:
		help = append(help, "Nobody can confirm the node for this host while the other one has it.")
	case metal3.NodeOfAnotherClusterReason:
		help = append(help, "If that cluster keeps the machine, delete this host, which leaves machine and node as they are. Do not delete the host of that cluster while the machine runs something: its disks would be erased. "+
			fmt.Sprintf("If this cluster replaces that one, its other hosts are held, too: kubectl bmh takeover --all -n %s shows what is known of each, and asks once.", s.host.Namespace))
	case metal3.DeploymentGoneReason:
		text := fmt.Sprintf("Ironic's log has the request, and `openstack baremetal node history list %s` may name the user.", s.host.Status.Provisioning.ID)
		if s.ironicState() == "active" {
			text += " The node is active again: if the machine runs what the spec says, you only have to confirm that."
		}
		if strings.Contains(message, rebuildOfAPI) {
			text += " A rebuild takes the role metal3-baremetalhosts-rebuild."
		}
		help = append(help, text)
	case metal3.AnotherIronicReason:
		help = append(help, "That is for an administrator: docs/several-ironics.md#when-an-address-leads-to-another-ironic.")
	case metal3.StatusUnreadableReason:
		help = append(help, fmt.Sprintf("Compare the annotation %s with the status in the cluster from which the host comes.", metal3.StatusAnnotation))
	case metal3.NodeInMaintenanceReason:
		help = append(help, "To end the maintenance: "+s.command("maintenance off")+". If this server has provisioned the host, it is undeployed and cleaned then.")
	}
	if _, annotated := s.host.Annotations[metal3.DetachedAnnotation]; !annotated && strings.Contains(message, "detach") && isDetachable(reason) {
		help = append(help, fmt.Sprintf(`To detach it, which leaves the machine as it is: kubectl annotate bmh %s -n %s %s='{"force":true}'`, s.host.Name, s.host.Namespace, metal3.DetachedAnnotation))
	}
	switch held := s.host.Status.Record.Hold; {
	case !strings.Contains(message, takeoverOfAPI):
	case held != nil && held.Other != "":
		help = append(help, "A takeover records here only that they are two machines, and the host goes on as its spec says. It takes the role metal3-baremetalhosts-takeover.")
	default:
		help = append(help, "Before you confirm anything, look at the machine, and make the spec say what it runs: the server then treats the machine as the spec asks, and if that has no image, its disks may be erased. "+
			"A takeover shows what follows, and asks. It takes the role metal3-baremetalhosts-takeover.")
	}
	if len(help) == 0 {
		help = append(help, "What holds a host, and what helps: docs/life.md#what-can-happen-to-a-machine-and-what-never-does.")
	}
	return help
}

// isDetachable reports whether the server detaches a host that is held for a reason: for others, it asks nothing of Ironic.
func isDetachable(reason string) bool {
	switch reason {
	case metal3.AnotherDeploymentReason, metal3.BMCInUseReason, metal3.AnotherIronicReason, metal3.NodeInMaintenanceReason:
		return true
	}
	return false
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
	case metal3.ImageNotBuiltReason:
		return fmt.Sprintf("See what the controller that builds ramdisk images says of it: kubectl get preprovisioningimage %s -n %s -o yaml", s.host.Name, s.host.Namespace)
	case metal3.PortConflictReason:
		return fmt.Sprintf("Another node in Ironic has this boot MAC address: `openstack baremetal port list --address %s` finds it. spec.bootMACAddress cannot be changed. If that of this host is wrong: %s. If that of another host is wrong: %s.",
			s.host.Spec.BootMAC(), metal3.HowToReplace(s.host.Status.Provisioning.State), metal3.HowToReplaceAny)
	case metal3.BMCInUseReason:
		return "Two hosts, or a host and another node in Ironic, have the same BMC. Correct the address that is wrong, which is possible while a host is registering or detached; or delete what is too many: a host only after you have detached it, or what it runs is erased."
	case metal3.NoIronicReason:
		return "The administrator of the server decides which of several Ironics has which hosts: docs/several-ironics.md. kubectl bmh ironics shows them."
	case metal3.NamespaceNotManagedReason:
		return "The administrator of the server decides which namespaces it manages (--namespaces)."
	case metal3.RequestFailedReason:
		return s.requestHelp(message)
	case metal3.IronicRefusedReason:
		if strings.Contains(message, "spec.bootMACAddress") {
			return "spec.bootMACAddress cannot be changed. To have the right one: " + metal3.HowToReplace(s.host.Status.Provisioning.State) + "."
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
			server = "The server tries again by itself, after a pause that grows with the number of failures, until it has tried as often as it is allowed to (--max-provisioning-retries). After that, it tries again when you ask for it, or when the image or its checksum is changed."
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
