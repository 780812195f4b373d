package lifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
)

// Enter changes host as the entry into step.State wants it. What was under way in
// the state that is left has ended, and the settings that a state stands for are
// saved, so that later changes of the spec can be told from them.
func Enter(host *metal3.BareMetalHost, node *ironic.Node, step Step, now time.Time) {
	status := &host.Status
	saved := &status.Provisioning
	left := saved.State
	isOurDeployment := left == metal3.StateProvisioning && isUnderWay(status.OperationHistory.Provision)
	saved.State = step.State
	if status.OperationalStatus == metal3.OperationalStatusDelayed || status.OperationalStatus == metal3.OperationalStatusDiscovered {
		status.OperationalStatus = metal3.OperationalStatusOK
	}
	switch {
	case left == metal3.StateDeprovisioning && step.State == metal3.StateProvisioned:
		status.OperationHistory.Deprovision.End = WholeSeconds(now) // called off before it began
	case left != step.State:
		leave(host, left, now)
	}

	switch step.State {
	case metal3.StateUnmanaged:
		status.OperationalStatus = metal3.OperationalStatusDiscovered

	case metal3.StateInspecting:
		status.OperationHistory.Inspect = metal3.OperationMetric{Start: WholeSeconds(now)}
		if wantsInspection(host) {
			delete(host.Annotations, metal3.InspectAnnotation)
		}

	case metal3.StatePreparing:
		if left == metal3.StateInspecting {
			RemoveRebootAnnotation(host)
		}
		setProfile(host)

	case metal3.StateAvailable:
		status.Deployment = nil
		saved.BootMode = host.Spec.BootMode
		saved.RootDeviceHints = deploy.RootDeviceHints(host)
		saved.RAID = host.Spec.RAID.DeepCopy()
		if left == metal3.StateProvisioning && status.ProvisioningFailCount == 0 {
			saved.CustomDeploy = nil // called off before anything was deployed
		}

	case metal3.StateProvisioning:
		status.OperationHistory.Provision = metal3.OperationMetric{Start: WholeSeconds(now)}
		status.LastAttemptedImage = imageOf(host)
		saved.CustomDeploy = host.Spec.CustomDeploy.DeepCopy()
		status.Deployment = &metal3.Deployment{NodeUUID: saved.ID, InstanceUUID: newInstanceUUID(host, status.OperationHistory.Provision.Start)}

	case metal3.StateProvisioned:
		switch {
		case left == metal3.StateDeprovisioning: // it runs what it ran
		case isOurDeployment && status.LastAttemptedImage != nil:
			saved.Image = *status.LastAttemptedImage
			RemoveRebootAnnotation(host)
		default:
			takeDeployment(host, node)
			saved.Image = *imageOf(host)
			saved.CustomDeploy = host.Spec.CustomDeploy.DeepCopy()
		}
		status.ProvisioningFailCount = 0

	case metal3.StateExternallyProvisioned:
		takeDeployment(host, node)
		status.ProvisioningFailCount = 0

	case metal3.StateDeprovisioning:
		start := WholeSeconds(now)
		if start.Before(host.DeletionTimestamp) { // which another server's clock has set
			start = *host.DeletionTimestamp
		}
		status.OperationHistory.Deprovision = metal3.OperationMetric{Start: start}
	}

	if !host.DeletionTimestamp.IsZero() {
		status.ProvisioningFailCount = 0 // there will be no other attempt
	}
	switch {
	case step.Failed:
		status.ProvisioningFailCount++
		SetStepError(host, metal3.ProvisioningError, firstOf(node.LastError, status.ErrorMessage, "the deployment failed"), now)
	case status.ProvisioningFailCount > 0 && (step.State == metal3.StateDeprovisioning || step.State == metal3.StateAvailable):
		// Why the last attempt failed is shown until the next one begins.
	default:
		SetStepError(host, "", "", now)
		if step.State != metal3.StateProvisioning {
			status.ErrorCount = 0
		}
	}
}

// takeDeployment records what runs on a node that is taken over as it is. A machine that
// runs although spec.online is false, which may be nothing but a field left out, goes on.
func takeDeployment(host *metal3.BareMetalHost, node *ironic.Node) {
	if node == nil {
		return
	}
	if was := host.Status.Deployment; was != nil && was.NodeUUID == node.UUID {
		return // known from an earlier state
	}
	host.Status.Deployment = deploymentOn(node)
	host.Status.Deployment.KeepPower = node.PowerState == ironic.PowerOn && !host.Spec.Online
}

// leave ends what the state that is left stands for.
func leave(host *metal3.BareMetalHost, left metal3.ProvisioningState, now time.Time) {
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
		if status.ProvisioningFailCount == 0 { // else it tells what the failed attempt was of
			status.Provisioning.CustomDeploy = nil
		}
		RemoveRebootAnnotation(host)
	}
}

// imageOf is the image that the spec wants; an empty one if it wants none.
func imageOf(host *metal3.BareMetalHost) *metal3.Image {
	if host.Spec.Image == nil {
		return &metal3.Image{}
	}
	return host.Spec.Image.DeepCopy()
}

// dropReboot removes the annotation that asks for one reboot: the host was off.
func RemoveRebootAnnotation(host *metal3.BareMetalHost) {
	delete(host.Annotations, metal3.RebootAnnotation)
}

// begin restores the status that a host was created with, once.
func BeginManaging(host *metal3.BareMetalHost, state metal3.ProvisioningState) error {
	var err error
	if value, has := host.Annotations[metal3.StatusAnnotation]; has {
		if host.Status.LastUpdated.IsZero() {
			var restored *metal3.BareMetalHostStatus
			if restored, err = metal3.ParseStatusAnnotation(value); restored != nil {
				hardware := host.Status.HardwareDetails
				host.Status = *restored
				if host.Status.HardwareDetails == nil {
					host.Status.HardwareDetails = hardware
				}
				// Those of the cluster and the Ironic that it comes from: versions of
				// Secrets cannot be compared between clusters, so it is registered anew.
				host.Status.Ironic, host.Status.Conditions = nil, nil
				host.Status.TriedCredentials, host.Status.RegisteredWith = metal3.CredentialsStatus{}, nil
				host.Status.Deployment, host.Status.Takeover = nil, nil // what it may act on is not for its creator to say
			}
		}
		delete(host.Annotations, metal3.StatusAnnotation)
	}
	if !hasFinalizer(host) {
		host.Finalizers = append(host.Finalizers, metal3.BareMetalHostFinalizer)
	}
	if host.Status.Provisioning.State == metal3.StateNone || host.Status.Provisioning.State == metal3.StateUnmanaged {
		host.Status.Provisioning.State = state
	}
	if host.Status.OperationalStatus == metal3.OperationalStatusDiscovered {
		host.Status.OperationalStatus = metal3.OperationalStatusOK
	}
	return err
}

// metav1Now is now as statuses keep it.
func StatusTime(now time.Time) *metav1.Time { return &metav1.Time{Time: now.Truncate(time.Second)} }

func ClearFailures(host *metal3.BareMetalHost, now time.Time) {
	host.Status.ProvisioningFailCount, host.Status.ErrorCount = 0, 0
	host.Status.LastAttemptedImage = imageOf(host)
	host.Status.Provisioning.CustomDeploy = nil
	SetStepError(host, "", "", now)
}

func MarkDetached(host *metal3.BareMetalHost, now time.Time) {
	host.Status.OperationalStatus = metal3.OperationalStatusDetached
	host.Status.ErrorType, host.Status.ErrorMessage = "", ""
	host.Status.Ironic = nil
	SetStepError(host, "", "", now)
}

func MarkAttached(host *metal3.BareMetalHost, now time.Time) {
	host.Status.OperationalStatus = metal3.OperationalStatusOK
	if failed := StepError(&host.Status); failed != nil && failed.Kind == metal3.DetachError {
		SetStepError(host, "", "", now)
	}
}

func SetTriedCredentials(host *metal3.BareMetalHost, secretVersion string) {
	host.Status.TriedCredentials = metal3.CredentialsStatus{
		Reference: &corev1.SecretReference{Name: host.Spec.BMC.CredentialsName, Namespace: host.Namespace},
		Version:   secretVersion,
	}
}

// setProfile settles the hardware profile when a host is first prepared.
func setProfile(host *metal3.BareMetalHost) {
	if host.Status.HardwareProfile == "" {
		host.Status.HardwareProfile = deploy.HardwareProfile(host)
	}
}

// NodeName is the name of a host's node in Ironic.
func NodeName(host *metal3.BareMetalHost) string {
	return ironic.NodeName(host.Namespace, host.Name)
}
