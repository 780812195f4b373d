package lifecycle

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// SetRegistered records that the node has been registered according to the present spec, and
// with what else.
func SetRegistered(host *metal3.BareMetalHost, with metal3.RegisteredWith, now time.Time) {
	host.Status.RegisteredWith = &with
	message := ""
	if with.DueWhenIdle {
		message = "What Ironic accepts only for an idle node is registered when the node is idle"
	}
	SetCondition(&host.Status, host, metav1.Condition{
		Type: metal3.RegisteredCondition, Status: metav1.ConditionTrue, Reason: metal3.RegisteredReason, Message: message,
	}, now)
}

// registeredWith returns what the host's node was registered with, or nil if that is not known.
//
// The first releases recorded it in the message of the condition Registered. It is parsed here
// so that an upgrade does not register those hosts again: a PATCH makes Ironic 29.0.5 take the
// node for its own parent.
func registeredWith(status *metal3.BareMetalHostStatus) *metal3.RegisteredWith {
	if status.RegisteredWith != nil {
		return status.RegisteredWith
	}
	c := findCondition(status, metal3.RegisteredCondition)
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	return parseFormerMessage(c.Message)
}

// parseFormerMessage parses the message that the first releases wrote, and returns nil for any
// other:
//
//	with the settings DIGEST of the ramdisk[, and the network data VERSION]
//	[, and with a power supply][; what only an idle node can be told is due]
func parseFormerMessage(message string) *metal3.RegisteredWith {
	with := &metal3.RegisteredWith{}
	message, with.DueWhenIdle = strings.CutSuffix(message, "; what only an idle node can be told is due")
	message, with.PowerSupply = strings.CutSuffix(message, ", and with a power supply")
	message, with.NetworkDataVersion, _ = strings.Cut(message, ", and the network data ")
	message, isFormer := strings.CutPrefix(message, "with the settings ")
	digest, complete := strings.CutSuffix(message, " of the ramdisk")
	if !isFormer || !complete {
		return nil
	}
	with.SettingsDigest = digest
	return with
}
