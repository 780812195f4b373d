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
		"lost, and not wanted, nor cleaned":       {states: append([]ironic.ProvisionState{lost}, made...), after: uncleaned, want: "power-off"},
		"made available by somebody, nor cleaned": {states: append(append([]ironic.ProvisionState{lost}, made...), ironic.Available), after: uncleaned, want: "power-off"},
		"asked for and lost, nor cleaned":         {before: ask, states: append([]ironic.ProvisionState{lost}, made...), after: uncleaned, want: "power-off"},
		"failed to be undeployed, nor cleaned":    {states: append([]ironic.ProvisionState{ironic.Error, lost}, made...), after: uncleaned, want: "power-off"},
		"lost, never switched off, nor cleaned":   {states: append([]ironic.ProvisionState{lost}, made...), after: also(uncleaned, func(h *metal3.BareMetalHost) { h.Spec.DisablePowerOff = true }), want: "provide"},
		"undeployed, nor cleaned":                 {states: []ironic.ProvisionState{ironic.Deleting, ironic.Available}, after: uncleaned, want: "=available", then: "Wait"},
		"lost, and not wanted":                    {states: append([]ironic.ProvisionState{lost}, made...), after: func(*metal3.BareMetalHost) {}, want: "provide"},
		"lost, and another is wanted":             {states: append([]ironic.ProvisionState{lost}, made...), after: wantsImage("http://b"), want: "provide"},
		"lost, and deleted":                       {states: append([]ironic.ProvisionState{lost}, made...), after: also(wantsImage("http://a"), deleted), want: "provide"},
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
			node.AutomatedClean = "false"
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

// TestUndeployedAfterIronicWasRestored: the database of Ironic was restored to when the node was available, or could not be cleaned, and the
// machine runs what was deployed since. The host becomes available when that has ended, and goes on running it if it is wanted again.
func TestUndeployedAfterIronicWasRestored(t *testing.T) {
	for name, test := range map[string]struct {
		state ironic.ProvisionState
		late  bool // the image was removed before the node was seen
		host  hostOption
		want  string
		then  string // with the node manageable
	}{
		"available":               {state: ironic.Available, want: "manage", then: "provide"},
		"available, seen late":    {state: ironic.Available, late: true, want: "manage", then: "provide"},
		"available, wanted again": {state: ironic.Available, late: true, host: wantsImage("http://a"), want: "manage", then: "=provisioned"},
		"available, not cleaned":  {state: ironic.Available, host: uncleaned, want: "power-off", then: "power-off"},
		"available, deleted":      {state: ironic.Available, host: deleted, want: "manage", then: "provide"},
		"failed to be cleaned":    {state: ironic.CleanFail, late: true, want: "manage", then: "provide"},
		"failed, not cleaned":     {state: ironic.CleanFail, late: true, host: uncleaned, want: "manage", then: "power-off"},
	} {
		t.Run(name, func(t *testing.T) {
			host, node := provisionedBy()
			host, node = seenIn(host, node, ironic.Active)
			old := *node
			old.ProvisionState, old.ProvisionUpdatedAt, old.InstanceUUID = test.state, new(node.ProvisionUpdatedAt.Add(-time.Hour)), ""
			look := func() { host = observed(host, &old) }
			if !test.late {
				look()
			}
			host.Spec.Image = nil
			Enter(host, setState(metal3.StateDeprovisioning), now)
			look()
			if test.host != nil {
				test.host(host)
			}
			plan := func(node *ironic.Node) string {
				host.Status.Record.Registration = newRegistration(host, metal3.RegisteredReason, "")
				keepNode(host)
				node.AutomatedClean = "false"
				step, _ := next(planned(host, node))
				return step.String()
			}
			if got := plan(&old); got != test.want {
				t.Fatalf("%s, want %s", got, test.want)
			}
			host, node = seenIn(host, node, ironic.Manageable)
			if got := plan(node); got != test.then {
				t.Fatalf("then %s, want %s", got, test.then)
			}
			if test.then != "provide" {
				return
			}
			host, node = seenIn(host, node, ironic.Available) // the cleaning was not seen
			if got := plan(node); got != "=available" && got != "=powering-off-before-delete" {
				t.Errorf("at last %s", got)
			}
		})
	}
}

// uncleaned is of a host whose disks are not to be cleaned.
func uncleaned(h *metal3.BareMetalHost) { h.Spec.AutomatedCleaningMode = metal3.CleaningModeDisabled }

// TestLostAttemptCalledOff: an attempt that nobody wants any more may have written an image, or booted it, before Ironic lost its node.
func TestLostAttemptCalledOff(t *testing.T) {
	lost := []ironic.ProvisionState{ironic.DeployWait, "", ironic.Enroll, ironic.Verifying, ironic.Manageable}
	for name, test := range map[string]struct {
		states []ironic.ProvisionState
		host   hostOption
		want   string
		then   string
	}{
		"lost":               {states: lost, want: "=deprovisioning", then: "provide"},
		"not cleaned":        {states: lost, host: uncleaned, want: "=deprovisioning", then: "power-off"},
		"made available":     {states: append(lost, ironic.Cleaning, ironic.Available), want: "=deprovisioning", then: "=available"},
		"not cleaned for it": {states: append(lost, ironic.Available), host: uncleaned, want: "=deprovisioning", then: "power-off"},
		"not begun":          {states: []ironic.ProvisionState{ironic.Cleaning, ironic.Available}, want: "=available"},
	} {
		t.Run(name, func(t *testing.T) {
			host := newHost(wantsImage("http://a"))
			for _, state := range []metal3.ProvisioningState{metal3.StatePreparing, metal3.StateAvailable, metal3.StateProvisioning} {
				enter(host, nodeIn(ironic.Available), Step{Do: SetState, State: state}, now)
			}
			if test.host != nil {
				test.host(host)
			}
			host, node := seenIn(host, nodeIn(ironic.Available, func(n *ironic.Node) {
				n.UUID, n.ProvisionUpdatedAt, n.AutomatedClean = host.Status.Provisioning.ID, new(now.Add(-time.Hour)), "false"
			}), test.states...)
			host.Spec.Image = nil
			host.Status.Record.Registration = newRegistration(host, metal3.RegisteredReason, "")
			keepNode(host)
			step, _ := next(planned(host, node))
			if step.String() != test.want {
				t.Fatalf("%s, want %s", step, test.want)
			}
			if test.then == "" {
				return
			}
			Enter(host, step, now)
			host, node = seenIn(host, node, node.ProvisionState)
			if step, _ := next(planned(host, node)); step.String() != test.then {
				t.Errorf("then %s, want %s", step, test.then)
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
