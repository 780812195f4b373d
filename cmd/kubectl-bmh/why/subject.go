// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/failure"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/hosts"
)

// subject is the host that is explained.
type subject struct{ host *metal3.BareMetalHost }

// condition returns a condition if it has that status.
func (s subject) condition(conditionType string, status metav1.ConditionStatus) *metav1.Condition {
	if c := hosts.Condition(s.host, conditionType); c != nil && c.Status == status {
		return c
	}
	return nil
}

// ironicState returns the provision state of the node, empty if there is none.
func (s subject) ironicState() string {
	if s.host.Status.Ironic == nil {
		return ""
	}
	return s.host.Status.Ironic.ProvisionState
}

// errorSince returns since when the host has an error, as far as that was recorded.
func (s subject) errorSince() time.Time {
	if c := s.condition(metal3.ReadyCondition, metav1.ConditionFalse); c != nil && c.Reason == metal3.ErrorReason {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// rendered returns what a condition says as the host's error has it: there, the server has put a short sentence in front.
func (s subject) rendered(message string) string {
	if shown := s.host.Status.ErrorMessage; strings.HasSuffix(shown, message) {
		return shown
	}
	return message
}

// said returns an error with a sentence in front that says what has happened.
func (s subject) said(message string) string { return failure.Lead(s.rendered(message), "") }

// command returns a command of this plugin for the host. It names the namespace, since nobody knows to which the user's kubeconfig leads.
func (s subject) command(name string) string {
	return "kubectl bmh " + name + " " + s.host.Name + " -n " + s.host.Namespace
}
