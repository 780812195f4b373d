// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestPowerCut checks that the leader leaves a hard power-off to who asks for it, carries it out itself if that one has
// not, and never asks the operating system to shut down instead.
func TestPowerCut(t *testing.T) {
	now := now.Truncate(time.Second) // as it is recorded
	wait := func(after time.Duration) Step { return Step{Do: Wait, After: after} }
	power := func(target ironic.PowerTarget) Step {
		return Step{Do: SwitchPower, Power: target, Error: metal3.PowerManagementError}
	}
	for name, test := range map[string]struct {
		age   time.Duration // for how long the leader has known it
		ahead time.Duration // of the clock of who has requested it
		then  func(host *metal3.BareMetalHost, node *ironic.Node)
		want  Step
		kept  bool
	}{
		"just now":                    {want: wait(powerCutGrace), kept: true},
		"a moment ago":                {age: 4 * time.Second, want: wait(powerCutGrace - 4*time.Second), kept: true},
		"by a clock that is ahead":    {age: powerCutGrace, ahead: time.Hour, want: power(ironic.TargetPowerOff), kept: true},
		"by a clock that is behind":   {age: time.Second, ahead: -time.Hour, want: wait(powerCutGrace - time.Second), kept: true},
		"not carried out":             {age: powerCutGrace, want: power(ironic.TargetPowerOff), kept: true},
		"and not for long":            {age: powerCutLimit + time.Second, want: power(ironic.TargetPowerOff), kept: true},
		"off":                         {then: func(_ *metal3.BareMetalHost, n *ironic.Node) { n.PowerState = ironic.PowerOff }, want: Step{Do: Wait}},
		"under way":                   {then: func(_ *metal3.BareMetalHost, n *ironic.Node) { n.TargetPowerState = ironic.TargetPowerOff }, want: Step{Do: Wait}, kept: true},
		"before spec.online is false": {then: func(h *metal3.BareMetalHost, _ *ironic.Node) { h.Spec.Online = true }, want: Step{Do: Wait}, kept: true},
		"and it is long not false":    {age: powerCutLimit + time.Second, then: func(h *metal3.BareMetalHost, _ *ironic.Node) { h.Spec.Online = true }, want: Step{Do: Wait}},
		"and clocks differ":           {ahead: -2 * time.Minute, then: func(h *metal3.BareMetalHost, _ *ironic.Node) { h.Spec.Online = true }, want: Step{Do: Wait}, kept: true},
		"of another node":             {then: func(h *metal3.BareMetalHost, _ *ironic.Node) { h.Status.Record.PowerCut.NodeUUID = "another" }, want: power(ironic.TargetSoftPowerOff)},
		"off and on again meanwhile":  {age: time.Second, then: func(h *metal3.BareMetalHost, n *ironic.Node) { h.Status.Record.PowerCut = nil }, want: power(ironic.TargetSoftPowerOff)},
	} {
		t.Run(name, func(t *testing.T) {
			host, node := provisionedBy()
			host = observed(host, node)
			host.Spec.Online = false
			CutPower(host, node, now.Add(-test.age).Add(test.ahead))
			if test.then != nil {
				test.then(host, node)
			}
			host.Status, _ = Observe(host, Observation{Node: node}, now)
			if got := host.Status.Record.PowerCut != nil; got != test.kept {
				t.Errorf("it is still recorded: %t, want %t", got, test.kept)
			}
			s := Situation{Host: host, ObservedAt: now, PowerCutKnownFor: test.age, node: NodeOf(&host.Status)}
			if got := nextOfPower(s); got != test.want {
				t.Errorf("the step is %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestPowerCutAnswered checks that what is recorded of a hard power-off that Ironic has answered is taken back, and nothing
// that is recorded of others.
func TestPowerCutAnswered(t *testing.T) {
	asked := func(times int, target ironic.PowerTarget) *metal3.AskedPower {
		return &metal3.AskedPower{NodeUUID: "node", Target: string(target), At: WholeSeconds(now.Add(-time.Minute)), Times: times}
	}
	for name, test := range map[string]struct {
		before *metal3.AskedPower
		then   func(host *metal3.BareMetalHost)
		want   *metal3.AskedPower
	}{
		"the only one":              {},
		"after another one":         {before: asked(1, ironic.TargetSoftPowerOff), want: &metal3.AskedPower{NodeUUID: "node", Target: "power off", At: WholeSeconds(now), Times: 2}},
		"after one of another node": {before: &metal3.AskedPower{NodeUUID: "v", Times: 2}},
		"after several":             {before: asked(2, ironic.TargetPowerOff), want: &metal3.AskedPower{NodeUUID: "node", Target: "power off", At: WholeSeconds(now), Times: 2}},
		"and off meanwhile":         {before: asked(1, ironic.TargetPowerOff), then: func(h *metal3.BareMetalHost) { h.Status.Record.AskedPower = nil }},
		"and asked again": {then: func(h *metal3.BareMetalHost) { askPower(h, "node", ironic.TargetPowerOff, false, askedPrecision, now) },
			want: &metal3.AskedPower{NodeUUID: "node", Target: "power off", At: WholeSeconds(now), Times: 2}},
		"and asked to shut down": {then: func(h *metal3.BareMetalHost) {
			h.Status.Record.AskedPower = asked(1, ironic.TargetSoftPowerOff)
		}, want: asked(1, ironic.TargetSoftPowerOff)},
	} {
		t.Run(name, func(t *testing.T) {
			host, node := provisionedBy()
			node.UUID = "node"
			host.Status.Record.AskedPower = test.before.DeepCopy()
			CutPower(host, node, now)
			if test.then != nil {
				test.then(host)
			}
			PowerCutAnswered(host)
			if diff := cmp.Diff(test.want, host.Status.Record.AskedPower); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPowerCutIsObserved checks that the wait for a hard power-off ends: a plan made of what is recorded, which has no time,
// has the host looked at. Nothing may change in Ironic meanwhile that would have it planned again.
func TestPowerCutIsObserved(t *testing.T) {
	host, node := provisionedBy()
	host = observed(host, node)
	host.Spec.Online = false
	CutPower(host, node, now)
	s := Situation{Host: host, node: NodeOf(&host.Status)}
	if step := nextOfPower(s); step.Do != Wait || step.After == 0 || !MustObserve(s, step) {
		t.Errorf("planned without a look at the host: %+v", step)
	}
}
