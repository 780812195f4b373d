// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

// nextToRegister returns the next step of registering the host in Ironic. The second result is
// true, and there is no step, if the node exists, is not locked, and is registered according to
// the spec, the Secrets and the settings, as far as Ironic permits in its state.
func nextToRegister(s Situation) (Step, bool) {
	host, node := s.Host, s.node
	if step, failed := registrationObstacle(s); failed {
		return step, false
	}
	if host.Status.Provisioning.ID == "" {
		return Step{Do: FindNode}, false
	}
	if awaitsInVain(s) {
		return Step{Do: AwaitImage}, false
	}
	if isRefused(host) && s.Hold > 0 {
		return Step{Do: Wait, After: s.Hold}, false
	}
	switch {
	case node == nil && s.NodeMayExist:
		return Step{Do: Wait, After: nodesPause}, false
	case node == nil:
		return Step{Do: CreateNode, Retry: isRefused(host)}, false
	case node.IsLocked():
		return Step{Do: Wait}, false // a conductor is working on it; the next change triggers another plan
	}
	if step, failed := imageObstacle(s); failed {
		return step, false
	}
	if !isRegistered(s) && isUpdatable(node) {
		return Step{Do: Register, Retry: isRefused(host)}, false
	}
	if step, waits := awaitImage(s); waits {
		return step, false
	}
	return Step{}, true
}

// bmcInUsePause is how long to wait before checking again whether a BMC is free, which not every
// event tells.
const bmcInUsePause = 30 * time.Second

// registrationObstacle returns the step for a host that cannot be registered, as far as that is
// known without asking Ironic: to report the reason, or to wait if it has been reported. The
// second result is false if nothing is in the way.
func registrationObstacle(s Situation) (Step, bool) {
	host := s.Host
	report := func(reason, message string) (Step, bool) { return reportOnce(host, reason, message), true }
	missing := func(secret, reason, message string) (Step, bool) {
		step, failed := report(reason, message)
		if step.Do == Report {
			step.Secret = secret
		}
		return step, failed
	}
	access, err := bmc.Parse(host.Spec.BMC.Address, host.Spec.BMC.DisableCertificateVerification)
	if err != nil {
		return report(metal3.InvalidAddressReason, err.Error())
	}
	if s.ProvisioningNetworkDisabled && access.RequiresProvisioningNetwork {
		return report(metal3.InvalidAddressReason, fmt.Sprintf("the BMC address %s needs a provisioning network, and this installation has none: use virtual media", host.Spec.BMC.Address))
	}
	if s.SameBMC != "" {
		step, failed := report(metal3.BMCInUseReason, s.SameBMC)
		step.After, step.Elsewhere = bmcInUsePause, s.SameBMCElsewhere
		if step.Do == Wait && hasUselessNode(s) {
			step = s.retryDetach(Step{Do: DeleteNode, Error: metal3.RegistrationError})
		}
		return step, failed
	}
	if host.Spec.BMC.CredentialsName == "" {
		return report(metal3.SecretNotFoundReason, "spec.bmc.credentialsName is empty: name a Secret with username and password of the BMC")
	}
	if s.SecretVersion == "" {
		return missing(host.Spec.BMC.CredentialsName, metal3.SecretNotFoundReason, fmt.Sprintf("Secret %q with the BMC's credentials does not exist in namespace %q", host.Spec.BMC.CredentialsName, host.Namespace))
	}
	// A node on which Ironic is working, or that is deployed, does not need the network data now.
	if host.Spec.PreprovisioningNetworkDataName != "" && s.NetworkVersion == "" && (s.node == nil || IsIdle(s.node.ProvisionState)) {
		return missing(host.Spec.PreprovisioningNetworkDataName, metal3.NetworkDataUnusableReason, MissingNetworkData(host))
	}
	return Step{}, false
}

// hasUselessNode reports whether the host, whose BMC is another's, has a node of its own, for which Ironic has verified the BMC, too: they
// were registered at the same moment. While it is there, nobody knows who uses the machine through it, and the other host waits. It
// goes if this server has made it for this host, and nothing was done through it. (With the server of another cluster it is not known
// who gives way.)
func hasUselessNode(s Situation) bool {
	host, node := s.Host, s.node
	return s.BMCRegistered && node != nil && IsEnrolling(host) && host.DeletionTimestamp.IsZero() && !usesMachine(host) && isNew(host) &&
		isMarkedAs(host, node) && s.Cluster != "" && node.MarkedCluster == s.Cluster &&
		node.ProvisionState == ironic.Manageable && (node.InstanceUUID == "" || IsOwnInstance(host, node.UUID, node.InstanceUUID)) && !node.Maintenance && !node.IsLocked()
}

// reportOnce returns the step that reports why a host cannot be registered, or a wait if that has been
// reported.
func reportOnce(host *metal3.BareMetalHost, reason, message string) Step {
	if isRegistrationRecorded(host, reason, message) {
		return Step{Do: Wait}
	}
	return Step{Do: Report, Reason: reason, Message: message}
}

// MissingNetworkData returns the message for a missing Secret with the network data of the
// ramdisk.
func MissingNetworkData(host *metal3.BareMetalHost) string {
	return fmt.Sprintf("Secret %q with the ramdisk's network (spec.preprovisioningNetworkDataName) does not exist in namespace %q", host.Spec.PreprovisioningNetworkDataName, host.Namespace)
}

// isUpdatable reports whether Ironic permits changes of the node and its ports in its state.
func isUpdatable(node *Node) bool { return !node.ProvisionState.IsInTransit() }

// isRefused reports whether the last attempt to register the host was refused for a reason that
// only somebody else can remove.
func isRefused(host *metal3.BareMetalHost) bool {
	r := host.Status.Record.Registration
	if r == nil {
		return false
	}
	switch r.Reason {
	case metal3.SecretIncompleteReason, metal3.NetworkDataUnusableReason, metal3.AddressNotAllowedReason, metal3.IronicRefusedReason,
		metal3.PortConflictReason, metal3.RequestFailedReason, metal3.ImageNotBuiltReason:
		return true
	}
	return false
}

// IsIdle reports whether Ironic accepts all parts of a registration of a node in this state. It refuses
// another inspect_interface in a failed state, and a deployed node keeps the settings with which
// it was deployed.
func IsIdle(state ironic.ProvisionState) bool {
	switch state {
	case ironic.Enroll, ironic.Manageable, ironic.Available:
		return true
	}
	return false
}

// isDueWhenIdle reports whether a part of the registration is postponed until the node is idle.
func isDueWhenIdle(host *metal3.BareMetalHost) bool {
	with := host.Status.Record.RegisteredWith
	return with != nil && with.DueWhenIdle
}

// isRegistered reports whether the node was registered with the present spec, Secrets and settings.
func isRegistered(s Situation) bool {
	host := s.Host
	r, with := host.Status.Record.Registration, host.Status.Record.RegisteredWith
	if r == nil || r.Reason != metal3.RegisteredReason || r.Generation != host.Generation {
		return false
	}
	switch {
	case with == nil, with.SettingsDigest != s.SettingsDigest:
		return false
	case with.DueWhenIdle && IsIdle(s.node.ProvisionState):
		return false
	case !with.DueWhenIdle && with.NetworkDataVersion != s.NetworkVersion: // only idle nodes are given network data
		return false
	case s.node.IsLockedByItself() && !with.PowerSupply, !isImageRegistered(s, with):
		return false
	}
	tried := host.Status.TriedCredentials
	if tried.Reference == nil || tried.Reference.Name != host.Spec.BMC.CredentialsName {
		return false
	}
	return !IsNewerVersion(s.SecretVersion, tried.Version)
}

// IsNewerVersion reports whether the resourceVersion version is later than tried. It may be earlier,
// because an informer lags behind the server's own writes of a Secret's label, owner and finalizer.
func IsNewerVersion(version, tried string) bool {
	order, err := resourceversion.CompareResourceVersion(version, tried)
	if err != nil {
		return version != tried
	}
	return order > 0
}
