// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

const (
	softRebootFailed = "Failed to change power state to 'power on' by 'soft rebooting': no"
	hardRebootFailed = "Failed to change power state to 'power on' by 'rebooting': no"
	fenceKey         = metal3.RebootAnnotationPrefix + "fence"
)

// rebooting returns a provisioned host whose machine is never switched off, with reboot annotations, and its node.
func rebooting(annotations ...string) (*metal3.BareMetalHost, ironic.Node) {
	host := newHost(withState(metal3.StateProvisioned))
	host.Spec.DisablePowerOff, host.Annotations = true, map[string]string{}
	for _, key := range annotations {
		host.Annotations[key] = ""
	}
	node := ironic.Node{Address: ownBMC, ProvisionState: ironic.Active, PowerState: ironic.PowerOn}
	return observe(host, &node), node
}

// TestObserveReboot: only an error about the reboot that was accepted, once Ironic is done with it, makes that due again.
func TestObserveReboot(t *testing.T) {
	for name, test := range map[string]struct {
		accepted ironic.PowerTarget
		node     func(*ironic.Node)
		failed   bool
		pending  bool
	}{
		"failed":                    {ironic.TargetSoftReboot, func(n *ironic.Node) { n.LastError = softRebootFailed }, true, true},
		"a hard one failed":         {ironic.TargetReboot, func(n *ironic.Node) { n.LastError = hardRebootFailed }, true, true},
		"under way":                 {ironic.TargetReboot, func(n *ironic.Node) { n.TargetPowerState = ironic.TargetPowerOn }, false, true},
		"locked for it":             {ironic.TargetSoftReboot, func(n *ironic.Node) { n.LastError, n.Reservation = softRebootFailed, "conductor-0" }, false, true},
		"carried out":               {ironic.TargetSoftReboot, func(*ironic.Node) {}, false, false},
		"the soft one before it":    {ironic.TargetReboot, func(n *ironic.Node) { n.LastError = softRebootFailed }, false, false},
		"something else has failed": {ironic.TargetReboot, func(n *ironic.Node) { n.LastError = "Failed to change power state to 'power off': no" }, false, false},
		"the machine is off":        {ironic.TargetReboot, func(n *ironic.Node) { n.LastError, n.PowerState = hardRebootFailed, ironic.PowerOff }, false, false},
	} {
		host, node := rebooting(fenceKey)
		Rebooted(&host.Status, test.accepted, host.Annotations)
		test.node(&node)
		host = observe(host, &node)
		if due := !isRebooted(host, fenceKey); due != test.failed {
			t.Errorf("%s: the annotation is due again: %t, want %t", name, due, test.failed)
		}
		if reboot := host.Status.Record.Reboot; (reboot != nil) != test.pending || reboot != nil && (reboot.Failed != "") != test.failed {
			t.Errorf("%s: recorded is %+v", name, reboot)
		}
	}
}

// TestRebootOfDeadLeader: a leader has died after Ironic had accepted a reboot, which nothing else tells. What is seen of it counts.
func TestRebootOfDeadLeader(t *testing.T) {
	for name, test := range map[string]struct {
		asked ironic.PowerTarget
		node  func(*ironic.Node)
		want  bool // the annotation is not due any more
	}{
		"under way":       {ironic.TargetSoftReboot, func(n *ironic.Node) { n.TargetPowerState = ironic.TargetPowerOn }, true},
		"by force":        {ironic.TargetReboot, func(n *ironic.Node) { n.TargetPowerState = ironic.TargetPowerOn }, true},
		"not begun":       {ironic.TargetSoftReboot, func(*ironic.Node) {}, false},
		"being off":       {ironic.TargetReboot, func(n *ironic.Node) { n.PowerState, n.TargetPowerState = ironic.PowerOff, ironic.TargetPowerOn }, false},
		"something else":  {ironic.TargetPowerOff, func(n *ironic.Node) { n.TargetPowerState = ironic.TargetPowerOn }, false},
		"of another node": {ironic.TargetReboot, func(n *ironic.Node) { n.UUID, n.TargetPowerState = "v", ironic.TargetPowerOn }, false},
	} {
		host, node := rebooting(fenceKey)
		host.Status.Record.AskedPower = &metal3.AskedPower{NodeUUID: node.UUID, Target: string(test.asked), Times: 1}
		test.node(&node)
		host = observe(host, &node)
		if isRebooted(host, fenceKey) != test.want {
			t.Errorf("%s: it is recorded as rebooted: %t, want %t", name, !test.want, test.want)
		}
		if !test.want {
			continue
		}
		node.LastError, node.TargetPowerState = map[ironic.PowerTarget]string{ironic.TargetReboot: hardRebootFailed, ironic.TargetSoftReboot: softRebootFailed}[test.asked], ""
		if host = observe(host, &node); isRebooted(host, fenceKey) {
			t.Errorf("%s: it has failed, and is not due again", name)
		}
	}
}

// TestRefusedReboot: a machine that is never switched off is rebooted by force when it was asked in vain, also if Ironic has forgotten that by
// then. What Ironic says of a reboot that it has not accepted, or of one that nobody asks for, counts for nothing.
func TestRefusedReboot(t *testing.T) {
	host, idle := rebooting(metal3.RebootAnnotation)
	expect := func(what string, target ironic.PowerTarget) {
		t.Helper()
		if next := nextOfPower(Situation{Host: host, node: NodeOf(&host.Status)}); next.Do != SwitchPower || next.Power != target {
			t.Errorf("%s: the next step is %+v, want %s", what, next, target)
		}
	}
	formerly := idle
	formerly.LastError = softRebootFailed
	host = follow(t, "a failure of last week", host, []step{{&formerly, wrong{}}})
	expect("at first", ironic.TargetSoftReboot)
	Rebooted(&host.Status, ironic.TargetSoftReboot, host.Annotations)
	want := wrong{metal3.PowerManagementError, softRebootFailed, 1}
	host = follow(t, "refused", host, []step{{&formerly, want}, {&idle, want}})
	expect("forgotten by Ironic", ironic.TargetReboot)
	host.Status.Record.AskedPower = &metal3.AskedPower{NodeUUID: host.Status.Provisioning.ID, Target: string(ironic.TargetReboot), Times: 1}
	hard := idle
	hard.LastError = hardRebootFailed
	host = observe(host, &hard) // of an earlier hard reboot
	if host.Status.Record.AskedPower == nil {
		t.Error("a request that is about to be sent is forgotten because of an earlier error")
	}
	Rebooted(&host.Status, ironic.TargetReboot, host.Annotations)
	host = follow(t, "refused by force", host, []step{{&hard, wrong{metal3.PowerManagementError, hardRebootFailed, 2}}})
	host.Annotations = nil
	host = follow(t, "called off", host, []step{{&hard, wrong{}}})
	if host.Status.Record.Reboot != nil {
		t.Errorf("still recorded: %+v", host.Status.Record.Reboot)
	}
}

// TestFailedRebootLeavesOthersDone: a reboot that fails is not a reason to reboot the machine for annotations that were heeded before.
func TestFailedRebootLeavesOthersDone(t *testing.T) {
	host, node := rebooting(fenceKey)
	Rebooted(&host.Status, ironic.TargetReboot, host.Annotations)
	host = observe(host, &node)
	host.Annotations[metal3.RebootAnnotation] = ""
	Rebooted(&host.Status, ironic.TargetSoftReboot, host.Annotations)
	node.LastError = softRebootFailed
	host = observe(host, &node)
	if diff := cmp.Diff(map[string]string{fenceKey: ""}, host.Status.Record.Rebooted); diff != "" {
		t.Errorf("what was heeded (-want +got):\n%s", diff)
	}
	delete(host.Annotations, metal3.RebootAnnotation)
	host = observe(host, &node)
	if next := nextOfPower(Situation{Host: host, node: NodeOf(&host.Status)}); next.Do == SwitchPower {
		t.Errorf("when nobody asks for it any more: %+v", next)
	}
}

// TestOldRebootRequest: a request to reboot that did not count, because the machine ran nothing, does not reboot what it runs later.
func TestOldRebootRequest(t *testing.T) {
	for _, state := range []metal3.ProvisioningState{metal3.StateProvisioned, metal3.StateExternallyProvisioned} {
		host := newHost(withState(metal3.StateAvailable), prepared, annotated(metal3.RebootAnnotation, ""), annotated(fenceKey, ""))
		enter(host, nodeIn(ironic.Active), Step{Do: SetState, State: state}, now)
		if _, has := host.Annotations[metal3.RebootAnnotation]; has {
			t.Errorf("%s: it would be rebooted", state)
		}
		if _, has := host.Annotations[fenceKey]; !has {
			t.Errorf("%s: it is not kept off any more", state)
		}
	}
}

// TestFencedWhileComingOn: a machine that is to be off is not shown as off while Ironic works to switch it on, nor while a request for that may
// still be carried out. One that is to be on is shown as on when it is.
func TestFencedWhileComingOn(t *testing.T) {
	switchingTo := func(target ironic.PowerTarget) *ironic.Node {
		return nodeIn(ironic.Active, off, func(n *ironic.Node) { n.TargetPowerState = target })
	}
	isOff := nodeIn(ironic.Active, off)
	asked := func(node string) func(*metal3.BareMetalHost) {
		return func(h *metal3.BareMetalHost) { BeginPowerOn(h, "1", node, now) }
	}
	answered := func(accepted ironic.PowerTarget) func(*metal3.BareMetalHost) {
		return func(h *metal3.BareMetalHost) { asked(isOff.UUID)(h); EndPowerOn(h, "1", accepted, now) }
	}
	lost := func(h *metal3.BareMetalHost) {
		asked(isOff.UUID)(h)
		ForgetLostRequest(h, Step{Do: ForgetLost, Power: ironic.TargetPowerOn}, now)
	}
	one := func(h *metal3.BareMetalHost) {
		answered("")(h)
		asked(isOff.UUID)(h)
		BeginPowerOn(h, "2", isOff.UUID, now)
		EndPowerOn(h, "1", "", now)
	}
	old := func(h *metal3.BareMetalHost) { BeginPowerOn(h, "1", isOff.UUID, now.Add(-powerOnLimit)) }
	changing := func(target ironic.ProvisionTarget) func(*metal3.BareMetalHost) {
		return func(h *metal3.BareMetalHost) {
			h.Status.Record.Asked = &metal3.AskedChange{NodeUUID: isOff.UUID, Target: string(target), ProvisionState: string(ironic.Active), At: WholeSeconds(now), Times: 1}
		}
	}
	changingLongAgo := func(h *metal3.BareMetalHost) {
		changing(ironic.TargetService)(h)
		h.Status.Record.Asked.At = WholeSeconds(now.Add(-powerOnLimit))
	}
	for name, test := range map[string]struct {
		node  *ironic.Node
		asked func(*metal3.BareMetalHost)
		want  bool
		soon  bool // also while it is to be on
	}{
		"off":                              {node: isOff},
		"coming on":                        {node: switchingTo(ironic.TargetPowerOn), want: true},
		"being rebooted":                   {node: switchingTo(ironic.TargetReboot), want: true},
		"being rebooted by its system":     {node: switchingTo(ironic.TargetSoftReboot), want: true},
		"going off":                        {node: switchingTo(ironic.TargetPowerOff)},
		"asked for":                        {node: isOff, asked: asked(isOff.UUID), want: true},
		"asked for, of a former node":      {node: isOff, asked: asked("another")},
		"accepted, and observed since":     {node: isOff, asked: answered(ironic.TargetPowerOn)},
		"refused":                          {node: isOff, asked: answered("")},
		"asked for long ago":               {node: isOff, asked: old},
		"a service was asked for":          {node: isOff, asked: changing(ironic.TargetService), want: true},
		"a service was asked for long ago": {node: isOff, asked: changingLongAgo},
		"a rebuild was asked for":          {node: isOff, asked: changing(ironic.TargetRebuild), want: true},
		"an undeployment was asked for":    {node: isOff, asked: changing(ironic.TargetDeleted)},
		"being rebuilt": {node: nodeIn(ironic.DeployWait, off), asked: func(h *metal3.BareMetalHost) {
			h.Status.Record.Deployment = &metal3.Deployment{NodeUUID: isOff.UUID, Rebuild: &metal3.Rebuild{}}
		}, want: true},
		"in service":                        {node: nodeIn(ironic.ServiceWait, off), want: true},
		"counts as lost":                    {node: isOff, asked: lost},
		"one of two was answered":           {node: isOff, asked: one, want: true},
		"asked for, with a BMC that is odd": {node: nodeIn(ironic.Active, func(n *ironic.Node) { n.PowerState = "error" }), asked: asked(isOff.UUID), want: true, soon: true},
		"accepted, with a BMC that is odd":  {node: nodeIn(ironic.Active, func(n *ironic.Node) { n.PowerState, n.TargetPowerState = "", ironic.TargetPowerOn }), want: true, soon: true},
		"not asked, with a BMC that is odd": {node: nodeIn(ironic.Active, func(n *ironic.Node) { n.PowerState = "" })},
	} {
		host := newHost(provisionedHost...)
		host.Status.PoweredOn = false
		if test.asked != nil {
			test.asked(host)
		}
		if got := observe(host, test.node).Status.PoweredOn; got != test.soon {
			t.Errorf("%s, and nobody has it fenced: shown as on: %t", name, got)
		}
		for how, fence := range map[string]func(*metal3.BareMetalHost){
			"fenced": annotated(fenceKey, ""), "to be off": func(h *metal3.BareMetalHost) { h.Spec.Online = false },
		} {
			kept := host.DeepCopy()
			fence(kept)
			if got := observe(kept, test.node).Status.PoweredOn; got != test.want {
				t.Errorf("%s, %s: shown as on: %t", name, how, got)
			}
		}
	}
}

// TestAcceptedPowerOn: when Ironic has accepted to switch a machine on that was fenced meanwhile, the record of the answer does not show it as
// off, although what is recorded of the node is older. When Ironic has refused, it does.
func TestAcceptedPowerOn(t *testing.T) {
	for accepted, want := range map[ironic.PowerTarget]bool{ironic.TargetPowerOn: true, ironic.TargetReboot: true, "": false} {
		host := newHost(provisionedHost...)
		host = observe(host, nodeIn(ironic.Active, off))
		BeginPowerOn(host, "1", host.Status.Ironic.NodeUUID, now)
		annotated(fenceKey, "")(host)
		ShowPower(host, &host.Status, now)
		before := host.DeepCopy()
		EndPowerOn(host, "1", accepted, now)
		if !before.Status.PoweredOn || host.Status.PoweredOn != want || host.Status.Record.PowerOns != nil {
			t.Errorf("%q: shown as on before: %t, and then: %t", accepted, before.Status.PoweredOn, host.Status.PoweredOn)
		}
	}
}

// TestDetachedMayNotComeOn: a machine whose node is gone is not switched on by an earlier request.
func TestDetachedMayNotComeOn(t *testing.T) {
	host := newHost(provisionedHost...)
	host = observe(host, nodeIn(ironic.Active, off))
	host.Spec.Online = false
	BeginPowerOn(host, "1", host.Status.Ironic.NodeUUID, now)
	if !host.Status.PoweredOn {
		t.Error("shown as off, and it may come on")
	}
	if MarkDetached(host, now); host.Status.PoweredOn || host.Status.Record.PowerOns != nil {
		t.Errorf("shown as on: %t", host.Status.PoweredOn)
	}
}

// TestAbortedReboot: a reboot that a restart of Ironic has broken off is asked for again, as it was, and does not count as failed.
func TestAbortedReboot(t *testing.T) {
	for _, by := range []string{"restart", "take over"} {
		host, node := rebooting(metal3.RebootAnnotation)
		Rebooted(&host.Status, ironic.TargetSoftReboot, host.Annotations)
		node.LastError = "Pending power operation was aborted due to conductor " + by
		host = observe(host, &node)
		if host.Status.Record.Reboot != nil || host.Status.ErrorType != "" {
			t.Errorf("%s: %+v, error %q", by, host.Status.Record.Reboot, host.Status.ErrorMessage)
		}
		if next := nextOfPower(Situation{Host: host, node: NodeOf(&host.Status)}); next.Do != SwitchPower || next.Power != ironic.TargetSoftReboot {
			t.Errorf("%s: then %+v", by, next)
		}
	}
}
