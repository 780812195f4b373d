// SPDX-License-Identifier: Apache-2.0

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
	if host.IsDetached() {
		state += " (detached)"
	}
	return state
}

// Power returns "on", "off" or "", and while Ironic changes it, where it is going: "on→off". A
// power that is not as the spec asks for ends in "!". A machine that is off, and may come on by a request that Ironic has not
// answered, is "off?".
func Power(host *metal3.BareMetalHost) string {
	ironic := host.Status.Ironic
	if ironic == nil {
		return ""
	}
	power := powerWord(ironic.PowerState)
	if target := powerWord(ironic.TargetPowerState); target != "" && target != power {
		return power + "→" + target
	}
	if power == "off" && mayComeOn(host) {
		return "off?"
	}
	isKnown := power == "on" || power == "off"
	if isKnown && !IsBusy(host) && !host.IsDetached() && (power == "on") != host.Spec.Online {
		power += "!"
	}
	return power
}

// mayComeOn reports whether a machine that is off may come on by a request to Ironic that has no answer: status.poweredOn says so then, for
// those who fence it.
func mayComeOn(host *metal3.BareMetalHost) bool {
	return host.Status.PoweredOn && !IsBusy(host) && !host.IsDetached()
}

// PowerChange says in words how Ironic is changing the power, or returns an empty text if it does not.
func PowerChange(host *metal3.BareMetalHost) string {
	ironic := host.Status.Ironic
	if ironic == nil || ironic.TargetPowerState == "" || ironic.Forgotten {
		return ""
	}
	from, to := powerWord(ironic.PowerState), powerWord(ironic.TargetPowerState)
	switch {
	case to == "reboot":
		return "rebooting it"
	case from == "" || from == to:
		return "switching it " + to
	}
	return "changing its power from " + from + " to " + to
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
		return IsServiced(host) || host.DeletionTimestamp != nil || isMoving(host)
	}
	return !host.IsDetached()
}

// IsServiced reports whether settings of the host are being changed, or a failed change has not been left: its ramdisk
// may still run then. The operational status of such a host is that of its error.
func IsServiced(host *metal3.BareMetalHost) bool {
	service := host.Status.Record.Servicing
	return host.Status.OperationalStatus == metal3.OperationalStatusServicing || service != nil && service.EndedAt == nil
}

// isMoving reports whether the host is on its way to another Ironic, or is not adopted there yet.
func isMoving(host *metal3.BareMetalHost) bool {
	if host.Status.Record.Transfer != nil {
		return true
	}
	c := Condition(host, metal3.RegisteredCondition)
	lost := host.Status.Ironic == nil && c != nil && c.Status == metav1.ConditionFalse && c.Reason == metal3.NodeLostReason
	d := host.Status.Record.Deployment
	return lost || d != nil && d.MayAdopt && !host.IsDetached() // a detached host is adopted only when it comes back
}

// Condition returns a condition of the host, or nil.
func Condition(host *metal3.BareMetalHost, conditionType string) *metav1.Condition {
	return meta.FindStatusCondition(host.Status.Conditions, conditionType)
}

// Since returns when the host came into its present state, or the zero time if that was not
// recorded.
func Since(host *metal3.BareMetalHost) time.Time {
	state := host.Status.Record.State
	switch {
	case host.DeletionTimestamp != nil:
		return host.DeletionTimestamp.Time
	case host.Status.Provisioning.State == metal3.StateNone:
		return host.CreationTimestamp.Time
	case state != nil && state.Name == host.Status.Provisioning.State:
		return state.Since.Time
	}
	return time.Time{}
}
