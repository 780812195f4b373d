package lifecycle

import (
	"testing"
	"time"

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
		age  time.Duration // since it was requested
		then func(host *metal3.BareMetalHost, node *ironic.Node)
		want Step
		kept bool
	}{
		"just now":                    {want: wait(powerCutGrace), kept: true},
		"a moment ago":                {age: 4 * time.Second, want: wait(powerCutGrace - 4*time.Second), kept: true},
		"by a clock that is ahead":    {age: -time.Hour, want: wait(powerCutGrace), kept: true},
		"not carried out":             {age: powerCutGrace, want: power(ironic.TargetPowerOff), kept: true},
		"long ago":                    {age: powerCutLimit + time.Second, want: power(ironic.TargetSoftPowerOff)},
		"off":                         {then: func(_ *metal3.BareMetalHost, n *ironic.Node) { n.PowerState = ironic.PowerOff }, want: Step{Do: Wait}},
		"under way":                   {then: func(_ *metal3.BareMetalHost, n *ironic.Node) { n.TargetPowerState = ironic.TargetPowerOff }, want: Step{Do: Wait}, kept: true},
		"before spec.online is false": {then: func(h *metal3.BareMetalHost, _ *ironic.Node) { h.Spec.Online = true }, want: Step{Do: Wait}, kept: true},
		"spec.online is true again":   {age: powerCutGrace + time.Second, then: func(h *metal3.BareMetalHost, _ *ironic.Node) { h.Spec.Online = true }, want: Step{Do: Wait}},
		"of another node":             {then: func(h *metal3.BareMetalHost, _ *ironic.Node) { h.Status.Record.PowerCut.NodeUUID = "another" }, want: power(ironic.TargetSoftPowerOff)},
		"off and on again meanwhile":  {age: time.Second, then: func(h *metal3.BareMetalHost, n *ironic.Node) { h.Status.Record.PowerCut = nil }, want: power(ironic.TargetSoftPowerOff)},
	} {
		t.Run(name, func(t *testing.T) {
			host, node := provisionedBy()
			host = observed(host, node)
			host.Spec.Online = false
			CutPower(host, node, now.Add(-test.age))
			if test.then != nil {
				test.then(host, node)
			}
			host.Status, _ = Observe(host, Observation{Node: node}, now)
			if got := host.Status.Record.PowerCut != nil; got != test.kept {
				t.Errorf("it is still recorded: %t, want %t", got, test.kept)
			}
			s := Situation{Host: host, ObservedAt: now, node: NodeOf(&host.Status)}
			if got := nextOfPower(s); got != test.want {
				t.Errorf("the step is %+v, want %+v", got, test.want)
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
