// Package hosts puts the state of a BareMetalHost into a few words for people. It only
// computes: it reads no clock and asks nobody.
package hosts

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// Ironic's words for power.
const (
	ironicPowerOn  = "power on"
	ironicPowerOff = "power off"
)

// State returns the provisioning state of a host, which is "new" for a host that nobody has
// processed yet.
func State(host *metal3.BareMetalHost) string {
	state := string(host.Status.Provisioning.State)
	if state == "" {
		state = "new"
	}
	if IsDetached(host) {
		state += " (detached)"
	}
	return state
}

// Power returns "on", "off" or "", and while Ironic changes it, where it is going: "on→off". A
// power that is not as the spec asks for ends in "!".
func Power(host *metal3.BareMetalHost) string {
	ironic := host.Status.Ironic
	if ironic == nil {
		return ""
	}
	power := powerWord(ironic.PowerState)
	if target := powerWord(ironic.TargetPowerState); target != "" && target != power {
		return power + "→" + target
	}
	isKnown := power == "on" || power == "off"
	if isKnown && !IsBusy(host) && !IsDetached(host) && (power == "on") != host.Spec.Online {
		power += "!"
	}
	return power
}

func powerWord(state string) string {
	switch state {
	case ironicPowerOn:
		return "on"
	case ironicPowerOff, "soft power off":
		return "off"
	case "rebooting", "soft rebooting":
		return "reboot"
	}
	return state
}

// IsBusy reports whether the host is on its way to another state.
func IsBusy(host *metal3.BareMetalHost) bool {
	switch host.Status.Provisioning.State {
	case metal3.StateNone, metal3.StateUnmanaged, metal3.StateAvailable, metal3.StateReady,
		metal3.StateProvisioned, metal3.StateExternallyProvisioned:
		return host.Status.OperationalStatus == metal3.OperationalStatusServicing || host.DeletionTimestamp != nil
	}
	return !IsDetached(host)
}

// IsDetached reports whether the host was removed from Ironic on request.
func IsDetached(host *metal3.BareMetalHost) bool {
	return host.Status.OperationalStatus == metal3.OperationalStatusDetached
}

// Condition returns a condition of the host, or nil.
func Condition(host *metal3.BareMetalHost, conditionType string) *metav1.Condition {
	return meta.FindStatusCondition(host.Status.Conditions, conditionType)
}

// Since returns when the host came into its present state, or the zero time if that was not
// recorded.
func Since(host *metal3.BareMetalHost) time.Time {
	if host.DeletionTimestamp != nil {
		return host.DeletionTimestamp.Time
	}
	history := &host.Status.OperationHistory
	switch host.Status.Provisioning.State {
	case metal3.StateNone:
		return host.CreationTimestamp.Time
	case metal3.StateRegistering:
		return firstTime(history.Register.Start.Time, host.CreationTimestamp.Time)
	case metal3.StateInspecting:
		return history.Inspect.Start.Time
	case metal3.StateProvisioning:
		return history.Provision.Start.Time
	case metal3.StateDeprovisioning:
		return history.Deprovision.Start.Time
	case metal3.StateProvisioned, metal3.StateExternallyProvisioned:
		return transition(host, metal3.ProvisionedCondition)
	case metal3.StateAvailable, metal3.StateReady:
		return transition(host, metal3.AvailableForProvisioningCondition)
	}
	return transition(host, metal3.ProgressingCondition)
}

func transition(host *metal3.BareMetalHost, conditionType string) time.Time {
	if c := Condition(host, conditionType); c != nil {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

func firstTime(times ...time.Time) time.Time {
	for _, t := range times {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}
