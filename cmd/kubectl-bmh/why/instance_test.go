// SPDX-License-Identifier: Apache-2.0

package why

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ironicapi "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
)

func TestExplainInstance(t *testing.T) {
	four := metav1.NewTime(now.Add(-4 * time.Minute))
	second := metav1.NewTime(now.Add(-3 * time.Second))
	is := func(conditionType string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message, LastTransitionTime: four}
	}
	accepted := is(ironicapi.IronicInstanceAccepted, metav1.ConditionTrue, "Accepted", "The server can use it")
	notAsked := is(ironicapi.IronicInstanceReachable, metav1.ConditionUnknown, "NotAccepted", "Ironic is not asked")
	silent := func(reason, message string) []metav1.Condition {
		return []metav1.Condition{accepted, is(ironicapi.IronicInstanceReachable, metav1.ConditionFalse, reason, message)}
	}
	unusable := func(reason, message string) []metav1.Condition {
		return []metav1.Condition{is(ironicapi.IronicInstanceAccepted, metav1.ConditionFalse, reason, message), notAsked}
	}
	const edit = "kubectl edit ironicinstances.ironic.metal3-apiserver.io room-b"
	for name, test := range map[string]struct {
		spec   ironicapi.IronicInstanceSpec
		status ironicapi.IronicInstanceStatus
		want   []string
	}{
		"all is well": {
			ironicapi.IronicInstanceSpec{Endpoint: "https://b"},
			ironicapi.IronicInstanceStatus{
				Conditions: []metav1.Condition{accepted, is(ironicapi.IronicInstanceReachable, metav1.ConditionTrue, "Answers", "Ironic answered within 4 ms")},
				APIVersion: "1.96", Conductors: new(int32(2)), Nodes: new(int32(412)), Hosts: 398, HostsByState: map[string]int32{"available": 9, "provisioned": 380, "preparing": 9}, ObservedAt: &second,
			},
			[]string{
				"room-b has answered for 4m: version 1.96 of its API, 2 conductors, 412 nodes.",
				"398 hosts have their nodes in it: 380 provisioned, 9 available, 9 preparing. They were last observed 3s ago.",
			},
		},
		"new, the default, conductors are secret": {
			ironicapi.IronicInstanceSpec{Endpoint: "https://b", Default: true},
			ironicapi.IronicInstanceStatus{Conditions: []metav1.Condition{accepted, is(ironicapi.IronicInstanceReachable, metav1.ConditionTrue, "Answers", "")}, APIVersion: "1.96"},
			[]string{
				"room-b has answered for 4m: version 1.96 of its API.",
				"No host has its node in it. New hosts that no IronicInstance selects are its own.",
			},
		},
		"one host, not observed": {
			ironicapi.IronicInstanceSpec{Endpoint: "https://b"},
			ironicapi.IronicInstanceStatus{Conditions: []metav1.Condition{accepted, is(ironicapi.IronicInstanceReachable, metav1.ConditionTrue, "Answers", "")}, Nodes: new(int32(1)), Hosts: 1},
			[]string{
				"room-b has answered for 4m: 1 node.",
				"1 host has its node in it. The replica of the server that has answered has not observed it yet.",
			},
		},
		"away": {
			ironicapi.IronicInstanceSpec{Endpoint: "https://b"},
			ironicapi.IronicInstanceStatus{Conditions: silent("Unreachable", "connection refused"), Hosts: 117, HostsByState: map[string]int32{"provisioned": 117}, ObservedAt: &four},
			[]string{
				"room-b has not answered for 4m (Unreachable): connection refused.",
				"117 hosts have their nodes in it: 117 provisioned. They were last observed 4m ago, and nothing is done for them until Ironic answers.",
				"Check that Ironic runs, that https://b is where it is, that the pods of metal3-apiserver may connect to it, and, for https, that spec.caBundle has the authority that signed its certificate. It goes on by itself when Ironic is back.",
			},
		},
		"away, and its Ironic object is not ready": {
			ironicapi.IronicInstanceSpec{IronicRef: &ironicapi.IronicReference{Name: "ironic"}},
			ironicapi.IronicInstanceStatus{
				Endpoint: "https://ironic.metal3-system.svc", Hosts: 2,
				Conditions: append(silent("Unreachable", "timeout"), is(ironicapi.IronicInstanceIronicReady, metav1.ConditionFalse, "DeploymentInProgress", "no pods")),
			},
			[]string{
				"room-b has not answered for 4m (Unreachable): timeout.",
				"Its Ironic object is not ready (DeploymentInProgress): no pods.",
				"2 hosts have their nodes in it. What is shown was recorded earlier, and nothing is done for them.",
				"Check that Ironic runs, that https://ironic.metal3-system.svc is where it is, that the pods of metal3-apiserver may connect to it, and, for https, that spec.caBundle has the authority that signed its certificate. It goes on by itself when Ironic is back.",
			},
		},
		"no Ironic object": {
			ironicapi.IronicInstanceSpec{IronicRef: &ironicapi.IronicReference{Name: "ironic"}},
			ironicapi.IronicInstanceStatus{Conditions: unusable("IronicNotFound", "not found")},
			[]string{
				"room-b has not been usable for 4m (IronicNotFound): not found.", "No host has its node in it.",
				"Create the Ironic object, permit the server to get it, or name another one in spec.ironicRef: " + edit,
			},
		},
		"wrong password in the Secret of the Ironic object": {
			ironicapi.IronicInstanceSpec{IronicRef: &ironicapi.IronicReference{Name: "ironic"}},
			ironicapi.IronicInstanceStatus{Conditions: silent("Refused", "HTTP 401")},
			[]string{
				"room-b has not answered for 4m (Refused): HTTP 401.", "No host has its node in it.",
				"Correct the user name or the password in the Secret that the Ironic object names, or what the user may do in Ironic.",
			},
		},
		"away, in a cloud": {
			ironicapi.IronicInstanceSpec{Cloud: "west", CredentialsName: "clouds"},
			ironicapi.IronicInstanceStatus{Conditions: silent("Unreachable", "timeout"), Hosts: 2},
			[]string{
				"room-b has not answered for 4m (Unreachable): timeout.",
				"2 hosts have their nodes in it. What is shown was recorded earlier, and nothing is done for them.",
				"Check that Ironic runs, that the cloud west is where it is, that the pods of metal3-apiserver may connect to it, and, for https, that spec.caBundle has the authority that signed its certificate. It goes on by itself when Ironic is back.",
			},
		},
		"wrong password": {
			ironicapi.IronicInstanceSpec{Endpoint: "https://b", CredentialsName: "b"},
			ironicapi.IronicInstanceStatus{Conditions: silent("Refused", "HTTP 401")},
			[]string{
				"room-b has not answered for 4m (Refused): HTTP 401.", "No host has its node in it.",
				"Correct the user name or the password in the Secret b in the namespace of the server, or what the user may do in Ironic.",
			},
		},
		"no password": {
			ironicapi.IronicInstanceSpec{Endpoint: "https://b"},
			ironicapi.IronicInstanceStatus{Conditions: silent("Refused", "HTTP 401")},
			[]string{
				"room-b has not answered for 4m (Refused): HTTP 401.", "No host has its node in it.",
				"The server does not authenticate, because spec.credentialsName is missing. Name a Secret there: " + edit,
			},
		},
		"no Secret": {
			ironicapi.IronicInstanceSpec{Endpoint: "https://b", CredentialsName: "b"},
			ironicapi.IronicInstanceStatus{Conditions: unusable("SecretNotFound", `secrets "b" not found`)},
			[]string{
				`room-b has not been usable for 4m (SecretNotFound): secrets "b" not found.`, "No host has its node in it.",
				"Create the Secret b in the namespace of the server, or permit the server to read it there.",
			},
		},
		"wrong Secret": {
			ironicapi.IronicInstanceSpec{Endpoint: "https://b", CredentialsName: "b"},
			ironicapi.IronicInstanceStatus{Conditions: unusable("SecretInvalid", "the Secret has no username, or no password")},
			[]string{
				"room-b has not been usable for 4m (SecretInvalid): the Secret has no username, or no password.", "No host has its node in it.",
				"Correct the Secret b in the namespace of the server, or the spec: " + edit,
			},
		},
		"wrong spec": {
			ironicapi.IronicInstanceSpec{Endpoint: "https://b"},
			ironicapi.IronicInstanceStatus{Conditions: unusable("Unusable", "no certificate in caBundle")},
			[]string{"room-b has not been usable for 4m (Unusable): no certificate in caBundle.", "No host has its node in it.", "Correct the spec: " + edit},
		},
		"a twin": {
			ironicapi.IronicInstanceSpec{Endpoint: "https://b"},
			ironicapi.IronicInstanceStatus{Conditions: unusable("SameEndpoint", `this is the endpoint of IronicInstance "a", too`)},
			[]string{
				`room-b has not been usable for 4m (SameEndpoint): this is the endpoint of IronicInstance "a", too.`, "No host has its node in it.",
				"An Ironic can have only one IronicInstance. Correct the endpoint that is wrong, or delete the IronicInstance that has no hosts: " + edit,
			},
		},
		"just created": {
			ironicapi.IronicInstanceSpec{Endpoint: "https://b"},
			ironicapi.IronicInstanceStatus{Conditions: []metav1.Condition{is(ironicapi.IronicInstanceAccepted, metav1.ConditionUnknown, "NotKnownYet", "the server has not read it yet"), notAsked}},
			[]string{
				"room-b is not known yet to the replica of the server that has answered: the server has not read it yet.", "No host has its node in it.",
				"Look again in a moment.",
			},
		},
		"a server that says nothing": {
			want: []string{"room-b: the server says nothing about it.", "No host has its node in it."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			instance := &ironicapi.IronicInstance{ObjectMeta: metav1.ObjectMeta{Name: "room-b"}, Spec: test.spec, Status: test.status}
			if diff := cmp.Diff(test.want, ExplainInstance(instance, now)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
