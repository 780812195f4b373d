// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// seenIn observes the host's node in one state after the other.
func seenIn(host *metal3.BareMetalHost, node *ironic.Node, states ...ironic.ProvisionState) (*metal3.BareMetalHost, *ironic.Node) {
	for _, state := range states {
		if state == "" {
			host = observed(host, nil)
			continue
		}
		n := *node
		n.ProvisionState = state
		if state != node.ProvisionState {
			changed := node.ProvisionUpdatedAt.Add(time.Second)
			n.ProvisionUpdatedAt = &changed
		}
		host, node = observed(host, &n), &n
	}
	return host, node
}

func observed(host *metal3.BareMetalHost, node *ironic.Node) *metal3.BareMetalHost {
	h := host.DeepCopy()
	h.Status, _ = Observe(host, Observation{Node: node}, now)
	return h
}

// TestGone: what somebody does to the node of a host that runs something, and what the host shows and the server
// does then.
func TestGone(t *testing.T) {
	const lost = "" // Ironic does not have the node
	external := func(h *metal3.BareMetalHost) {
		h.Spec.Image, h.Spec.ExternallyProvisioned = nil, true
		h.Status.Provisioning.State, h.Status.Provisioning.Image = metal3.StateExternallyProvisioned, metal3.Image{}
	}
	for name, test := range map[string]struct {
		host   hostOption
		states []ironic.ProvisionState
		change hostOption // afterwards, by a person
		gone   string     // what the message says; empty if the host is as it should be
		step   string
	}{
		"nothing happens":                 {step: "Wait"},
		"undeploying":                     {states: []ironic.ProvisionState{ironic.Deleting}, gone: "undeployed", step: "Wait"},
		"cleaning":                        {states: []ironic.ProvisionState{ironic.Deleting, ironic.Cleaning}, gone: `"deleting"`, step: "Wait"},
		"undeployed":                      {states: []ironic.ProvisionState{ironic.Available}, gone: "undeployed", step: "Wait"},
		"undeployed and managed":          {states: []ironic.ProvisionState{ironic.Available, ironic.Manageable}, gone: "undeployed", step: "Wait"},
		"managed by the next look":        {states: []ironic.ProvisionState{ironic.Manageable}, gone: "undeployed", step: "Wait"},
		"failed to be undeployed":         {states: []ironic.ProvisionState{ironic.Error}, gone: "undeployed", step: "Wait"},
		"undeployed and adopted":          {states: []ironic.ProvisionState{ironic.Available, ironic.Manageable, ironic.Adopting, ironic.Active}, gone: "undeployed", step: "Wait"},
		"rebuilt":                         {states: []ironic.ProvisionState{ironic.Deploying, ironic.Active}, gone: "rebuilt", step: "Wait"},
		"in rescue":                       {states: []ironic.ProvisionState{ironic.Rescuing, ironic.Rescue}, gone: "rescued", step: "Wait"},
		"rescued and unrescued":           {states: []ironic.ProvisionState{ironic.Rescue, ironic.Unrescuing, ironic.Active}, step: "Wait"},
		"rescued and undeployed":          {states: []ironic.ProvisionState{ironic.Rescue, ironic.Deleting, ironic.Available}, gone: "undeployed", step: "Wait"},
		"external and undeployed":         {host: external, states: []ironic.ProvisionState{ironic.Deleting, ironic.Available}, gone: "undeployed", step: "Wait"},
		"external and lost":               {host: external, states: []ironic.ProvisionState{lost, ironic.Enroll, ironic.Manageable}, step: "adopt"},
		"lost":                            {states: []ironic.ProvisionState{lost, ironic.Enroll, ironic.Verifying, ironic.Manageable}, step: "adopt"},
		"lost and found verified":         {states: []ironic.ProvisionState{lost, ironic.Manageable}, step: "adopt"},
		"lost while nobody looked":        {states: []ironic.ProvisionState{ironic.Enroll, ironic.Manageable}, step: "adopt"},
		"lost, its adoption failed":       {states: []ironic.ProvisionState{lost, ironic.Manageable, ironic.AdoptFail}, step: "adopt"},
		"lost, adopted, undeployed":       {states: []ironic.ProvisionState{lost, ironic.Manageable, ironic.Active, ironic.Deleting}, gone: "undeployed", step: "Wait"},
		"lost, undeployed once adopted":   {states: []ironic.ProvisionState{lost, ironic.Manageable, ironic.Adopting, ironic.Deleting}, gone: "undeployed", step: "Wait"},
		"lost, then seen undeployed":      {states: []ironic.ProvisionState{lost, ironic.Manageable, ironic.Adopting, ironic.Available}, gone: "undeployed", step: "Wait"},
		"lost, then cleaned":              {states: []ironic.ProvisionState{lost, ironic.Manageable, ironic.Cleaning, ironic.Manageable}, gone: "undeployed", step: "Wait"},
		"lost, first seen cleaned":        {states: []ironic.ProvisionState{lost, ironic.Cleaning, ironic.Available}, gone: "undeployed", step: "Wait"},
		"lost, first seen available":      {states: []ironic.ProvisionState{lost, ironic.Available}, gone: "undeployed", step: "Wait"},
		"missed, first seen undeploying":  {states: []ironic.ProvisionState{lost, ironic.Deleting}, gone: "undeployed", step: "Wait"},
		"missed, and still there":         {states: []ironic.ProvisionState{lost, ironic.Active}, step: "Wait"},
		"lost, then inspected":            {states: []ironic.ProvisionState{lost, ironic.Manageable, ironic.Inspecting, ironic.Manageable}, step: "adopt"},
		"undeployed, then lost":           {states: []ironic.ProvisionState{ironic.Available, lost, ironic.Enroll, ironic.Manageable}, gone: "undeployed", step: "Wait"},
		"no image wanted":                 {states: []ironic.ProvisionState{ironic.Available}, change: func(h *metal3.BareMetalHost) { h.Spec.Image = nil }, gone: "undeployed", step: "=deprovisioning"},
		"another image wanted":            {states: []ironic.ProvisionState{ironic.Available}, change: wantsImage("http://b"), gone: "undeployed", step: "=deprovisioning"},
		"no longer external":              {host: external, states: []ironic.ProvisionState{ironic.Available}, change: func(h *metal3.BareMetalHost) { h.Spec.ExternallyProvisioned = false }, gone: "undeployed", step: "=provisioned"},
		"no longer external, not cleaned": {host: external, states: []ironic.ProvisionState{ironic.Manageable}, change: func(h *metal3.BareMetalHost) { h.Spec.ExternallyProvisioned = false }, gone: "undeployed", step: "=provisioned"},
		"external with an image":          {host: external, states: []ironic.ProvisionState{ironic.Available}, change: func(h *metal3.BareMetalHost) { h.Spec.ExternallyProvisioned = false; wantsImage("http://b")(h) }, gone: "undeployed", step: "Wait"},
	} {
		t.Run(name, func(t *testing.T) {
			host, node := provisionedBy()
			if test.host != nil {
				test.host(host)
			}
			host, node = seenIn(host, node, ironic.Active)
			host, node = seenIn(host, node, test.states...)
			provisioned := meta.FindStatusCondition(host.Status.Conditions, metal3.ProvisionedCondition)
			ready := meta.IsStatusConditionTrue(host.Status.Conditions, metal3.ReadyCondition)
			switch {
			case test.gone != "":
				if provisioned.Reason != metal3.DeploymentGoneReason || ready || !strings.Contains(provisioned.Message, test.gone) || !strings.Contains(host.Status.ErrorMessage, test.gone) {
					t.Errorf("Provisioned %+v, Ready %v, error %q", provisioned, ready, host.Status.ErrorMessage)
				}
			case provisioned.Status != metav1.ConditionTrue:
				t.Errorf("Provisioned: %+v", provisioned)
			}
			if test.change != nil {
				test.change(host)
			}
			host.Status.Record.Registration = newRegistration(host, metal3.RegisteredReason, "")
			step, held := next(planned(host, node))
			if step.String() != test.step {
				t.Errorf("%s, want %s", step, test.step)
			}
			if isHeld := held != nil && held.Reason == metal3.DeploymentGoneReason; isHeld != (test.gone != "" && test.step == "Wait") {
				t.Errorf("held: %+v", held)
			}
		})
	}
}

// TestGoneBeforeMove: a host comes with its status, as from another cluster or from the operator, and its node was undeployed before.
func TestGoneBeforeMove(t *testing.T) {
	for state, want := range map[ironic.ProvisionState]bool{
		ironic.Active: false, ironic.Enroll: false, ironic.Manageable: false, ironic.Rescue: false,
		ironic.Available: true, ironic.Deleting: true, ironic.Cleaning: true, ironic.CleanFail: true,
	} {
		t.Run(string(state), func(t *testing.T) {
			host, node := provisionedBy()
			host.Status.Record = metal3.HostRecord{}
			host, node = seenIn(host, node, state)
			host.Status.Record.Registration = newRegistration(host, metal3.RegisteredReason, "")
			if _, held := next(planned(host, node)); (held != nil && held.Reason == metal3.DeploymentGoneReason) != want {
				t.Errorf("held: %+v", held)
			}
			if host, _ = seenIn(host, node, ironic.Manageable); (goneDeployment(&host.Status) != nil) != want {
				t.Errorf("afterwards: %+v", host.Status.Record.Deployment)
			}
		})
	}
}

// TestGoneFenced: a machine of which it is certain whose it is, and not what it runs, is switched off for who has to know that it is
// off, and for nobody else.
func TestGoneFenced(t *testing.T) {
	fenced, hard := annotated(metal3.RebootAnnotationPrefix+"fence", ""), annotated(metal3.RebootAnnotationPrefix+"fence", `{"mode":"hard"}`)
	for name, test := range map[string]struct {
		states []ironic.ProvisionState
		change hostOption
		node   func(*ironic.Node)
		with   func(*situation)
		step   string
	}{
		"undeployed":                {states: []ironic.ProvisionState{ironic.Available}, change: fenced, step: "soft-power-off"},
		"undeployed, at once":       {states: []ironic.ProvisionState{ironic.Available}, change: hard, step: "power-off"},
		"rebuilt":                   {states: []ironic.ProvisionState{ironic.Deploying, ironic.Active}, change: hard, step: "power-off"},
		"off already":               {states: []ironic.ProvisionState{ironic.Available}, change: fenced, node: off, step: "Wait"},
		"no longer fenced":          {states: []ironic.ProvisionState{ironic.Available}, node: off, step: "Wait"},
		"rebooted":                  {states: []ironic.ProvisionState{ironic.Available}, change: annotated(metal3.RebootAnnotation, ""), step: "Wait"},
		"to be off":                 {states: []ironic.ProvisionState{ironic.Available}, change: offline, step: "Wait"},
		"never off":                 {states: []ironic.ProvisionState{ironic.Available}, change: func(h *metal3.BareMetalHost) { fenced(h); neverOff(h) }, step: "Wait"},
		"paused":                    {states: []ironic.ProvisionState{ironic.Available}, change: func(h *metal3.BareMetalHost) { fenced(h); h.Annotations[metal3.PausedAnnotation] = "" }, step: "Wait"},
		"being undeployed":          {states: []ironic.ProvisionState{ironic.Deleting}, change: hard, step: "Wait"},
		"in rescue":                 {states: []ironic.ProvisionState{ironic.Rescue}, change: hard, step: "Wait"},
		"with another deployment":   {states: []ironic.ProvisionState{ironic.Available, ironic.Active}, change: hard, node: func(n *ironic.Node) { n.InstanceUUID = "another" }, step: "Wait"},
		"reserved by somebody else": {states: []ironic.ProvisionState{ironic.Available}, change: hard, node: func(n *ironic.Node) { n.InstanceUUID = "another" }, step: "Wait"},
		"with another BMC":          {states: []ironic.ProvisionState{ironic.Available}, change: hard, node: func(n *ironic.Node) { n.Address.IPMIAddress = "192.0.2.77" }, step: "Wait"},
		"whose BMC another has":     {states: []ironic.ProvisionState{ironic.Available}, change: hard, with: func(s *situation) { s.OtherNodes.Exist = true }, step: "Wait"},
		"others are not known":      {states: []ironic.ProvisionState{ironic.Available}, change: hard, with: func(s *situation) { s.OtherNodes.AsOf = time.Time{} }, step: "Wait"},
		"of a backup":               {states: []ironic.ProvisionState{ironic.Available}, change: hard, with: func(s *situation) { s.Restored = "a backup" }, step: "Wait"},
	} {
		t.Run(name, func(t *testing.T) {
			host, node := provisionedBy()
			host, node = seenIn(host, node, ironic.Active)
			host, node = seenIn(host, node, test.states...)
			node.PowerState = ironic.PowerOn
			if test.node != nil {
				test.node(node)
			}
			if test.change != nil {
				test.change(host)
			}
			host.Status.Record.Registration = newRegistration(host, metal3.RegisteredReason, "")
			s := planned(host, node)
			if test.with != nil {
				test.with(&s)
			}
			if step, _ := next(s); step.String() != test.step {
				t.Errorf("%s, want %s", step, test.step)
			}
		})
	}
}

// TestUnnamedDeploymentGone: where somebody undeploys what nobody has named, as the host itself advises, the host becomes available when
// the node is. Until then, and in any other state, nothing is adopted.
func TestUnnamedDeploymentGone(t *testing.T) {
	for name, test := range map[string]struct {
		states []ironic.ProvisionState
		image  bool
		step   string
	}{
		"undeployed":                  {states: []ironic.ProvisionState{ironic.Deleting, ironic.Cleaning, ironic.Available}, step: "=deprovisioning"},
		"undeployed, an image wanted": {states: []ironic.ProvisionState{ironic.Available}, image: true, step: "=deprovisioning"},
		"being cleaned":               {states: []ironic.ProvisionState{ironic.Deleting, ironic.Cleaning}, step: "Wait"},
		"not cleaned":                 {states: []ironic.ProvisionState{ironic.Manageable}, step: "Wait"},
		"failed to be undeployed":     {states: []ironic.ProvisionState{ironic.Error}, step: "Wait"},
	} {
		t.Run(name, func(t *testing.T) {
			host, node := provisionedBy()
			host.Spec.Image, host.Status.Provisioning.Image, host.Status.LastAttemptedImage = nil, metal3.Image{}, nil
			if test.image {
				wantsImage("http://b")(host)
			}
			host, node = seenIn(host, node, ironic.Active)
			host, node = seenIn(host, node, test.states...)
			host.Status.Record.Registration = newRegistration(host, metal3.RegisteredReason, "")
			step, held := next(planned(host, node))
			if step.String() != test.step {
				t.Errorf("%s, want %s", step, test.step)
			}
			if isHeld := held != nil && held.Reason == metal3.DeploymentGoneReason; isHeld != (test.step == "Wait") || isHeld && strings.Contains(held.Message, "rebuild,") {
				t.Errorf("held: %+v", held)
			}
		})
	}
}

// TestGoneDecided: what a person can decide about a host whose deployment is gone.
func TestGoneDecided(t *testing.T) {
	undeployed := func(states ...ironic.ProvisionState) (*metal3.BareMetalHost, *ironic.Node) {
		host, node := provisionedBy()
		node.InstanceUUID = ""
		host, node = seenIn(host, node, states...)
		_, held := next(planned(host, node))
		SetHold(host, Step{Reason: held.Reason, Message: held.Message})
		return host, node
	}

	host, node := undeployed(ironic.Available, ironic.Manageable)
	if err := TakeOver(host, node, now); err != nil {
		t.Fatal(err)
	}
	host.Status.Record.RegisteredWith = &metal3.RegisteredWith{} // as it is told to Ironic again
	if step, held := next(planned(host, node)); step.String() != "adopt" || held != nil {
		t.Errorf("taken over: %s, held %+v", step, held)
	}
	if host = observed(host, node); !meta.IsStatusConditionTrue(host.Status.Conditions, metal3.ProvisionedCondition) {
		t.Errorf("taken over: %+v", host.Status.Conditions)
	}

	host, node = undeployed(ironic.Available)
	before := recordedInstance(host)
	if err := RequestRebuild(host, node, now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if step, held := next(planned(host, node)); step.String() != "Deploy" || held != nil || recordedInstance(host) == before {
		t.Errorf("written again: %s, held %+v, instance %s", step, held, recordedInstance(host))
	}

	host, node = undeployed(ironic.Available, ironic.Manageable)
	if err := RequestRebuild(host, node, now); err == nil || !strings.Contains(err.Error(), "available") {
		t.Errorf("written again, and cleaned on the way: %v", err)
	}

	host, node = provisionedBy()
	host, node = seenIn(host, node, ironic.Deploying, ironic.Active)
	if err := RequestRebuild(host, node, now); err != nil {
		t.Errorf("rebuilt by another user: %v", err)
	}
	if step, held := next(planned(host, node)); step.String() != "Rebuild" || held != nil {
		t.Errorf("rebuilt by another user, written again: %s, held %+v", step, held)
	}
}

// TestOlderStateIsNoDeed: after a restore of Ironic's database, or from a reader of it that lags behind, a node is in a
// state of before it was active. Nobody has undone the deployment.
func TestOlderStateIsNoDeed(t *testing.T) {
	host, active := provisionedBy()
	host, _ = seenIn(host, active, ironic.Active)
	earlier := *active
	before := active.ProvisionUpdatedAt.Add(-time.Minute)
	earlier.ProvisionUpdatedAt = &before
	host, lagging := seenIn(host, &earlier, ironic.Deploying)
	if d := host.Status.Record.Deployment; d.Gone != nil || d.MayAdopt {
		t.Errorf("deploying, as it was before: %+v", d)
	}
	if host, _ := seenIn(host, active, ironic.Available); host.Status.Record.Deployment.Gone == nil {
		t.Error("undeployed by a conductor whose clock lags, and not noticed")
	}
	host, restored := seenIn(host, lagging, ironic.Available)
	if step, held := next(planned(host, restored)); step.String() != "manage" || held != nil {
		t.Errorf("restored as available: %s, held %+v", step, held)
	}
	host, node := seenIn(host, active, ironic.Active)
	if host, _ = seenIn(host, node, ironic.Deleting); host.Status.Record.Deployment.Gone == nil {
		t.Error("undeployed after it was active again, and not noticed")
	}
}

// TestClocksDoNotHideDeeds: a node that is undeployed is noticed although the time of that is before the one at which it became active,
// because the clock of its conductor lags, or Ironic's was set back.
func TestClocksDoNotHideDeeds(t *testing.T) {
	for name, test := range map[string]struct {
		passes   []ironic.ProvisionState // before it is available
		answered time.Duration           // after it became active
		isGone   bool
	}{
		"restored":                            {answered: time.Hour},
		"the API's clock is a little behind":  {answered: -30 * time.Second},
		"seen while it was cleaned":           {passes: []ironic.ProvisionState{ironic.Deleting, ironic.Cleaning}, answered: time.Hour, isGone: true},
		"seen while it was deployed, earlier": {passes: []ironic.ProvisionState{ironic.Deploying}, answered: time.Hour},
		"the clock was set back":              {answered: -time.Hour, isGone: true},
	} {
		host, active := provisionedBy()
		host, _ = seenIn(host, active, ironic.Active)
		node, since := *active, *active.ProvisionUpdatedAt
		earlier := since.Add(-time.Minute)
		node.ProvisionUpdatedAt, node.AnsweredAt = &earlier, since.Add(test.answered)
		for _, state := range append(test.passes, ironic.Available) {
			host, _ = seenIn(host, &node, state)
		}
		if d := host.Status.Record.Deployment; (d.Gone != nil) != test.isGone || d.MayAdopt == test.isGone {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// TestNothingIsConfirmedOfWhatIsWiped: a person cannot know what a machine runs that Ironic undeploys or cleans at this moment.
func TestNothingIsConfirmedOfWhatIsWiped(t *testing.T) {
	for state, want := range map[ironic.ProvisionState]bool{ironic.Active: true, ironic.Available: true, ironic.Deleting: false, ironic.Cleaning: false, ironic.CleanWait: false} {
		host, node := provisionedBy()
		node.ProvisionState = state
		before := host.Status.DeepCopy()
		err := TakeOver(host, node, now)
		if (err == nil) != want {
			t.Errorf("%s: %v", state, err)
		}
		if err != nil && !equality.Semantic.DeepEqual(*before, host.Status) {
			t.Errorf("%s: refused, and the status is changed", state)
		}
	}
}
