// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

func (s Step) String() string {
	switch {
	case s.Do == Provision:
		return string(s.Target)
	case s.Do == SetState && s.Failed:
		return "!" + strings.ReplaceAll(string(s.State), " ", "-")
	case s.Do == SetState:
		return "=" + strings.ReplaceAll(string(s.State), " ", "-")
	case s.Do == SwitchPower:
		return strings.ReplaceAll(string(s.Power), " ", "-")
	case s.Do == Begin:
		return "Begin=" + string(s.State)
	case s.Do == Report:
		return "Report:" + s.Reason
	case s.Do == ForgetLost:
		return "ForgetLost:" + string(s.Target) + string(s.Power)
	case s.After != 0:
		return string(s.Do) + ":" + s.After.String()
	}
	return string(s.Do)
}

// planned is the situation of a host whose Secret is there and was not touched,
// and of which nothing has to be left alone. Unless the node says otherwise, it runs what
// the host's status is about.
func planned(host *metal3.BareMetalHost, node *ironic.Node) situation {
	if node != nil && node.InstanceUUID == "" {
		copied := *node
		node, copied.InstanceUUID = &copied, recordedInstance(host)
	}
	return situation{Situation: Situation{Host: host, SecretVersion: "7", MaxRetries: 3, Claim: Claim{OtherNodes: OtherNodes{AsOf: now}}}, Node: node}
}

// situation is a Situation in which Host.Status is an observation of Node.
type situation struct {
	Situation
	Node *ironic.Node
}

// nextOf returns the next step after Node was observed.
func nextOf(s situation) Step {
	s.Host = s.Host.DeepCopy()
	recordNode(s.Host, s.Node)
	if s.Node != nil {
		s.ObservedAt, s.IronicNow = now, s.Node.AnsweredAt
	}
	return Next(s.Situation)
}

// recordNode records the node in the host's status, as Observe does, and nothing else.
func recordNode(host *metal3.BareMetalHost, node *ironic.Node) {
	before := host.Status.Ironic
	host.Status.Ironic = nil
	if node == nil {
		return
	}
	host.Status.Ironic = ironicStatus(node)
	if before != nil {
		host.Status.Ironic.AbortRequested, host.Status.Ironic.InspectionFinishedAt = before.AbortRequested, before.InspectionFinishedAt
		host.Status.Ironic.Forgotten = before.Forgotten && node.Reservation == ""
	}
	host.Status.Ironic.InventoryPending = NeedsInventory(host, node)
}

// enter is Enter after node was observed.
func enter(host *metal3.BareMetalHost, node *ironic.Node, step Step, now time.Time) {
	recordNode(host, node)
	Enter(host, step, now)
}

func inspectionBegan(h *metal3.BareMetalHost) {
	h.Status.OperationHistory.Inspect = metal3.OperationMetric{Start: WholeSeconds(now)}
}
func inspectionEnded(h *metal3.BareMetalHost) {
	h.Status.OperationHistory.Inspect.End = WholeSeconds(now)
}

func prepared(h *metal3.BareMetalHost) {
	enter(h, nil, Step{Do: SetState, State: metal3.StatePreparing}, now)
	enter(h, nil, Step{Do: SetState, State: metal3.StateAvailable}, now)
}

func inspectedOnce(h *metal3.BareMetalHost) {
	h.Status.OperationHistory.Inspect = metal3.OperationMetric{Start: WholeSeconds(now), End: WholeSeconds(now)}
}

// adoptedOnce is a host that somebody else had deployed when its BMC was registered.
func adoptedOnce(h *metal3.BareMetalHost) {
	enter(h, nil, Step{Do: SetState, State: metal3.StateRegistering}, now)
	enter(h, nodeIn(ironic.Active), Step{Do: SetState, State: metal3.StateProvisioned}, now)
}

func wantsImage(url string) hostOption {
	return func(h *metal3.BareMetalHost) { h.Spec.Image = &metal3.Image{URL: url, Checksum: url + ".sha256sum"} }
}

func attempting(url string) hostOption {
	return func(h *metal3.BareMetalHost) {
		h.Status.LastAttemptedImage = &metal3.Image{URL: url, Checksum: url + ".sha256sum"}
		h.Status.OperationHistory.Provision = metal3.OperationMetric{Start: WholeSeconds(now)}
	}
}

func runs(url string) hostOption {
	return func(h *metal3.BareMetalHost) { h.Status.Provisioning.Image = metal3.Image{URL: url} }
}

// machineOf is the state machine of a release's Ironic.
func machineOf(release string) fsm.Machine {
	return fsm.Of(map[string]int{"bookworm": fsm.Ironic21, "trixie": fsm.Ironic29, "sid": fsm.Ironic39}[release])
}
