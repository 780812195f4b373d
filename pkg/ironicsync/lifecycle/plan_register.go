package lifecycle

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

// nextToRegister brings Ironic in step with the spec and the Secret. It returns
// true when there is a node, nobody works on it, and it is in step.
func nextToRegister(s Situation) (Step, bool) {
	host, node := s.Host, s.Node
	if step, failed := registrable(s); failed {
		return step, false
	}
	if host.Status.Provisioning.ID == "" {
		return Step{Do: FindNode}, false
	}
	if isRefused(host) && s.Hold > 0 {
		return Step{Do: Wait, After: s.Hold}, false
	}
	switch {
	case node == nil:
		return Step{Do: CreateNode, Retry: isRefused(host)}, false
	case node.Reservation != "":
		return Step{Do: Wait}, false // a conductor works on it; the end of that is an event
	case !isRegistered(s) && isUpdatable(node):
		return Step{Do: Register, Retry: isRefused(host)}, false
	}
	return Step{}, true
}

// bmcInUsePause is when to look again whether a BMC is free, if no event tells.
const bmcInUsePause = 30 * time.Second

// registrable finds what keeps the host from being registered, as far as can be
// told without asking Ironic.
func registrable(s Situation) (Step, bool) {
	host := s.Host
	report := func(reason, message string) (Step, bool) {
		if c := findCondition(&host.Status, metal3.RegisteredCondition); c != nil && c.Reason == reason && c.Message == CutMessage(message) {
			return Step{Do: Wait}, true
		}
		return Step{Do: Report, Reason: reason, Message: message}, true
	}
	missing := func(secret, message string) (Step, bool) {
		step, failed := report(metal3.SecretNotFoundReason, message)
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
		step.After = bmcInUsePause
		return step, failed
	}
	if host.Spec.BMC.CredentialsName == "" {
		return report(metal3.SecretNotFoundReason, "spec.bmc.credentialsName is empty: name a Secret with username and password of the BMC")
	}
	if s.SecretVersion == "" {
		return missing(host.Spec.BMC.CredentialsName, fmt.Sprintf("Secret %q with the BMC's credentials does not exist in namespace %q", host.Spec.BMC.CredentialsName, host.Namespace))
	}
	// A node at work, or deployed, has its network already.
	if host.Spec.PreprovisioningNetworkDataName != "" && s.NetworkVersion == "" && (s.Node == nil || IsIdle(s.Node)) {
		return missing(host.Spec.PreprovisioningNetworkDataName, MissingNetworkData(host))
	}
	return Step{}, false
}

func MissingNetworkData(host *metal3.BareMetalHost) string {
	return fmt.Sprintf("Secret %q with the ramdisk's network (spec.preprovisioningNetworkDataName) does not exist in namespace %q", host.Spec.PreprovisioningNetworkDataName, host.Namespace)
}

// isUpdatable tells whether Ironic lets the node and its ports be changed now.
func isUpdatable(node *ironic.Node) bool { return !node.ProvisionState.IsInTransit() }

// isRefused tells whether the last try to register met a refusal that only
// somebody else can lift.
func isRefused(host *metal3.BareMetalHost) bool {
	c := findCondition(&host.Status, metal3.RegisteredCondition)
	if c == nil || c.Status != metav1.ConditionFalse {
		return false
	}
	switch c.Reason {
	case metal3.SecretIncompleteReason, metal3.AddressNotAllowedReason, metal3.IronicRefusedReason, metal3.PortConflictReason, metal3.RequestFailedReason:
		return true
	}
	return false
}

// isLockedByItself tells whether Ironic 29.0.5 could not switch a node on that is its
// own parent, by an operator's PATCH, as it has locked it already.
func isLockedByItself(node *ironic.Node) bool {
	return node.IsOwnParent() && strings.Contains(node.LastError, "parent_node") && strings.Contains(node.LastError, "locked")
}

// IsIdle tells whether the node is in a state in which Ironic takes all that a
// registration has: it refuses another inspect_interface in a failed state, and a
// deployed node keeps what it was deployed with.
func IsIdle(node *ironic.Node) bool {
	switch node.ProvisionState {
	case ironic.Enroll, ironic.Manageable, ironic.Available:
		return true
	}
	return false
}

// isDue tells whether a part of the registration waits for the node to be idle.
func isDue(host *metal3.BareMetalHost) bool {
	with := registeredWith(&host.Status)
	return with != nil && with.DueWhenIdle
}

// isRegistered tells whether what Ironic has is in step with the spec, the Secrets
// and our settings.
func isRegistered(s Situation) bool {
	host := s.Host
	c := findCondition(&host.Status, metal3.RegisteredCondition)
	if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != host.Generation {
		return false
	}
	with := registeredWith(&host.Status)
	switch {
	case with == nil, with.SettingsDigest != s.SettingsDigest:
		return false
	case with.DueWhenIdle && IsIdle(s.Node):
		return false
	case !with.DueWhenIdle && with.NetworkDataVersion != s.NetworkVersion: // which is for idle nodes
		return false
	case isLockedByItself(s.Node) && !with.PowerSupply:
		return false
	}
	tried := host.Status.TriedCredentials
	if tried.Reference == nil || tried.Reference.Name != host.Spec.BMC.CredentialsName {
		return false
	}
	return !IsNewerVersion(s.SecretVersion, tried.Version)
}

// newer tells whether version is later than tried. What the informer has may lag
// behind our own write of the Secret's label, owner and finalizer.
func IsNewerVersion(version, tried string) bool {
	order, err := resourceversion.CompareResourceVersion(version, tried)
	if err != nil {
		return version != tried
	}
	return order > 0
}
