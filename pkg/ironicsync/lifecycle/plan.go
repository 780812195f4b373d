// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

// Action is something that the controller can do for a host. Each action is idempotent: after a
// crash at any point, the next plan made from the host and its node continues the work.
type Action string

// The actions.
const (
	// Wait does nothing until Step.After has passed or something changes.
	Wait Action = "Wait"
	// Begin puts our finalizer on a new host, restores the status that its
	// annotation holds, and sets Step.State if the host has none.
	Begin Action = "Begin"
	// SetState moves the host to Step.State (see Enter).
	SetState Action = "SetState"
	// Report records a failed registration with Step.Reason and Step.Message.
	Report Action = "Report"
	// RecordGivenHardware takes the hardware details from a HardwareData or an annotation instead of
	// an inspection.
	RecordGivenHardware Action = "RecordGivenHardware"
	// FindNode looks for a node that belongs to the host already. If there is none, it chooses
	// a UUID for the node that is to be created, and records it.
	FindNode Action = "FindNode"
	// CreateNode creates the node with the recorded UUID.
	CreateNode Action = "CreateNode"
	// Register gives Ironic the BMC's address and credentials, the ports, and everything else
	// that it has to know about the host. If the node is in enroll, it has the node verified.
	Register Action = "Register"
	// Provision asks Ironic for the transition Step.Target.
	Provision Action = "Provision"
	// ClearMaintenance takes the node out of the maintenance that a failed cleaning or a
	// cancelled detachment has left.
	ClearMaintenance Action = "ClearMaintenance"
	// Prepare has Ironic apply settings to the machine, with the manual clean Step.Clean, or
	// records with Step.Message why that is not possible.
	Prepare Action = "Prepare"
	// Service has Ironic change settings of a machine that runs something and is about to be
	// switched on, with the service Step.Clean, or records with Step.Message why that is not
	// possible.
	Service Action = "Service"
	// LeaveService has Ironic end a service that has failed or is not wanted any more, with
	// Step.Target.
	LeaveService Action = "LeaveService"
	// EndServicing records that nothing is left to be changed by a service.
	EndServicing Action = "EndServicing"
	// Deploy tells Ironic what to deploy, has that validated, and starts the deployment.
	Deploy Action = "Deploy"
	// Rebuild does what Deploy does on a node that is deployed already, which is not cleaned.
	Rebuild Action = "Rebuild"
	// SwitchPower asks Ironic for the power state Step.Power.
	SwitchPower Action = "SwitchPower"
	// ClearRebootRequest removes the annotation that asks for one reboot.
	ClearRebootRequest Action = "ClearRebootRequest"
	// ForgetReboots records which of the annotations are gone that have rebooted a machine that is never switched off.
	ForgetReboots Action = "ForgetReboots"
	// ForgetFailures resets the record of failed deployments after the spec has changed.
	ForgetFailures Action = "ForgetFailures"
	// ForgetRequest ends the error of a request that kept failing and is not to be made any more.
	ForgetRequest Action = "ForgetRequest"
	// ForgetLost forgets the request for Step.Target or Step.Power that has got no answer and counts as lost: the node, which has
	// just been read, shows nothing of it.
	ForgetLost Action = "ForgetLost"
	// DeleteNode removes the node from Ironic.
	DeleteNode Action = "DeleteNode"
	// Detach records that the host is no longer in Ironic.
	Detach Action = "Detach"
	// Attach records that a detached host is to be registered again, or that a detachment
	// that has failed was cancelled.
	Attach Action = "Attach"
	// LeaveIronic removes the node of a host that is to be moved to another Ironic, if that one can take the host now.
	LeaveIronic Action = "LeaveIronic"
	// ChangeIronic records that a host is in the Ironic to which it was to be moved, if there is no node any more
	// in the one that it leaves.
	ChangeIronic Action = "ChangeIronic"
	// Release removes the finalizers from the Secret and then from the host.
	Release Action = "Release"
	// SetCleaning tells Ironic whether to clean the node automatically, and changes nothing
	// else.
	SetCleaning Action = "SetCleaning"
	// Hold sets the condition Held with Step.Reason and Step.Message, or removes the condition
	// if they are empty.
	Hold Action = "Hold"
	// NoteResemblance records with Step.Message what the machine has in common with another host's, or, if that is empty, that it has
	// nothing in common with any.
	NoteResemblance Action = "NoteResemblance"
	// AwaitImage records with Step.Message what the host's ramdisk image waits for, or, if that is empty,
	// that the host no longer waits for it.
	AwaitImage Action = "AwaitImage"
)

// Step is the decision of Next.
type Step struct {
	Do Action
	// After is when to plan again even if nothing happens; 0 means only when something changes.
	After time.Duration
	// State is that of Begin and SetState.
	State metal3.ProvisioningState
	// Failed goes with SetState: the state that is left has failed.
	Failed bool
	// Limited goes with SetState and Rebuild: only so many hosts may be worked on at a time.
	Limited bool
	// Target is the transition of Provision and of LeaveService.
	Target ironic.ProvisionTarget
	// Clean is the clean of Prepare, and the service of Service.
	Clean *settings.Clean
	// Power is the target of SwitchPower.
	Power ironic.PowerTarget
	// Error is the status.errorType if this step fails.
	Error metal3.ErrorType
	// Retry is set if the step has failed before. The controller spreads such steps over time,
	// in case a thousand hosts retry at once.
	Retry bool
	// Reason and Message are those of Report and Hold; Prepare, Service, AwaitImage and NoteResemblance have a Message only. That of
	// Wait is what is waited for if it has nothing to do with the host, and if the host is to say so when it takes long. Other goes
	// with Hold: the host that seems to be of the same machine. Elsewhere goes with Hold and Report: they are about a node in another
	// Ironic. Secret is the name of a Secret that seems to be missing.
	Reason, Message, Secret string
	Other                   types.UID
	Elsewhere               bool
	// AsOfRestore goes with a Hold that has no reason: the restore of etcd since which the machine is as recorded.
	AsOfRestore int64
}

// WaitsForImageServer reports whether Ironic answers a request of the step only when it has looked for the user's image on its
// server, which may never answer.
func (s Step) WaitsForImageServer() bool { return s.Do == Deploy || s.Do == Rebuild }

// OccupiesWorker reports whether Ironic, when it has accepted the step, works on it in one of its workers, which waits for the BMC.
func (s Step) OccupiesWorker() bool {
	switch s.Do {
	case CreateNode, Register, Provision, SwitchPower, Prepare, Service, LeaveService:
		return true
	}
	return false
}

// Situation is everything on which Next bases its decision.
type Situation struct {
	Host *metal3.BareMetalHost
	// node is what Host.Status has of the host's node; nil if Ironic has none. Next sets it.
	node *Node
	// ObservedAt is when the node was read of which Host.Status is an observation. It is zero if the
	// status may be outdated.
	ObservedAt time.Time
	// HostRead is set if Host was read for a step that needs no node, which is not an observation.
	HostRead bool
	// IronicNow is what Ironic's clock said then; zero if it did not say.
	IronicNow time.Time
	// SecretVersion is the resourceVersion of the Secret that spec.bmc names; empty if there
	// is no such Secret.
	SecretVersion string
	// NetworkVersion is the resourceVersion of the Secret that
	// spec.preprovisioningNetworkDataName names; empty if there is no such Secret.
	NetworkVersion string
	// SettingsDigest identifies the settings of the server with which nodes are registered.
	SettingsDigest string
	// Image is what is known of the ramdisk image that is built for the host; nil if all hosts boot the
	// images of the server's settings.
	Image *Image
	// Firmware has the BIOS settings of the host, and Schema the values that they accept; nil if
	// nothing is known of them. They matter only if the host runs nothing, or if Policy permits
	// changes.
	Firmware *metal3.HostFirmwareSettings
	Schema   *metal3.FirmwareSchema
	// Components has the updates of the host's firmware; nil if there are none. They matter only
	// if the host runs nothing.
	Components *metal3.HostFirmwareComponents
	// Policy says what may be changed while the host runs something; nil if nothing may.
	Policy *metal3.HostUpdatePolicySpec
	// SettingsUnread says, for people, which settings in Firmware or Components cannot be compared with what the machine has, and
	// why, so that they have to wait; empty if all can.
	SettingsUnread string
	// CanService is set if Ironic can change settings of a machine that runs something (since
	// API 1.87), and CanAbortService if it can abort such a service after it has failed (since
	// Ironic 32). They matter only if there is a Policy or a service.
	CanService, CanAbortService bool
	// RAIDAlone is set if Ironic (see Quirks.StuckAfterRAIDStep) does not notice the end of a step that
	// follows one for RAID.
	RAIDAlone bool
	// GivesHardware is set if the host is to take its hardware details over from the HardwareData with its name.
	GivesHardware bool
	// Hold is how long to wait before something that has failed is tried again; see backoff.go
	// in the package reconcile.
	Hold time.Duration
	// RegistrationTried is set if it was tried a few minutes ago to register the host with just this spec and these Secrets.
	RegistrationTried bool
	// NoRoom is set if there is no room for a limited step: what the machine runs goes on, and its power follows the spec.
	NoRoom bool
	// MaxRetries is how often in a row provisioning may fail; 0 is no limit.
	MaxRetries int
	// Restored says that the server's etcd was restored from a backup and that nobody has
	// permitted the server to continue yet; empty otherwise.
	Restored string
	// RestoredAt is the count in the server's etcd at its last restore from a backup; 0 if there was none.
	RestoredAt int64
	// OperatorRunning says that the Bare Metal Operator drives the hosts, too, and how that shows; empty otherwise.
	OperatorRunning string
	// Cluster is the UID of this cluster; empty if it is not known.
	Cluster string
	// AskedInVain is set if the request that status.record.asked is about was refused or never sent.
	AskedInVain bool
	// PowerAnswered is set if the request that status.record.askedPower is about was accepted, refused or never sent: it does
	// not come later.
	PowerAnswered bool
	// AskedKnownFor and AskedPowerKnownFor are for how long this process has seen what status.record.asked and askedPower are.
	AskedKnownFor, AskedPowerKnownFor time.Duration
	// PowerOnsKnownFor is for how long this process has seen what status.record.powerOns is.
	PowerOnsKnownFor time.Duration
	// PowerCutKnownFor is for how long this process has seen what status.record.powerCut is.
	PowerCutKnownFor time.Duration
	// AnotherIronic is set if Ironic has no node of the host, nor of any other host that was registered in it, but nodes of
	// others: it is another Ironic than it was. NodeMayExist is set if the node of a registered host is missing, and the nodes
	// have not been read since.
	AnotherIronic, NodeMayExist bool
	// NodeOfAnother is set if the node belongs to another host that exists.
	NodeOfAnother bool
	// Claim says whether the BMC and the machine are the host's.
	Claim
	// ProvisioningNetworkDisabled is set if drivers that boot from the provisioning network
	// are to be refused.
	ProvisioningNetworkDisabled bool
}

// Next decides what to do next for a host. It is a pure function, and the plan files contain the
// whole state machine:
//
//	plan.go           the checks that come first
//	proof.go          the guards: what must be true before a step that may harm a machine
//	proof_checks.go   how each of them checks that
//	guarded.go        what becomes of a step that a guard objects to
//	harmless.go       what each step may do to a machine
//	whose.go          whose a node is
//	claim.go          whose a BMC and a machine are
//	deployment.go     whose a deployment is
//	taken_back.go     deprovisionings that the spec takes back
//	plan_register.go  registration in Ironic
//	forgotten.go      what Ironic will never end
//	image.go          ramdisk images that are built for single hosts
//	plan_life.go      one function for each provisioning state
//	plan_settings.go  RAID and other settings of a machine that runs nothing
//	plan_service.go   settings of a machine that runs something
//	plan_power.go     power and reboots
//	plan_leave.go     detachment and deletion
//	transfer.go       moves to another Ironic
func Next(s Situation) Step {
	s.node = NodeOf(&s.Host.Status)
	step := plan(s)
	if step.Do == Wait && step.After == 0 && isRequestForgotten(s) {
		step = Step{Do: ForgetRequest}
	}
	step = applyGuards(s, step)
	if s.mustSwitchOnFor(step) {
		step = applyGuards(s, s.switchOnForReset())
	}
	return forgetting(s, step)
}

// isRequestForgotten reports whether the host shows that a request keeps failing although nothing is to be requested: it
// was carried out without an answer, or nobody wants it any more.
func isRequestForgotten(s Situation) bool {
	host := s.Host
	return IsRequestFailing(&host.Status) && !metal3.IsPaused(host) && !host.Status.Record.IsLater() && s.node != nil && !s.node.IsLocked() && host.Status.Record.Hold == nil
}

// MustObserve reports whether a host and its node have to be read before the step, because it was planned from what
// may be outdated. A host that is deleted or waits for others is read even if there is nothing to do, because
// what it waits for may have been missed.
func MustObserve(s Situation, step Step) bool {
	host := s.Host
	switch {
	case !s.ObservedAt.IsZero(), s.HostRead && NeedsNoNode(step):
		return false
	case step.Do == Hold && (&metal3.Hold{Reason: step.Reason}).IsOfAllHosts():
		return false // it is so whatever the node is like, and has to be recorded while Ironic is away, too
	case step.Do == Wait:
		return !host.DeletionTimestamp.IsZero() || host.Status.OperationalStatus == metal3.OperationalStatusDelayed ||
			step.After > 0 && (host.Status.Record.Asked != nil || host.Status.Record.AskedPower != nil || host.Status.Record.PowerOns != nil || host.Status.Record.PowerCut != nil)
	}
	return true
}

// NeedsNoNode reports whether a step only writes the host, so that it does not wait for Ironic.
func NeedsNoNode(step Step) bool { return step.Do == Begin || step.Do == Report }

func plan(s Situation) Step {
	host := s.Host
	state := host.Status.Provisioning.State
	switch {
	case metal3.IsPaused(host), host.Status.Record.IsLater(): // a later version knows what this one would get wrong
		return Step{Do: Wait}
	case !host.DeletionTimestamp.IsZero():
		return nextOfDeleted(s)
	case !hasBMC(host) && host.Status.Provisioning.ID == "" && !hasStatusToRestore(host):
		if state != metal3.StateUnmanaged {
			return Step{Do: SetState, State: metal3.StateUnmanaged}
		}
		return Step{Do: Wait}
	case state == metal3.StateNone, state == metal3.StateUnmanaged, !hasFinalizer(host), hasAnnotation(host, metal3.StatusAnnotation):
		return Step{Do: Begin, State: beginningState(state)}
	case hasAnnotation(host, metal3.HardwareDetailsAnnotation), s.GivesHardware:
		return Step{Do: RecordGivenHardware}
	}
	if step, leaves := nextOfTransfer(s); leaves {
		return step
	}
	if step, detached := nextOfDetached(s); detached {
		return step
	}
	if step, registered := nextToRegister(s); !registered {
		return step
	}
	if with := host.Status.Record.RegisteredWith; s.node != nil && with != nil && with.NodeRemoved {
		return Step{Do: Attach} // the node was to be removed, and is not any more
	}
	return nextOfNode(s)
}

// nextOfNode returns the next step for a registered host, whose node exists.
func nextOfNode(s Situation) Step {
	node := s.node
	switch node.ProvisionState {
	case ironic.Enroll:
		// Verify the node again: nothing else shows whether its BMC answers now.
		return s.retry(Step{Do: Register}, node.LastError != "")
	case ironic.Verifying:
		if !isStuck(s.Host, node) {
			return Step{Do: Wait}
		}
	}
	if isStuck(s.Host, node) {
		return Step{Do: DeleteNode} // no provisioning verb leads out of the state; the host is registered again
	}
	if isInLeavingMaintenance(s.Host, node) {
		return s.retryDetach(Step{Do: ClearMaintenance, Error: metal3.DetachError})
	}
	if node.Maintenance {
		switch {
		case isStepFault(node) && s.Host.Status.Provisioning.State.RunsSomething() && openService(s.Host, node) != nil:
			return nextOfDeployed(s) // which leaves the service
		case isStepFault(node):
			return s.clearMaintenance(cleaningErrorType(&s.Host.Status))
		}
		// Either the BMC does not answer, and Ironic ends the maintenance when it does again, or
		// an operator has set the maintenance.
		return Step{Do: Wait}
	}
	//exhaustive:enforce
	switch s.Host.Status.Provisioning.State {
	case metal3.StateNone, metal3.StateUnmanaged, metal3.StateRegistering:
	case metal3.StatePoweringOffBeforeDelete, metal3.StateDeleting: // of a host that is not being deleted: a status says so
	case metal3.StateProvisioned, metal3.StateExternallyProvisioned:
		return nextOfDeployed(s)
	case metal3.StateInspecting, metal3.StateMatchProfile:
		return nextOfInspecting(s)
	case metal3.StatePreparing:
		return nextOfPreparing(s)
	case metal3.StateAvailable, metal3.StateReady:
		return nextOfAvailable(s)
	case metal3.StateProvisioning:
		return nextOfProvisioning(s)
	case metal3.StateDeprovisioning:
		return nextOfDeprovisioning(s)
	}
	return nextOfRegistering(s)
}

// isStepFault reports whether Ironic has put the node into maintenance because cleaning or
// servicing failed. The BMC answers then, but Ironic does not end this maintenance. If a person
// has requested the maintenance, it is not ended here either.
func isStepFault(node *Node) bool {
	return node.Maintenance && !ironic.IsRequestedMaintenance(node.MaintenanceReason) && (node.Fault == ironic.FaultCleanFailure || node.Fault == ironic.FaultServiceFailure)
}

// clearMaintenance ends the maintenance of a failed clean or service, once Ironic has discarded the
// firmware updates of it.
func (s Situation) clearMaintenance(kind metal3.ErrorType) Step {
	if s.isDiscardingFirmware() {
		return Step{Do: Wait, After: discardPause}
	}
	return s.retry(Step{Do: ClearMaintenance, Error: kind}, true)
}

const (
	// discardPause is when to look again whether Ironic has discarded firmware updates.
	discardPause = 5 * time.Second
	// discardLimit is how long that may take: twice the default of Ironic's firmware_update_fail_interval.
	discardLimit = 2 * time.Minute
)

// isDiscardingFirmware reports whether Ironic has yet to discard firmware updates of which one has
// failed. Ironic 29.0 does so in a periodic task, and only while the node is in maintenance. What it
// has not discarded goes on with the next clean or service that waits for the machine: that one fails
// with the old error or, if the BMC does not know the old task any more, updates what is left of the list.
func (s Situation) isDiscardingFirmware() bool {
	return s.node.UpdatingFirmware && isStepFault(s.node) && s.changedWithin(discardLimit)
}

// retry returns step, or a wait while the back-off lasts. failed reports whether the step has
// failed before.
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

// hasStatusToRestore reports whether the host was created with an annotation that contains its status, which has not been restored yet:
// managing the host was never begun, whatever has been recorded of it meanwhile.
func hasStatusToRestore(host *metal3.BareMetalHost) bool {
	return hasAnnotation(host, metal3.StatusAnnotation) && host.Status.Provisioning.State == metal3.StateNone
}

func hasAnnotation(host *metal3.BareMetalHost, key string) bool {
	_, has := host.Annotations[key]
	return has
}

// wantsInspection reports whether the annotation asks for an inspection, as it does with any value
// but "disabled".
func wantsInspection(host *metal3.BareMetalHost) bool {
	value, ok := host.Annotations[metal3.InspectAnnotation]
	return ok && value != metal3.InspectAnnotationValueDisabled && !host.InspectionDisabled()
}

func hasFinalizer(host *metal3.BareMetalHost) bool {
	return slices.Contains(host.Finalizers, metal3.BareMetalHostFinalizer)
}
