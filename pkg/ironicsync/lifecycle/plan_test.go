package lifecycle

import (
	"encoding/json"
	"strings"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
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
	case s.After != 0:
		return string(s.Do) + ":" + s.After.String()
	}
	return string(s.Do)
}

// planned is the situation of a host whose Secret is there and was not touched,
// and of which nothing has to be left alone. Unless the node says otherwise, it runs what
// the host's status is about.
func planned(host *metal3.BareMetalHost, node *ironic.Node) Situation {
	if node != nil && node.InstanceUUID == "" {
		copied := *node
		node, copied.InstanceUUID = &copied, recordedInstance(host)
	}
	return Situation{Host: host, Node: node, SecretVersion: "7", MaxRetries: 3}
}

func inspectionBegan(h *metal3.BareMetalHost) {
	h.Status.OperationHistory.Inspect = metal3.OperationMetric{Start: WholeSeconds(now)}
}
func inspectionEnded(h *metal3.BareMetalHost) {
	h.Status.OperationHistory.Inspect.End = WholeSeconds(now)
}

func prepared(h *metal3.BareMetalHost) {
	Enter(h, nil, Step{Do: SetState, State: metal3.StatePreparing}, now)
	Enter(h, nil, Step{Do: SetState, State: metal3.StateAvailable}, now)
}

func wantsImage(url string) hostOption {
	return func(h *metal3.BareMetalHost) { h.Spec.Image = &metal3.Image{URL: url, Checksum: url + ".sha256sum"} }
}

func attempting(url string) hostOption {
	return func(h *metal3.BareMetalHost) {
		h.Status.LastAttemptedImage = &metal3.Image{URL: url}
		h.Status.OperationHistory.Provision = metal3.OperationMetric{Start: WholeSeconds(now)}
	}
}

func runs(url string) hostOption {
	return func(h *metal3.BareMetalHost) { h.Status.Provisioning.Image = metal3.Image{URL: url} }
}

var stateMachines = map[string]map[string]map[string]string{}

// stateMachine is that of a release's Ironic: state, event, next state.
func stateMachine(t testing.TB, release string) map[string]map[string]string {
	t.Helper()
	if m, ok := stateMachines[release]; ok {
		return m
	}
	m := map[string]map[string]string{}
	if err := json.Unmarshal(readTestdata(t, release+"-fsm.json"), &m); err != nil {
		t.Fatal(err)
	}
	stateMachines[release] = m
	return m
}

// eventOf is what Ironic calls the event that a provision verb causes.
func eventOf(target ironic.ProvisionTarget) string {
	switch target {
	case ironic.TargetDeleted:
		return "delete"
	case ironic.TargetActive:
		return "deploy"
	}
	return string(target)
}
