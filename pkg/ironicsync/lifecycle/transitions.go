// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

// Enter moves host to step.State. It ends the operation that belongs to the previous state in the
// operation history, begins that of the new state, and saves the settings for which the new state
// stands, so that later changes of the spec can be recognised.
func Enter(host *metal3.BareMetalHost, step Step, now time.Time) {
	status := &host.Status
	t := transition{host: host, status: status, node: NodeOf(status), left: status.Provisioning.State, now: WholeSeconds(now)}
	t.deployed = t.left == metal3.StateProvisioning && isUnderWay(status.OperationHistory.Provision)
	t.rebuilding = pendingRebuild(host) != nil
	status.Provisioning.State = step.State
	t.leave(step.State, now)
	if enter, has := onEnter[step.State]; has {
		enter(t)
	}
	t.recordFailure(step)
}

// transition is the way of a host from one state to another.
type transition struct {
	host   *metal3.BareMetalHost
	status *metal3.BareMetalHostStatus
	node   *Node
	left   metal3.ProvisioningState
	// deployed reports whether a deployment of this server's has ended with it.
	deployed bool
	// rebuilding reports whether what the host ran was being written again.
	rebuilding bool
	now        metav1.Time
}

// onEnter begins what belongs to the states that hosts enter.
var onEnter = map[metal3.ProvisioningState]func(transition){
	metal3.StateUnmanaged:             enterUnmanaged,
	metal3.StateInspecting:            enterInspecting,
	metal3.StatePreparing:             enterPreparing,
	metal3.StateAvailable:             enterAvailable,
	metal3.StateProvisioning:          enterProvisioning,
	metal3.StateProvisioned:           enterProvisioned,
	metal3.StateExternallyProvisioned: enterExternallyProvisioned,
	metal3.StateDeprovisioning:        enterDeprovisioning,
}

// leave ends what belongs to the state that is left.
func (t transition) leave(entered metal3.ProvisioningState, now time.Time) {
	status := t.status
	if d := status.Record.Deployment; d != nil && d.Rebuild != nil {
		isLost := t.node == nil || t.node.ProvisionState != ironic.Active || isStateBefore(t.node, d.Rebuild.StateChangedAt)
		d.Rebuild = nil // it has ended, or is given up
		if entered == metal3.StateProvisioned && isLost {
			d.MayAdopt, d.Gone = false, &metal3.GoneDeployment{Since: t.now} // half of it may be written
		}
	}
	if entered != metal3.StatePreparing {
		settings.FailRequestedClean(status, "It has not begun, because the host has become "+string(entered), t.now)
	}
	if status.OperationalStatus == metal3.OperationalStatusDelayed || status.OperationalStatus == metal3.OperationalStatusDiscovered {
		status.OperationalStatus = metal3.OperationalStatusOK
	}
	if !entered.RunsSomething() {
		status.Record.Servicing = nil
	}
	switch {
	case t.left == metal3.StateDeprovisioning && entered.RunsSomething():
		if goneDeployment(status) == nil {
			status.Record.Asked = nil // it was refused, if there was a request
		}
		status.OperationHistory.Deprovision.End = t.now // cancelled before Ironic had begun
	case t.left != entered:
		endState(t.host, t.left, now)
	}
}

func enterUnmanaged(t transition) {
	t.status.OperationalStatus = metal3.OperationalStatusDiscovered
}

// saveSettings records by which settings of the spec the machine boots and its root device is chosen. The Bare Metal Operator does so for
// external hosts, too.
func (t transition) saveSettings() {
	setProfile(t.host)
	t.status.Provisioning.BootMode = t.host.BootMode()
	t.status.Provisioning.RootDeviceHints = deploy.RootDeviceHints(t.host)
}

func enterInspecting(t transition) {
	t.status.Provisioning.BootMode = t.host.BootMode()
	t.status.OperationHistory.Inspect = metal3.OperationMetric{Start: t.now}
	if wantsInspection(t.host) {
		delete(t.host.Annotations, metal3.InspectAnnotation)
	}
}

func enterPreparing(t transition) {
	if t.left == metal3.StateInspecting {
		RemoveRebootAnnotation(t.host)
	}
	setProfile(t.host)
}

func enterAvailable(t transition) {
	status, saved := t.status, &t.status.Provisioning
	status.Record.Deployment = nil
	if t.left == metal3.StateDeprovisioning {
		status.Record.Takeover = nil // what was confirmed is over
	}
	t.saveSettings()
	if t.left == metal3.StatePreparing {
		settings.Arrived(status, settings.Machine{Host: t.host})
	}
	if t.left == metal3.StateProvisioning && status.ProvisioningFailCount == 0 {
		saved.CustomDeploy = nil // cancelled before anything was deployed
	}
}

func enterProvisioning(t transition) {
	status := t.status
	status.OperationHistory.Provision = metal3.OperationMetric{Start: t.now}
	noteAttempt(t.host)
	status.Record.Deployment = &metal3.Deployment{NodeUUID: status.Provisioning.ID, InstanceUUID: newInstanceUUID(t.host, t.now)}
}

// noteAttempt records what an attempt to provision the host was for; see deploy.AttemptChanged.
func noteAttempt(host *metal3.BareMetalHost) {
	host.Status.LastAttemptedImage = imageOf(host)
	host.Status.Provisioning.CustomDeploy = host.Spec.CustomDeploy.DeepCopy()
}

// RefuseProvisioning records why a host does not become provisioning: what its deployment needs is missing. That is found out before
// anything is done to the machine, so that its disks are not cleaned for a deployment that cannot begin.
func RefuseProvisioning(host *metal3.BareMetalHost, message string) {
	noteAttempt(host)
	SetFailure(host, metal3.ProvisioningError, message)
	CountAgain(host, message)
}

func enterProvisioned(t transition) {
	status, saved := t.status, &t.status.Provisioning
	t.dropOldReboot()
	switch {
	case t.left == metal3.StateDeprovisioning: // what runs on the machine has not changed
	case t.deployed && t.isDeployedByAnother(): // the record has what was to be deployed, so that the machine is left alone
		saved.Image, saved.CustomDeploy = metal3.Image{}, nil
	case t.deployed && status.LastAttemptedImage != nil:
		saved.Image = *status.LastAttemptedImage
		RemoveRebootAnnotation(t.host)
	case t.left == metal3.StateExternallyProvisioned || isKnownDeployment(t.host, t.node):
		takeDeployment(t.host, t.node)
		saved.Image = *imageOf(t.host)
		saved.CustomDeploy = t.host.Spec.CustomDeploy.DeepCopy()
	default: // somebody has deployed it, and nobody has said what
		takeDeployment(t.host, t.node)
		saved.Image, saved.CustomDeploy = metal3.Image{}, nil
	}
	if t.left == metal3.StateRegistering {
		t.saveSettings()
	}
	status.ProvisioningFailCount = 0
}

// dropOldReboot removes the annotation that asks for one reboot from a host that has run nothing so far, where it did not count: what the
// machine runs from now on is not to be rebooted for a request of days ago.
func (t transition) dropOldReboot() {
	switch t.left {
	case metal3.StateInspecting, metal3.StatePreparing, metal3.StateReady, metal3.StateAvailable:
		RemoveRebootAnnotation(t.host)
	}
}

// was to be deployed, the host would have it undeployed once Ironic has lost the node, and with it whose it is.
func (t transition) isDeployedByAnother() bool {
	d := t.status.Record.Deployment
	return t.node != nil && t.node.ProvisionState.IsDeployed() && d != nil && t.node.InstanceUUID != d.InstanceUUID && !isDeploymentConfirmed(t.host, t.node)
}

func enterExternallyProvisioned(t transition) {
	t.dropOldReboot()
	takeDeployment(t.host, t.node)
	t.saveSettings()
	t.status.ProvisioningFailCount = 0
}

func enterDeprovisioning(t transition) {
	start := t.now
	if deleted := t.host.DeletionTimestamp; deleted != nil {
		start = *deleted // by which isDeletionBegun knows it
	}
	t.status.OperationHistory.Deprovision = metal3.OperationMetric{Start: start}
	t.neverRan()
}

// recordFailure records whether the state that is left has failed.
func (t transition) recordFailure(step Step) {
	status := t.status
	if !t.host.DeletionTimestamp.IsZero() {
		status.ProvisioningFailCount = 0 // there will not be another attempt
	}
	switch {
	case step.Failed:
		if t.node == nil || !ironic.SaysInterrupted(t.node.LastError) { // by the restart of a conductor, which is nobody's failure
			status.ProvisioningFailCount++
		}
		SetFailure(t.host, metal3.ProvisioningError, failedDeploymentMessage(status, t.node))
	case status.ProvisioningFailCount > 0 && (step.State == metal3.StateDeprovisioning || step.State == metal3.StateAvailable):
		// The reason of the last failure is shown until the next attempt begins.
	default:
		ClearFailure(t.host)
		if step.State != metal3.StateProvisioning {
			resetErrorCount(status)
		}
	}
}

// failedDeploymentMessage returns why a deployment failed that is about to be undone, in Ironic's words.
func failedDeploymentMessage(status *metal3.BareMetalHostStatus, node *Node) string {
	message := "the deployment failed"
	if failed := status.Record.Error; failed != nil {
		message = failed.Message
	}
	return cmp.Or(node.LastError, message)
}

// takeDeployment records what runs on a node that is taken over as it is.
func takeDeployment(host *metal3.BareMetalHost, node *Node) {
	if node == nil {
		return
	}
	if was := host.Status.Record.Deployment; was != nil && was.NodeUUID == node.UUID {
		return // known from an earlier state
	}
	host.Status.Record.Deployment = deploymentFound(host, node)
	host.Status.Record.Deployment.MayAdopt = !node.ProvisionState.IsDeployed()
}

// isKnownDeployment reports whether what is deployed on a node is the host's: this server has recorded that it would
// ask for it, a person has confirmed it, or it is by the Bare Metal Operator, which gives the host's UID to the node.
// That it was found there does not make it the host's.
func isKnownDeployment(host *metal3.BareMetalHost, node *Node) bool {
	if node == nil {
		return false
	}
	recorded := host.Status.Record.Deployment
	return recorded != nil && recorded.InstanceUUID != "" && recorded.NodeUUID == node.UUID && recorded.InstanceUUID == node.InstanceUUID ||
		node.InstanceUUID == string(host.UID) || isDeploymentConfirmed(host, node)
}

// endState ends the operation that belongs to the state that the host leaves.
func endState(host *metal3.BareMetalHost, left metal3.ProvisioningState, now time.Time) {
	status := &host.Status
	history := &status.OperationHistory
	switch left {
	case metal3.StateProvisioning:
		if !history.Provision.Start.IsZero() && history.Provision.End.IsZero() {
			history.Provision.End = WholeSeconds(now)
		}
	case metal3.StateDeprovisioning:
		if !history.Deprovision.Start.IsZero() && history.Deprovision.End.IsZero() {
			history.Deprovision.End = WholeSeconds(now)
		}
		status.Provisioning.Image = metal3.Image{}
		settings.Deprovisioned(host)
		if status.ProvisioningFailCount == 0 { // otherwise it shows what the failed attempt was to deploy
			status.Provisioning.CustomDeploy = nil
		}
		RemoveRebootAnnotation(host)
	}
}

// imageOf returns the image in the spec, or an empty one if there is none.
func imageOf(host *metal3.BareMetalHost) *metal3.Image {
	if host.Spec.Image == nil {
		return &metal3.Image{}
	}
	return host.Spec.Image.DeepCopy()
}

// RemoveRebootAnnotation removes the annotation that asks for one reboot, after the machine has
// been off.
func RemoveRebootAnnotation(host *metal3.BareMetalHost) {
	delete(host.Annotations, metal3.RebootAnnotation)
}

// StartManaging sets the finalizer, restores the status that the host was created with in an
// annotation, and sets the provisioning state if the host has none yet. The error says that the
// annotation cannot be parsed; nothing has been changed then.
func StartManaging(host *metal3.BareMetalHost, state metal3.ProvisioningState, now time.Time) error {
	if value, has := host.Annotations[metal3.StatusAnnotation]; has {
		if hasStatusToRestore(host) {
			restored, err := metal3.ParseStatusAnnotation(value)
			if err != nil {
				return err // without it, the host would be new, and its machine to be erased
			}
			hardware := host.Status.HardwareDetails
			host.Status = *restored
			if host.Status.HardwareDetails == nil {
				host.Status.HardwareDetails = hardware
			}
			// These fields belong to the cluster and the Ironic from which the status
			// comes. The host is registered again, because the versions of Secrets cannot
			// be compared between clusters.
			host.Status.Ironic, host.Status.Conditions = nil, nil
			host.Status.TriedCredentials, host.Status.GoodCredentials = metal3.CredentialsStatus{}, metal3.CredentialsStatus{}
			// The record permits destructive steps, so whoever creates the host must not set it, but for
			// what only keeps the machine from being rebooted.
			host.Status.Record = metal3.HostRecord{Rebooted: rebootsDoneBefore(host, &restored.Record)}
			if restored.ErrorType != "" {
				SetError(host, restored.ErrorType, restored.ErrorMessage)
			}
		}
		delete(host.Annotations, metal3.StatusAnnotation)
	}
	if !hasFinalizer(host) {
		host.Finalizers = append(host.Finalizers, metal3.BareMetalHostFinalizer)
	}
	if host.Status.Provisioning.State == metal3.StateNone || host.Status.Provisioning.State == metal3.StateUnmanaged {
		host.Status.Provisioning.State = state
		if state == metal3.StateRegistering {
			host.Status.Provisioning.BootMode = host.BootMode()
			host.Status.OperationHistory.Register = metal3.OperationMetric{Start: WholeSeconds(now)}
		}
	}
	if host.Status.OperationalStatus == metal3.OperationalStatusDiscovered {
		host.Status.OperationalStatus = metal3.OperationalStatusOK
	}
	return nil
}

// StatusTime returns a time in the form that statuses use, with whole seconds.
func StatusTime(now time.Time) *metav1.Time { return &metav1.Time{Time: now.Truncate(time.Second)} }

// ClearFailures resets the record of failed deployments, after the spec has changed.
func ClearFailures(host *metal3.BareMetalHost, _ time.Time) {
	host.Status.ProvisioningFailCount = 0
	resetErrorCount(&host.Status)
	host.Status.LastAttemptedImage = imageOf(host)
	host.Status.Provisioning.CustomDeploy = nil
	ClearFailure(host)
}

// MarkDetached records that the host is no longer in Ironic.
func MarkDetached(host *metal3.BareMetalHost, now time.Time) {
	host.Status.OperationalStatus = metal3.OperationalStatusDetached
	MarkNodeRemoved(host)
	host.Status.Record.Error = nil
	noteLoss(&host.Status, lastSeen(&host.Status), now)
	host.Status.Record.PowerOns = nil // with its node, no request can be carried out later
	if node := NodeOf(&host.Status); node != nil {
		if _, off := powerOf(node); off {
			host.Status.PoweredOn = false
		}
	}
	forgetNode(&host.Status)
	ClearFailure(host)
}

// MarkNodeRemoved records that the server removes the host's node, so that a missing one is not taken for one that was lost.
func MarkNodeRemoved(host *metal3.BareMetalHost) {
	if with := host.Status.Record.RegisteredWith; with != nil {
		with.NodeRemoved = true
	}
}

// keepNode ends MarkNodeRemoved if the node is still there, and is not to be removed any more.
func keepNode(host *metal3.BareMetalHost) {
	if with := host.Status.Record.RegisteredWith; with != nil && host.Status.Ironic != nil {
		with.NodeRemoved = false
	}
}

// IsNodeExpected reports whether the host's Ironic is to have its node: it was registered there, and the server has not removed
// the node since.
func IsNodeExpected(host *metal3.BareMetalHost) bool {
	with := host.Status.Record.RegisteredWith
	return with != nil && !with.NodeRemoved
}

// MarkAttached records that the host is in Ironic, or is to be registered there again.
func MarkAttached(host *metal3.BareMetalHost, now time.Time) {
	if provision := &host.Status.OperationHistory.Provision; host.IsDetached() && host.Status.Provisioning.State == metal3.StateProvisioning && isUnderWay(*provision) {
		provision.Start = WholeSeconds(now) // it begins anew, because the deployment has ended with the node
	}
	host.Status.OperationalStatus = metal3.OperationalStatusOK
	keepNode(host)
	if HasFailureOf(&host.Status, metal3.DetachError) {
		ClearFailure(host)
	}
}

// SetTriedCredentials records which version of the BMC's Secret Ironic was given last. With another one, and after an error of the
// registration, the host is registered anew, until an observation finds the BMC verified.
func SetTriedCredentials(host *metal3.BareMetalHost, secretVersion string, now time.Time) {
	former := host.Status.TriedCredentials
	tried := metal3.CredentialsStatus{
		Reference: &corev1.SecretReference{Name: host.Spec.BMC.CredentialsName, Namespace: host.Namespace},
		Version:   secretVersion,
	}
	host.Status.TriedCredentials = tried
	if register := &host.Status.OperationHistory.Register; !register.End.IsZero() && (!equality.Semantic.DeepEqual(tried, former) || registrationError(&host.Status) != nil) {
		*register = metal3.OperationMetric{Start: WholeSeconds(now)}
	}
}

// setProfile sets the hardware profile when a host is prepared for the first time.
func setProfile(host *metal3.BareMetalHost) {
	if host.Status.HardwareProfile == "" {
		host.Status.HardwareProfile = deploy.HardwareProfile(host)
	}
}

// NodeName returns the name of a host's node in Ironic.
func NodeName(host *metal3.BareMetalHost) string {
	return ironic.NodeName(host.Namespace, host.Name)
}
