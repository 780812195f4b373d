// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"cmp"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// silence is the error of a refresh that tells why Ironic tells nothing of the host, since it was last observed; zero if it never was.
// It is nil if Ironic is not the cause.
type silence interface{ Silence() *metal3.Silence }

// showSilence returns a host as it is recorded with the condition IronicReachable=False, if err says that Ironic tells nothing of it.
// Nothing is written for that: the leader records the condition when Ironic has been away for a grace period.
//
// It is for GET only. What a LIST or a watch has shown, informers keep until there is another resourceVersion, which a host that has
// not changed in Ironic never gets: they would go on showing it long after Ironic is back.
func showSilence(host *metal3.BareMetalHost, err error) *metal3.BareMetalHost {
	var silent silence
	if !errors.As(err, &silent) || host.Status.Provisioning.ID == "" || host.IsDetached() ||
		meta.IsStatusConditionFalse(host.Status.Conditions, metal3.IronicReachableCondition) {
		return host
	}
	silence := silent.Silence()
	if silence == nil {
		return host
	}
	reason, lead, observed := silence.ConditionReason(), "Ironic cannot be asked", silence.Since.Time
	switch {
	case reason == metal3.NodeUnreadableReason:
		lead = "Ironic answers, but has failed to show the node of this host"
	case ironic.IsInternal(err): // whether it fails to show the others, too, is not known
		lead = "Ironic has failed to show the node of this host"
	}
	message := lead + ": " + silence.Reason
	if !observed.IsZero() {
		message += "; the status is as of " + observed.UTC().Format(time.RFC3339)
	}
	shown := host.DeepCopy() // it may share memory with the watch cache
	meta.SetStatusCondition(&shown.Status.Conditions, metav1.Condition{
		Type: metal3.IronicReachableCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message,
		LastTransitionTime: metav1.NewTime(cmp.Or(observed, time.Now()).Truncate(time.Second)), ObservedGeneration: shown.Generation,
	})
	return shown
}
