// Package lifecycle is the state machine of a BareMetalHost, as pure functions: Observe
// (observe.go) turns what Ironic says of a host's node into the host's status, and Next
// (plan.go) decides on the one thing to do now. Both depend on their arguments alone,
// the time included, so that tables can test them.
package lifecycle

import (
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// Action is one thing that the controller can do for a host. Each is idempotent:
// after a crash at any instruction, planning anew from the host and its node
// leads on.
type Action string

// The actions.
const (
	// Wait does nothing, for as long as Step.After or until something changes.
	Wait Action = "Wait"
	// Begin puts our finalizer on a new host, restores the status that its
	// annotation holds, and sets Step.State if the host has none.
	Begin Action = "Begin"
	// SetState records Step.State, and what belongs to entering it.
	SetState Action = "SetState"
	// Report records a failed registration with Step.Reason and Step.Message.
	Report Action = "Report"
	// TakeHardware takes over the hardware that a HardwareData or an annotation
	// gives, in place of an inspection.
	TakeHardware Action = "TakeHardware"
	// FindNode looks for a node that is the host's already, or else chooses the
	// UUID of the node to be, and records it.
	FindNode Action = "FindNode"
	// CreateNode creates the node with the recorded UUID.
	CreateNode Action = "CreateNode"
	// Register gives Ironic the BMC's address and credentials, the ports, and all
	// else that it has to know of the host, and has a node in enroll verified.
	Register Action = "Register"
	// Provision asks Ironic for the transition Step.Target.
	Provision Action = "Provision"
	// ClearMaintenance ends the maintenance that a failed cleaning left, or a
	// detachment that was called off.
	ClearMaintenance Action = "ClearMaintenance"
	// Deploy tells Ironic what to deploy, and has it validated and deployed.
	Deploy Action = "Deploy"
	// SwitchPower asks Ironic for the power state Step.Power.
	SwitchPower Action = "SwitchPower"
	// DropReboot removes the annotation that asked for one reboot.
	DropReboot Action = "DropReboot"
	// ForgetFailures forgets failed deployments of what is no longer wanted.
	ForgetFailures Action = "ForgetFailures"
	// DeleteNode removes the node from Ironic.
	DeleteNode Action = "DeleteNode"
	// Detach records that the host is out of Ironic, Attach that it is to come back, or
	// to stay.
	Detach Action = "Detach"
	Attach Action = "Attach"
	// Release lets go of the Secret and then of the host.
	Release Action = "Release"
	// SetCleaning tells Ironic whether to clean the node by itself, and nothing else.
	SetCleaning Action = "SetCleaning"
	// Hold records Step.Reason and Step.Message as the condition Held, or removes it where
	// they are empty.
	Hold Action = "Hold"
)

// Step is what Next decided.
type Step struct {
	Do Action
	// After is when to plan again if nothing happens; 0 is "when something changes".
	After time.Duration
	// State is that of Begin and SetState.
	State metal3.ProvisioningState
	// Failed goes with SetState: the state that is left has failed.
	Failed bool
	// Limited goes with SetState: only so many hosts may be in such a state at a time.
	Limited bool
	// Target is the transition of Provision.
	Target ironic.ProvisionTarget
	// Power is the target of SwitchPower.
	Power ironic.PowerTarget
	// Error is what a failure of this step is to be called in status.errorType.
	Error metal3.ErrorType
	// Retry is set when the step failed before: a thousand of them must be spread.
	Retry bool
	// Reason and Message are those of Report and Hold, Secret is one that seems to be missing.
	Reason, Message, Secret string
}

// Situation is all that Next decides by.
type Situation struct {
	Host *metal3.BareMetalHost
	// Node is the host's node, or nil when Ironic has none with the host's ID.
	Node *ironic.Node
	// SecretVersion is the resourceVersion of the Secret that spec.bmc names;
	// empty when there is no such Secret.
	SecretVersion string
	// NetworkVersion is that of the Secret that spec.preprovisioningNetworkDataName names.
	NetworkVersion string
	// SettingsDigest tells apart the settings of ours that nodes are registered with.
	SettingsDigest string
	// HasHardwareData is set when there is a HardwareData of the host's name. It
	// counts only where the host has no hardware yet.
	HasHardwareData bool
	// Hold is how long what failed must still be left alone; see backoff.go.
	Hold time.Duration
	// MaxRetries is how often a provisioning may fail in a row.
	MaxRetries int
	// Restored says that the server's etcd was restored from a backup and that nobody has
	// let it go on yet; empty otherwise.
	Restored string
	// Cluster is the UID of this cluster; empty if it is not known.
	Cluster string
	// NodeOfAnother is set when another host, which exists, owns the node.
	NodeOfAnother bool
	// SameBMC says what else has the host's BMC, for the message to its user; empty if
	// nothing has, or if the host had it first.
	SameBMC string
	// ProvisioningNetworkDisabled refuses drivers that boot from that network.
	ProvisioningNetworkDisabled bool
}

// Next returns the one thing to do now for a host. It is pure: all of the state
// machine is in the plan files, and in their table tests.
//
//	plan.go           what comes before everything else
//	proof.go          what must hold for a step that may harm a machine
//	plan_register.go  a host's way into Ironic
//	plan_life.go      one function for each provisioning state
//	plan_power.go     power and reboots
//	plan_leave.go     detachment and deletion
func Next(s Situation) Step { return guarded(s, plan(s)) }

func plan(s Situation) Step {
	host := s.Host
	state := host.Status.Provisioning.State
	switch {
	case isPaused(host):
		return Step{Do: Wait}
	case !host.DeletionTimestamp.IsZero():
		return nextOfDeleted(s)
	case !hasBMC(host) && host.Status.Provisioning.ID == "" && !restorable(host):
		if state != metal3.StateUnmanaged {
			return Step{Do: SetState, State: metal3.StateUnmanaged}
		}
		return Step{Do: Wait}
	case state == metal3.StateNone, state == metal3.StateUnmanaged, !hasFinalizer(host), hasAnnotation(host, metal3.StatusAnnotation):
		return Step{Do: Begin, State: beginningState(state)}
	case hasAnnotation(host, metal3.HardwareDetailsAnnotation), s.HasHardwareData && host.Status.HardwareDetails == nil:
		return Step{Do: TakeHardware}
	}
	if step, detached := nextOfDetached(s); detached {
		return step
	}
	if step, registered := nextToRegister(s); !registered {
		return step
	}
	return nextOfNode(s)
}

// nextOfNode moves the node of a registered host on.
func nextOfNode(s Situation) Step {
	node := s.Node
	switch node.ProvisionState {
	case ironic.Enroll:
		// The BMC may be back, and nothing else would tell.
		return s.retry(Step{Do: Register}, node.LastError != "")
	case ironic.Verifying:
		return Step{Do: Wait}
	}
	if isForgotten(s.Host, node) {
		return Step{Do: DeleteNode} // no verb leads out; it is registered anew
	}
	if wasLeaving(s.Host, node) {
		return s.retryDetach(Step{Do: ClearMaintenance, Error: metal3.DetachError})
	}
	if node.Maintenance {
		if isStepFault(node) {
			return s.retry(Step{Do: ClearMaintenance, Error: cleaningErrorType(&s.Host.Status)}, true)
		}
		// A BMC that does not answer, which Ironic notices by itself when it does
		// again, or the wish of an operator.
		return Step{Do: Wait}
	}
	switch s.Host.Status.Provisioning.State {
	case metal3.StateInspecting, metal3.StateMatchProfile:
		return nextOfInspecting(s)
	case metal3.StatePreparing:
		return nextOfPreparing(s)
	case metal3.StateAvailable, metal3.StateReady:
		return nextOfAvailable(s)
	case metal3.StateProvisioning:
		return nextOfProvisioning(s)
	case metal3.StateProvisioned:
		return nextOfProvisioned(s)
	case metal3.StateExternallyProvisioned:
		return nextOfExternallyProvisioned(s)
	case metal3.StateDeprovisioning:
		return nextOfDeprovisioning(s)
	}
	return nextOfRegistering(s)
}

// isStepFault tells whether Ironic put the node into maintenance because a step of
// its own failed. Ironic never ends that, and the BMC answers.
func isStepFault(node *ironic.Node) bool {
	return node.Maintenance && (node.Fault == ironic.FaultCleanFailure || node.Fault == ironic.FaultServiceFailure)
}

// retry is step, or the wait for it where it failed before.
func (s Situation) retry(step Step, failed bool) Step {
	if s.Hold > 0 {
		return Step{Do: Wait, After: s.Hold}
	}
	step.Retry = failed
	return step
}

func beginningState(stored metal3.ProvisioningState) metal3.ProvisioningState {
	if stored == metal3.StateNone || stored == metal3.StateUnmanaged {
		return metal3.StateRegistering
	}
	return stored
}

func hasBMC(host *metal3.BareMetalHost) bool {
	return host.Spec.BMC.Address != "" || host.Spec.BMC.CredentialsName != ""
}

// restorable tells whether the host has yet to take over the status that it was
// created with.
func restorable(host *metal3.BareMetalHost) bool {
	return hasAnnotation(host, metal3.StatusAnnotation) && host.Status.LastUpdated.IsZero()
}

func isPaused(host *metal3.BareMetalHost) bool { return hasAnnotation(host, metal3.PausedAnnotation) }

func hasAnnotation(host *metal3.BareMetalHost, key string) bool {
	_, has := host.Annotations[key]
	return has
}

// wantsInspection: any value but "disabled" asks for an inspection once.
func wantsInspection(host *metal3.BareMetalHost) bool {
	value, ok := host.Annotations[metal3.InspectAnnotation]
	return ok && value != metal3.InspectAnnotationValueDisabled && !host.InspectionDisabled()
}

func hasFinalizer(host *metal3.BareMetalHost) bool {
	for _, f := range host.Finalizers {
		if f == metal3.BareMetalHostFinalizer {
			return true
		}
	}
	return false
}
