// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ironicapi "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
)

// ExplainInstance says in paragraphs whether the server can use an IronicInstance and its Ironic answers, which hosts it has, and
// what would help.
func ExplainInstance(instance *ironicapi.IronicInstance, now time.Time) []string {
	e := &explanation{now: now}
	status := &instance.Status
	accepted := meta.FindStatusCondition(status.Conditions, ironicapi.IronicInstanceAccepted)
	reachable := meta.FindStatusCondition(status.Conditions, ironicapi.IronicInstanceReachable)
	switch {
	case accepted == nil || reachable == nil:
		e.explain("%s: the server says nothing about it.", instance.Name)
	case accepted.Status == metav1.ConditionUnknown:
		e.explain("%s is not known yet to the replica of the server that has answered: %s.", instance.Name, e.quote(accepted.Message))
	case accepted.Status == metav1.ConditionFalse:
		e.explain("%s has not been usable%s (%s): %s.", instance.Name, e.lasting(accepted.LastTransitionTime.Time), accepted.Reason, e.quote(accepted.Message))
	case reachable.Status == metav1.ConditionFalse:
		e.explain("%s has not answered%s (%s): %s.", instance.Name, e.lasting(reachable.LastTransitionTime.Time), reachable.Reason, e.quote(reachable.Message))
	default:
		e.say("%s has answered%s%s.", instance.Name, e.lasting(reachable.LastTransitionTime.Time), numbersOf(status))
	}
	if ready := meta.FindStatusCondition(status.Conditions, ironicapi.IronicInstanceIronicReady); ready != nil && ready.Status != metav1.ConditionTrue {
		e.say("Its Ironic object is not ready (%s): %s.", ready.Reason, e.quote(ready.Message))
	}
	e.say("%s", e.hostsOf(instance))
	if e.isExplained {
		for _, help := range instanceHelp(instance, accepted, reachable) {
			e.say("%s", help)
		}
	}
	return e.paragraphs
}

// numbersOf returns for example ": version 1.96 of its API, 2 conductors, 412 nodes".
func numbersOf(status *ironicapi.IronicInstanceStatus) string {
	var parts []string
	if status.APIVersion != "" {
		parts = append(parts, "version "+status.APIVersion+" of its API")
	}
	if n := status.Conductors; n != nil {
		parts = append(parts, count(*n, "conductor"))
	}
	if n := status.Nodes; n != nil {
		parts = append(parts, count(*n, "node"))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

func count(n int32, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// hostsOf says which hosts an Ironic has, and how old what is shown of them may be.
func (e *explanation) hostsOf(instance *ironicapi.IronicInstance) string {
	status := &instance.Status
	future := ""
	if instance.Spec.Default {
		future = " New hosts that no IronicInstance selects are its own."
	}
	if status.Hosts == 0 {
		return "No host has its node in it." + future
	}
	text, they, them := count(status.Hosts, "host")+" have their nodes in it", "They were", "them"
	if status.Hosts == 1 {
		text, they, them = "1 host has its node in it", "It was", "it"
	}
	if states := statesOf(status.HostsByState); states != "" {
		text += ": " + states
	}
	switch observed := status.ObservedAt; {
	case observed.IsZero() && e.isExplained:
		text += ". What is shown was recorded earlier, and nothing is done for " + them
	case observed.IsZero():
		text += ". The replica of the server that has answered has not observed " + them + " yet"
	case e.isExplained:
		text += ". " + they + " last observed " + e.ago(observed.Time) + ", and nothing is done for " + them + " until Ironic answers"
	default:
		text += ". " + they + " last observed " + e.ago(observed.Time)
	}
	return text + "." + future
}

// statesOf returns for example "380 provisioned, 18 available".
func statesOf(hostsByState map[string]int32) string {
	type state struct {
		name  string
		hosts int32
	}
	var states []state
	for name, n := range hostsByState {
		states = append(states, state{name, n})
	}
	slices.SortFunc(states, func(a, b state) int { return cmp.Or(cmp.Compare(b.hosts, a.hosts), cmp.Compare(a.name, b.name)) })
	texts := make([]string, len(states))
	for i, s := range states {
		texts[i] = fmt.Sprintf("%d %s", s.hosts, s.name)
	}
	return strings.Join(texts, ", ")
}

// instanceHelp says what would help against what keeps the server from using an Ironic.
func instanceHelp(instance *ironicapi.IronicInstance, accepted, reachable *metav1.Condition) []string {
	edit := "kubectl edit ironicinstances.ironic.metal3-apiserver.io " + instance.Name
	secret, ofObject := instance.Spec.CredentialsName, instance.Spec.IronicRef != nil
	switch {
	case accepted == nil || reachable == nil:
		return nil
	case accepted.Reason == ironicapi.NotKnownYetReason:
		return []string{"Look again in a moment."}
	case accepted.Reason == ironicapi.IronicNotFoundReason:
		return []string{"Create the Ironic object, permit the server to get it, or name another one in spec.ironicRef: " + edit}
	case accepted.Reason == ironicapi.IronicNotReadyReason:
		return []string{"Check that the Ironic Standalone Operator runs. It goes on by itself when the operator has named the Secret."}
	case ofObject && accepted.Reason == ironicapi.SecretNotFoundReason:
		return []string{"Create the Secret that the Ironic object names, or permit the server to get it."}
	case ofObject && accepted.Reason == ironicapi.SecretInvalidReason:
		return []string{"Correct the Secret that the Ironic object names."}
	case ofObject && reachable.Reason == ironicapi.RefusedReason:
		return []string{"Correct the user name or the password in the Secret that the Ironic object names, or what the user may do in Ironic."}
	case accepted.Reason == ironicapi.SecretNotFoundReason:
		return []string{fmt.Sprintf("Create the Secret %s in the namespace of the server, or permit the server to read it there.", secret)}
	case accepted.Reason == ironicapi.SameEndpointReason:
		return []string{"An Ironic can have only one IronicInstance. Correct the endpoint that is wrong, or delete the IronicInstance that has no hosts: " + edit}
	case accepted.Status != metav1.ConditionTrue && secret != "":
		return []string{fmt.Sprintf("Correct the Secret %s in the namespace of the server, or the spec: %s", secret, edit)}
	case accepted.Status != metav1.ConditionTrue:
		return []string{"Correct the spec: " + edit}
	case reachable.Reason == ironicapi.RefusedReason && secret == "":
		return []string{"The server does not authenticate, because spec.credentialsName is missing. Name a Secret there: " + edit}
	case reachable.Reason == ironicapi.RefusedReason:
		return []string{fmt.Sprintf("Correct the user name or the password in the Secret %s in the namespace of the server, or what the user may do in Ironic.", secret)}
	}
	address := "the cloud " + instance.Spec.Cloud
	if endpoint := cmp.Or(instance.Spec.Endpoint, instance.Status.Endpoint); endpoint != "" {
		address = endpoint
	}
	return []string{fmt.Sprintf("Check that Ironic runs, that %s is where it is, that the pods of metal3-apiserver may connect to it, and, for https, that spec.caBundle has the authority that signed its certificate. It goes on by itself when Ironic is back.", address)}
}
