// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"slices"
	"strings"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/failure"
)

// stepHelp says what would help after a step that has failed.
func (e *explanation) stepHelp(reason, message string) []string {
	if reason == metal3.RequestFailedReason {
		return []string{e.requestHelp(message)}
	}
	for errorType, itsReason := range reasons {
		if itsReason == reason {
			return e.errorHelp(errorType, message)
		}
	}
	return []string{e.helpAgainst(message)}
}

// requestHelp is for requests that fail whatever host they are about. Those for Secrets are told by what kube-apiserver says, and by
// the words in which the server has put it.
func (e *explanation) requestHelp(message string) string {
	const again = " The request is repeated every half a minute."
	switch {
	case strings.Contains(message, `resource "secrets"`):
		const role = "metal3-apiserver-secrets --clusterrole=metal3-apiserver-secrets --serviceaccount=metal3-system:metal3-apiserver"
		return fmt.Sprintf("An administrator of the cluster gives the server the right: kubectl create rolebinding -n %s %s. If the namespace is being deleted, nothing can be created in it, so give the right in all namespaces for a moment: kubectl create clusterrolebinding %s.", e.host.Namespace, role, role) + again
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
func (e *explanation) errorHelp(errorType metal3.ErrorType, message string) []string {
	server := ""
	switch errorType {
	case metal3.ProvisioningError:
		server = "The server tries again by itself, after a pause that grows with the number of failures. If the image is removed from the spec, the host becomes available again."
		switch e.host.Status.Provisioning.State {
		case metal3.StateAvailable:
			if e.host.Status.ProvisioningFailCount == 0 {
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
		if e.host.Status.Record.Transfer != nil {
			server = "Unless the move is called off, the server tries again by itself."
		}
	}
	return []string{e.helpAgainst(message), server}
}

// helpAgainst says what would help against an error in Ironic's words, if it is known what they mean.
func (e *explanation) helpAgainst(message string) string {
	m, _ := failure.Of(message)
	return m.Help(failure.About{
		Address: bmc.Redact(e.host.Spec.BMC.Address),
		Secret:  fmt.Sprintf("the Secret %s/%s", e.host.Namespace, e.host.Spec.BMC.CredentialsName),
		Host:    e.host.Name + " -n " + e.host.Namespace,
	})
}

// rendered returns what a condition says as the host's error has it: there, the server has put a short sentence in front.
func (e *explanation) rendered(message string) string {
	if shown := e.host.Status.ErrorMessage; strings.HasSuffix(shown, message) {
		return shown
	}
	return message
}

// said returns an error with a sentence in front that says what has happened.
func (e *explanation) said(message string) string { return failure.Lead(e.rendered(message), "") }

// withoutAdvice leaves out of the server's message what clients of the API are to do: for users of this plugin, it is said in its commands.
func withoutAdvice(message string) string {
	sentences := slices.DeleteFunc(strings.SplitAfter(message, ". "), func(s string) bool { return strings.Contains(s, "the subresource ") })
	if len(sentences) == 0 {
		return message
	}
	return strings.Join(sentences, "")
}
