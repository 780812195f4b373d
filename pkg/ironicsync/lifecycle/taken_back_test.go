// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestTakenBack: a host of which somebody has removed the image, and then set it again. What the machine runs is kept if nobody has begun to
// end it, ended if somebody has, and left to a person if that is not known.
func TestTakenBack(t *testing.T) {
	const lost, wiped = ironic.ProvisionState(""), ironic.CleanFail
	undeploy := provision(ironic.TargetDeleted, metal3.ProvisioningError)
	ask := func(h *metal3.BareMetalHost) { Ask(h, undeploy, false, askedPrecision, now) }
	reattach := func(h *metal3.BareMetalHost) {
		MarkDetached(h, now)
		MarkAttached(h, now)
	}
	made := []ironic.ProvisionState{ironic.Enroll, ironic.Verifying, ironic.Manageable}
	for name, test := range map[string]struct {
		before hostOption // of the host that is deprovisioning
		states []ironic.ProvisionState
		after  hostOption // instead of setting the image again
		want   string
		then   string // the next step of a host that has become provisioned
	}{
		"at once":                         {states: []ironic.ProvisionState{ironic.Active}, want: "=provisioned", then: "Wait"},
		"asked for":                       {before: ask, states: []ironic.ProvisionState{ironic.Active}, want: "deleted"},
		"lost":                            {states: append([]ironic.ProvisionState{lost}, made...), want: "=provisioned", then: "adopt"},
		"lost, only seen made again":      {states: made, want: "=provisioned", then: "adopt"},
		"lost, and only seen verified":    {states: []ironic.ProvisionState{lost, ironic.Manageable}, want: "=provisioned", then: "adopt"},
		"detached and attached":           {before: reattach, states: made, want: "=provisioned", then: "adopt"},
		"asked for and lost":              {before: ask, states: append([]ironic.ProvisionState{lost}, made...), want: "=provisioned", then: "Hold"},
		"asked for, only seen made again": {before: ask, states: made, want: "=provisioned", then: "Hold"},
		"asked for and detached":          {before: also(ask, reattach), states: made, want: "=provisioned", then: "Hold"},
		"undeploying, and lost":           {states: append([]ironic.ProvisionState{ironic.Deleting, lost}, made...), want: "provide"},
		"failed to be cleaned":            {states: []ironic.ProvisionState{ironic.Deleting, wiped, ironic.Manageable}, want: "provide"},
		"failed to be undeployed":         {states: append([]ironic.ProvisionState{ironic.Error, lost}, made...), want: "provide"},
		"managed by somebody":             {states: []ironic.ProvisionState{ironic.Manageable}, want: "provide"},
		"lost, cleaned by somebody":       {states: append(append([]ironic.ProvisionState{lost}, made...), ironic.Cleaning, ironic.Manageable), want: "provide"},
		"rescued before": {before: func(h *metal3.BareMetalHost) {
			h.Status.Record.Deployment.Gone = &metal3.GoneDeployment{ProvisionState: string(ironic.Rescue)}
		}, states: []ironic.ProvisionState{ironic.Active}, want: "=provisioned", then: "Wait"},
		"rebuilt by somebody before": {before: func(h *metal3.BareMetalHost) {
			h.Status.Record.Deployment.Gone = &metal3.GoneDeployment{ProvisionState: string(ironic.Deploying)}
		}, states: []ironic.ProvisionState{ironic.Active}, want: "=provisioned", then: "Hold"},
		"of a backup, and lost": {before: func(h *metal3.BareMetalHost) {
			h.Status.Record.AsOfRestore = -1 // before one
		}, states: append([]ironic.ProvisionState{lost}, made...), want: "Wait"},
		"cleaning when it was lost, as an older version has recorded it": {before: func(h *metal3.BareMetalHost) {
			h.Status.Ironic.ProvisionState = string(ironic.Cleaning)
		}, states: append([]ironic.ProvisionState{lost}, made...), want: "provide"},
		"asked for and lost, then cleaned in vain": {before: ask, states: append(append([]ironic.ProvisionState{lost}, made...), ironic.Cleaning, wiped, ironic.Manageable), want: "provide"},
		"managed by somebody, and lost":            {states: append([]ironic.ProvisionState{ironic.Manageable, lost}, made...), want: "provide"},
		"confirmed after it was wiped": {states: []ironic.ProvisionState{ironic.Deleting, wiped, ironic.Manageable}, after: func(h *metal3.BareMetalHost) {
			node := nodeIn(ironic.Manageable)
			node.UUID = h.Status.Provisioning.ID
			with := h.Status.Record.RegisteredWith
			if err := TakeOver(h, node, now); err != nil {
				t.Error(err)
			}
			h.Status.Record.RegisteredWith = with // it was registered again
			wantsImage("http://a")(h)
		}, want: "provide"},
		"lost, and not wanted":        {states: append([]ironic.ProvisionState{lost}, made...), after: func(*metal3.BareMetalHost) {}, want: "provide"},
		"lost, and another is wanted": {states: append([]ironic.ProvisionState{lost}, made...), after: wantsImage("http://b"), want: "provide"},
		"lost, and deleted":           {states: append([]ironic.ProvisionState{lost}, made...), after: also(wantsImage("http://a"), deleted), want: "provide"},
	} {
		t.Run(name, func(t *testing.T) {
			host, node := provisionedBy()
			host, node = seenIn(host, node, ironic.Active)
			host.Spec.Image = nil
			Enter(host, setState(metal3.StateDeprovisioning), now)
			if test.before != nil {
				test.before(host)
			}
			host, node = seenIn(host, node, test.states...)
			if test.after == nil {
				test.after = wantsImage("http://a")
			}
			test.after(host)
			host.Status.Record.Registration = newRegistration(host, metal3.RegisteredReason, "")
			keepNode(host)
			step, _ := next(planned(host, node))
			if step.String() != test.want {
				t.Fatalf("%s, want %s", step, test.want)
			}
			if step.Do != SetState {
				return
			}
			Enter(host, step, now)
			next := nextOf(planned(host, node))
			if next.String() != test.then {
				t.Errorf("then %s, want %s", next, test.then)
			}
			if next.Do != Hold {
				return
			}
			if next.Reason != metal3.DeploymentGoneReason || isUnknownEnd(host.Status.Record.Deployment.Gone) && host.Status.Record.Asked == nil {
				t.Errorf("held: %s; %+v was asked for", next.Reason, host.Status.Record.Asked)
			}
			host.Spec.Image = nil
			host.Status.Record.Asked = nil
			if next := nextOf(planned(host, node)); next.String() != "=deprovisioning" {
				t.Errorf("once a person has decided that it is to be erased: %s", next)
			}
		})
	}
}

// TestAttemptCalledOff: what an attempt with a procedure has deployed that nobody wanted any more is undone, although the spec names the
// procedure again, because it may be with another image.
func TestAttemptCalledOff(t *testing.T) {
	for name, state := range map[string]ironic.ProvisionState{"waiting": ironic.DeployWait, "failed": ironic.DeployFail} {
		t.Run(name, func(t *testing.T) {
			host := newHost(wantsImage("http://a"), func(h *metal3.BareMetalHost) {
				h.Spec.CustomDeploy = &metal3.CustomDeploy{Method: "install"}
			})
			for _, state := range []metal3.ProvisioningState{metal3.StatePreparing, metal3.StateAvailable, metal3.StateProvisioning} {
				enter(host, nodeIn(ironic.Available), Step{Do: SetState, State: state}, now)
			}
			changed := now.Add(-time.Hour)
			node := nodeIn(state, func(n *ironic.Node) {
				n.UUID, n.InstanceUUID, n.ProvisionUpdatedAt = host.Status.Provisioning.ID, recordedInstance(host), &changed
			})
			host = observed(host, node)
			wantsImage("http://b")(host)
			step := nextOf(planned(host, node))
			if step.State != metal3.StateDeprovisioning {
				t.Fatalf("called off: %s", step)
			}
			Enter(host, step, now)
			host, node = seenIn(host, node, ironic.Active)
			if step := nextOf(planned(host, node)); step.String() != "deleted" {
				t.Errorf("what was called off is active: %s, want deleted", step)
			}
		})
	}
}

// TestCalledOffRebuildTakenBack: a rebuild that was called off, and has ended all the same, is of what the host ran before. If that is wanted
// again before Ironic has undeployed it, it is kept, with everything else that is on the disks.
func TestCalledOffRebuildTakenBack(t *testing.T) {
	host, node := provisionedBy()
	host, node = seenIn(host, node, ironic.Active)
	if err := RequestRebuild(host, node, now); err != nil {
		t.Fatal(err)
	}
	host, node = seenIn(host, node, ironic.DeployWait)
	host.Spec.Image = nil
	step := nextOf(planned(host, node))
	if step.State != metal3.StateDeprovisioning {
		t.Fatalf("called off: %s", step)
	}
	Enter(host, step, now)
	host, node = seenIn(host, node, ironic.Active)
	wantsImage("http://a")(host)
	if step := nextOf(planned(host, node)); step.String() != "=provisioned" {
		t.Errorf("%s, want =provisioned", step)
	}
}
