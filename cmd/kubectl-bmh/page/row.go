// SPDX-License-Identifier: Apache-2.0

package page

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/consumers"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/hosts"
)

// Tone is how a host or a line about it is coloured and marked.
type Tone string

// The tones.
const (
	ToneProblem Tone = "problem"
	ToneBusy    Tone = "busy"
	ToneRunning Tone = "running"
	ToneIdle    Tone = "idle"
)

// Row is a host in the list of the page. The words are those of kubectl bmh.
type Row struct {
	ID        string `json:"id"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     string `json:"state"`
	Tone      Tone   `json:"tone"`
	// IsLast is set if the state is the last known one: Ironic does not answer about the host.
	IsLast bool `json:"isLast,omitempty"`
	// Step is what Ironic does, and Fraction how much of it is done, 0 if that is not known.
	Step     string  `json:"step,omitempty"`
	Fraction float64 `json:"fraction,omitempty"`
	// Since is when the host came into its state.
	Since *time.Time `json:"since,omitempty"`
	// Power is on, off, on→off and so on; it ends in ! if the spec asks for something else.
	Power    string `json:"power,omitempty"`
	Online   bool   `json:"online"`
	Consumer string `json:"consumer,omitempty"`
	Machine  string `json:"machine,omitempty"`
	Node     string `json:"node,omitempty"`
	BMC      string `json:"bmc,omitempty"`
	// Ironic is the name of the IronicInstance whose Ironic has the host, empty for that of the server's flags.
	Ironic  string `json:"ironic,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Labels are what the map groups hosts by.
	Labels map[string]string `json:"labels,omitempty"`
	// Version changes with each change of the host.
	Version string `json:"version"`
}

func rowOf(host *metal3.BareMetalHost, consumer consumers.Consumer) Row {
	progress := hosts.ProgressOf(host)
	row := Row{
		ID: string(host.UID), Namespace: host.Namespace, Name: host.Name,
		State: hosts.State(host), Tone: toneOf(host), IsLast: isLastKnown(host),
		Step: progress.String(), Power: hosts.Power(host), Online: host.Spec.Online,
		Machine: consumer.Machine, Node: consumer.Node, BMC: host.Spec.BMC.Address,
		Problem: hosts.Problem(host), Labels: host.Labels, Version: host.ResourceVersion,
	}
	row.Fraction, _ = progress.Fraction()
	if host.DeletionTimestamp != nil && host.Status.Provisioning.State != metal3.StateDeleting {
		row.State += " (to be deleted)"
	}
	if since := hosts.Since(host); !since.IsZero() {
		row.Since = &since
	}
	if ironic := host.Status.Ironic; ironic != nil {
		row.Ironic = ironic.Instance
	}
	if ref := host.Spec.ConsumerRef; ref != nil {
		row.Consumer = ref.Name
	}
	return row
}

func toneOf(host *metal3.BareMetalHost) Tone {
	switch {
	case hosts.Problem(host) != "":
		return ToneProblem
	case hosts.IsBusy(host):
		return ToneBusy
	case host.Status.Provisioning.State.RunsSomething():
		return ToneRunning
	}
	return ToneIdle
}

// isLastKnown reports whether the server has said that it does not know the state of now.
func isLastKnown(host *metal3.BareMetalHost) bool {
	condition := hosts.Condition(host, metal3.IronicReachableCondition)
	return condition != nil && condition.Status == metav1.ConditionFalse
}
