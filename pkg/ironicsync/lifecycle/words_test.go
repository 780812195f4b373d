// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/failure"
)

// TestErrorMessageBeginsShort: whatever is wrong, errorMessage begins with a short sentence that says what has happened, and then has all that is recorded.
func TestErrorMessageBeginsShort(t *testing.T) {
	long := "Node 4711 " + strings.Repeat("has a long story, ", 20) + "and an end"
	kinds := []metal3.ErrorType{
		metal3.RegistrationError, metal3.ProvisionedRegistrationError, metal3.InspectionError, metal3.PreparationError, metal3.ProvisioningError,
		metal3.PowerManagementError, metal3.ServicingError, metal3.DetachError, "of the future",
	}
	holds := append(HoldReasons(), "", "of the future")
	for _, message := range []string{long, "short. " + long, "IPMI call failed: power status.", strings.Repeat("x", 3*validation.MaxMessage)} {
		for _, kind := range kinds {
			for _, hold := range holds {
				for _, state := range []metal3.ProvisioningState{metal3.StateProvisioning, metal3.StateDeprovisioning} {
					host := newHost(withState(state))
					status := &host.Status
					status.Record.Error = &metal3.HostError{Type: kind, Message: CutMessage(message)}
					if hold != "" {
						status.Record.Hold = &metal3.Hold{Reason: hold, Message: CutMessage(message)}
					}
					got := errorMessage(status)
					first, rest, _ := strings.Cut(got, ". ")
					if len(first) == 0 || len(first) > failure.MaxSentence || len(got) > validation.MaxMessage {
						t.Errorf("%s, %s: %d bytes, begins with %q", kind, hold, len(got), first)
					}
					if len(message) < validation.MaxMessage && !strings.HasSuffix(got, message) || len(message) > validation.MaxMessage && !strings.HasSuffix(rest, "x... (cut: 15360 bytes in all)") {
						t.Errorf("%s, %s: %q", kind, hold, got)
					}
				}
			}
		}
	}
}

// TestRegistrationLeads: each reason has a short sentence of its own.
func TestRegistrationLeads(t *testing.T) {
	seen := map[string]string{}
	for _, reason := range []string{
		metal3.SecretNotFoundReason, metal3.SecretIncompleteReason, metal3.NetworkDataUnusableReason, metal3.InvalidAddressReason, metal3.AddressNotAllowedReason, metal3.PortConflictReason,
		metal3.BMCInUseReason, metal3.NamespaceNotManagedReason, metal3.NoIronicReason, metal3.IronicRefusedReason, metal3.RequestFailedReason,
	} {
		lead := registrationLead(reason)
		if failure.First(lead) != lead || seen[lead] != "" {
			t.Errorf("%s: %q, as %s", reason, lead, seen[lead])
		}
		seen[lead] = reason
	}
}

// TestErrorMessageSaysWhatHappened: the sentence is about what Ironic says, not about who quotes it.
func TestErrorMessageSaysWhatHappened(t *testing.T) {
	of := func(kind metal3.ErrorType, message string, change ...func(*metal3.HostRecord)) string {
		host := newHost(withState(metal3.StateProvisioned))
		host.Status.Record.Error = &metal3.HostError{Type: kind, Message: message}
		for _, c := range change {
			c(&host.Status.Record)
		}
		first, _, _ := strings.Cut(errorMessage(&host.Status), ". ")
		return first
	}
	held := func(r *metal3.HostRecord) { r.Hold = &metal3.Hold{Reason: metal3.NodeInMaintenanceReason} }
	gone := func(r *metal3.HostRecord) {
		r.Deployment = &metal3.Deployment{Gone: &metal3.GoneDeployment{ProvisionState: string(ironic.Available)}}
	}
	long := strings.Repeat("which is so, ", 20)
	notRegistered := func(reason string) func(*metal3.HostRecord) {
		return func(r *metal3.HostRecord) { r.Registration = &metal3.Registration{Reason: reason, Message: long} }
	}
	for got, want := range map[string]string{
		of(metal3.RegistrationError, "Failed to get power state for node 4711. Error: HTTP GET https://192.0.2.1/redfish/v1/Systems/1 returned code 401. x"): "The BMC refuses the credentials",
		of(metal3.RegistrationError, long, notRegistered(metal3.SecretNotFoundReason)):                                                                       "The Secret with the credentials of the BMC does not exist",
		of(metal3.RegistrationError, long, notRegistered("OneOfTheFuture")):                                                                                  "The host could not be registered in Ironic",
		of(metal3.InspectionError, "inspection failed"):                                                                                                      "inspection failed",
		of(metal3.InspectionError, long):                                                                                                                     "The inspection has failed",
		of(metal3.RegistrationError, long+"IPMI call failed: power status.", held):                                                                           "The deletion waits until the maintenance of the node is ended",
		of(metal3.RegistrationError, "The node is reserved. IPMI call failed", held):                                                                         "The node is reserved",
		of(metal3.ProvisionedRegistrationError, long, gone):                                                                                                  "Somebody has changed in Ironic what the machine runs",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
