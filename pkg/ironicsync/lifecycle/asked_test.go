// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWaitForLateRequestIsTold: who waits for a deployment to begin sees why it does not, and until when.
func TestWaitForLateRequestIsTold(t *testing.T) {
	host, node := provisionedBy()
	host = observed(host, node)
	Ask(host, provision(ironic.TargetDeleted, metal3.ProvisioningError), false, askedPrecision, now)
	host.Status.Record.Asked.Times = 2
	host.Status.Provisioning.State, host.Status.Ironic.ProvisionState = metal3.StateProvisioning, string(ironic.Available)
	Render(host, now.Add(time.Minute))
	want := "nothing is deployed before " + now.Add(metal3.AskedLimit).UTC().Format(time.RFC3339)
	if c := meta.FindStatusCondition(host.Status.Conditions, metal3.ProgressingCondition); c == nil || !strings.Contains(c.Message, want) {
		t.Errorf("the condition Progressing is %+v", c)
	}
}

// TestLostRequests: a request counts as lost when this process has known it for metal3.AskedLimit, whatever the clock of the process was
// that has sent it, and even if the host is paused. One that was refused or answered is forgotten when there is nothing else to do.
func TestLostRequests(t *testing.T) {
	const most = metal3.AskedLimit - time.Second
	powerOn := func(h *metal3.BareMetalHost) { BeginPowerOn(h, "1", "u", now) }
	for name, test := range map[string]struct {
		host      func(*metal3.BareMetalHost)
		situation func(*Situation)
		want      string
	}{
		"just asked":        {want: "Wait:4m0s"},
		"known for a while": {situation: func(s *Situation) { s.AskedKnownFor = most }, want: "Wait:1s"},
		"lost":              {situation: func(s *Situation) { s.AskedKnownFor = metal3.AskedLimit }, want: "ForgetLost:deleted"},
		"lost, and paused": {host: func(h *metal3.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.PausedAnnotation, "")
		}, situation: func(s *Situation) { s.AskedKnownFor = metal3.AskedLimit }, want: "ForgetLost:deleted"},
		"lost, and all is held":         {situation: func(s *Situation) { s.AskedKnownFor, s.Restored = metal3.AskedLimit, "etcd was restored" }, want: "Hold"},
		"by a clock that was behind":    {host: func(h *metal3.BareMetalHost) { h.Status.Record.Asked.At = metav1.NewTime(now.Add(-time.Hour)) }, want: "Wait:4m0s"},
		"by a clock that was ahead":     {host: func(h *metal3.BareMetalHost) { h.Status.Record.Asked.At = metav1.NewTime(now.Add(time.Hour)) }, want: "Wait:4m0s"},
		"refused":                       {situation: func(s *Situation) { s.AskedInVain = true }, want: "ForgetLost:deleted"},
		"refused, and not the only one": {host: func(h *metal3.BareMetalHost) { h.Status.Record.Asked.Times = 2 }, situation: func(s *Situation) { s.AskedInVain = true }, want: "Wait:4m0s"},
		"a power-off":                   {host: askedPower(ironic.TargetPowerOff, 2), situation: func(s *Situation) { s.AskedKnownFor, s.AskedPowerKnownFor = time.Second, most }, want: "Wait:1s"},
		"a power-off that is lost":      {host: askedPower(ironic.TargetPowerOff, 2), situation: func(s *Situation) { s.AskedPowerKnownFor = metal3.AskedLimit }, want: "ForgetLost:power off"},
		"a power-off that was answered": {host: func(h *metal3.BareMetalHost) { askedPower(ironic.TargetPowerOff, 1)(h); h.Status.Record.Asked = nil }, situation: func(s *Situation) { s.PowerAnswered = true }, want: "ForgetLost:power off"},
		"a power-on":                    {host: powerOn, situation: func(s *Situation) { s.AskedKnownFor, s.PowerOnsKnownFor = time.Second, most }, want: "Wait:1s"},
		"a power-on that is lost":       {host: powerOn, situation: func(s *Situation) { s.PowerOnsKnownFor = metal3.AskedLimit }, want: "ForgetLost:power on"},
		"only finalizers of others are left": {host: func(h *metal3.BareMetalHost) {
			h.DeletionTimestamp, h.Finalizers = &metav1.Time{Time: now}, []string{"another"}
		}, want: "Wait:4m0s"},
	} {
		host := newHost(provisionedHost...)
		asked(ironic.TargetDeleted, ironic.Active)(host)
		if test.host != nil {
			test.host(host)
		}
		s := planned(host, nodeIn(ironic.Active))
		if test.situation != nil {
			test.situation(&s.Situation)
		}
		if step := nextOf(s); step.String() != test.want {
			t.Errorf("%s: %s, want %s", name, step, test.want)
		}
	}
}

// TestAsked: for how long a request counts as one that may still be carried out.
func TestAsked(t *testing.T) {
	undeploy := provision(ironic.TargetDeleted, metal3.ProvisioningError)
	again := now.Add(30 * time.Second)
	for name, test := range map[string]struct {
		then func(host *metal3.BareMetalHost)
		seen func(node *ironic.Node)
		at   time.Duration
		want int // times
	}{
		"nothing is seen of it":       {want: 1},
		"minutes later":               {at: 3 * time.Minute, want: 1},
		"long ago, by this clock":     {at: metal3.AskedLimit + time.Second, want: 1},
		"carried out":                 {seen: func(n *ironic.Node) { n.ProvisionState, n.ProvisionUpdatedAt = ironic.Deleting, &again }, want: 0},
		"lost, and created again":     {then: func(h *metal3.BareMetalHost) { h.Status, _ = Observe(h, Observation{}, again) }, seen: func(n *ironic.Node) { n.ProvisionState, n.ProvisionUpdatedAt = ironic.Enroll, &again }, want: 2},
		"another node":                {seen: func(n *ironic.Node) { n.UUID = "another" }, want: 0},
		"asked again":                 {then: func(h *metal3.BareMetalHost) { Ask(h, undeploy, false, askedPrecision, again) }, want: 2},
		"asked again after a refusal": {then: func(h *metal3.BareMetalHost) { Ask(h, undeploy, true, askedPrecision, again) }, want: 1},
		"asked three times": {then: func(h *metal3.BareMetalHost) {
			Ask(h, undeploy, false, askedPrecision, again)
			Ask(h, undeploy, false, askedPrecision, again)
		}, want: 2},
		"asked again, one carried out": {then: func(h *metal3.BareMetalHost) { Ask(h, undeploy, false, askedPrecision, again) }, seen: func(n *ironic.Node) { n.ProvisionState, n.ProvisionUpdatedAt = ironic.Deleting, &again }, want: 2},
	} {
		host, node := provisionedBy()
		host = observed(host, node)
		if !Ask(host, undeploy, false, askedPrecision, now) {
			t.Fatal("not recorded")
		}
		if Ask(host.DeepCopy(), undeploy, true, 50*time.Second, now.Add(50*time.Second)) {
			t.Error("the same is written again, 50 s after it was refused")
		}
		ahead := host.DeepCopy()
		ahead.Status.Record.Asked.At = metav1.NewTime(now.Add(time.Hour))
		if !Ask(ahead, undeploy, true, askedPrecision, now) {
			t.Error("a repetition is not recorded because a clock was ahead")
		}
		if test.then != nil {
			test.then(host)
		}
		if test.seen != nil {
			test.seen(node)
		}
		status, _ := Observe(host, Observation{Node: node}, now.Add(test.at))
		got := 0
		if status.Record.Asked != nil {
			got = status.Record.Asked.Times
		}
		if got != test.want {
			t.Errorf("%s: asked for %d times, want %d", name, got, test.want)
		}
	}
}

// TestAskedWhileItGoesOn: a deployment or a service that goes on is not its end, which may still come.
func TestAskedWhileItGoesOn(t *testing.T) {
	undeploy := provision(ironic.TargetDeleted, metal3.ProvisioningError)
	for _, test := range []struct {
		asked, seen ironic.ProvisionState
		still       bool
	}{
		{ironic.DeployWait, ironic.Deploying, true},
		{ironic.DeployWait, ironic.Active, true},
		{ironic.DeployWait, ironic.DeployFail, true},
		{ironic.DeployFail, ironic.Deploying, true},
		{ironic.ServiceWait, ironic.Active, true},
		{ironic.ServiceWait, ironic.ServiceFail, true},
		{ironic.Rescue, ironic.Active, true},
		{ironic.DeployWait, ironic.Deleting, false},
		{ironic.DeployWait, ironic.Error, false},
		{ironic.DeployWait, ironic.Cleaning, false},
		{ironic.ServiceFail, ironic.Available, false},
		{ironic.Error, ironic.Deleting, false},
		{ironic.Error, ironic.Error, false},
	} {
		host, node := provisionedBy()
		host.Spec.Image = nil
		host, node = seenIn(host, node, test.asked)
		Enter(host, setState(metal3.StateDeprovisioning), now)
		Ask(host, undeploy, false, askedPrecision, now)
		again := node.ProvisionUpdatedAt.Add(time.Second)
		node.ProvisionState, node.ProvisionUpdatedAt = test.seen, &again
		status, _ := Observe(host, Observation{Node: node}, now)
		if still := status.Record.Asked != nil; still != test.still {
			t.Errorf("asked for in %s, then %s: it may still come: %t, want %t", test.asked, test.seen, still, test.still)
		}
	}
}

// TestDeploymentMayStillCome: nothing else is deployed, and no host is let go, while a request for a deployment may be carried out.
func TestDeploymentMayStillCome(t *testing.T) {
	another := wantsImage("http://images/b")
	for name, test := range map[string]struct {
		host  hostOption
		known time.Duration
		want  string
	}{
		"another image":                 {host: another, want: "Wait:4m0s"},
		"another image, and it is lost": {host: another, known: metal3.AskedLimit, want: "ForgetLost:active"},
		"deleted":                       {host: deleted, want: "Wait:4m0s"},
		"deleted, and it is lost":       {host: deleted, known: metal3.AskedLimit, want: "ForgetLost:active"},
	} {
		host := newHost(withState(metal3.StateAvailable), prepared, withPower(true), test.host)
		asked(ironic.TargetActive, ironic.Available)(host)
		s := planned(host, nodeIn(ironic.Available))
		s.AskedKnownFor = test.known
		if step := nextOf(s); step.String() != test.want {
			t.Errorf("%s: %s, want %s", name, step, test.want)
		}
		host.Status.Record.Asked = nil
		if step := nextOf(planned(host, nodeIn(ironic.Available))); step.Do != SetState {
			t.Errorf("%s: %s, if nothing was asked for", name, step)
		}
	}
}
