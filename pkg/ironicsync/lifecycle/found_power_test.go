// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// found is a host whose machine runs something that this server has not deployed, and its node.
type found struct {
	t    *testing.T
	host *metal3.BareMetalHost
	node *ironic.Node
}

// findExternal is an external host whose YAML leaves spec.online out, before anything is known of its node, which is active.
func findExternal(t *testing.T) *found {
	f := &found{t: t, host: newHost(externallyProvisioned, offline)}
	changed := now.Add(-time.Hour)
	f.node = nodeIn(ironic.Active, func(n *ironic.Node) {
		n.UUID, n.Name, n.Driver, n.ProvisionUpdatedAt, n.AnsweredAt = f.host.Status.Provisioning.ID, NodeName(f.host), "ipmi", &changed, now
		n.InstanceUUID = "11111111-1111-4111-8111-111111111111"
	})
	return f
}

// sees has the server observe the node, as it is after a change, and register it.
func (f *found) sees(change ...func(*ironic.Node)) {
	for _, c := range change {
		c(f.node)
	}
	f.host = f.host.DeepCopy()
	f.host.Status, _ = Observe(f.host, Observation{Node: f.node, Cluster: "this"}, now)
}

func (f *found) registers() {
	SetTriedCredentials(f.host, "7", now)
	registeredAs()(f.host)
	f.node.Marks = ironic.Marks{Host: ironic.Text(f.host.UID), Cluster: "this"}
	f.sees()
}

func (f *found) next() Step {
	return Next(Situation{Host: f.host, SecretVersion: "7", MaxRetries: 3, ObservedAt: now, IronicNow: now, Cluster: "this", Claim: Claim{OtherNodes: OtherNodes{AsOf: now}}, PowerCutKnownFor: powerCutGrace})
}

// arrives lets the host go from state to state, and returns the first step that is another one.
func (f *found) arrives() Step {
	for range 9 {
		step := f.next()
		if step.Do != SetState {
			return step
		}
		Enter(f.host, step, now)
		f.sees()
	}
	f.t.Fatalf("it comes to no end: %s", f.next())
	return Step{}
}

// isConfirmed has the host held for a reason, and a person confirm its node.
func (f *found) isConfirmed(reason string) {
	f.t.Helper()
	SetHold(f.host, Step{Reason: reason, Message: "a test"})
	if err := TakeOver(f.host, f.node, now); err != nil {
		f.t.Fatal(err)
	}
	f.registers()
}

// moves brings the host, with its status, into another cluster.
func (f *found) moves() {
	f.t.Helper()
	text, err := json.Marshal(f.host.Status)
	if err != nil {
		f.t.Fatal(err)
	}
	f.host = f.host.DeepCopy()
	f.host.UID, f.host.Finalizers, f.host.Status = "another", nil, metal3.BareMetalHostStatus{}
	metav1.SetMetaDataAnnotation(&f.host.ObjectMeta, metal3.StatusAnnotation, string(text))
	if err := StartManaging(f.host, metal3.StateRegistering, now); err != nil {
		f.t.Fatal(err)
	}
	f.node.Marks = ironic.Marks{}
}

// TestFoundRunning: a machine that runs when it is taken over runs on although spec.online, which was left out, is false; whoever finds
// out what it runs, and whether or not a person has to confirm that. It ends when spec.online has been true.
func TestFoundRunning(t *testing.T) {
	powerUnknown := func(n *ironic.Node) { n.PowerState = "" }
	on := func(n *ironic.Node) { n.PowerState = ironic.PowerOn }
	in := func(state ironic.ProvisionState) func(*ironic.Node) {
		return func(n *ironic.Node) {
			changed := n.ProvisionUpdatedAt.Add(time.Minute)
			n.ProvisionState, n.ProvisionUpdatedAt = state, &changed
		}
	}
	for name, test := range map[string]struct {
		is   func(f *found)
		want string // Wait if the machine runs on
	}{
		"its node is active":     {func(f *found) { f.sees() }, "Wait"},
		"its node is adopted":    {func(f *found) { f.sees(in(ironic.Manageable)); f.arrives(); f.sees(in(ironic.Active)) }, "Wait"},
		"off, and switched on":   {func(f *found) { f.sees(off); f.arrives(); f.sees(on) }, "soft-power-off"},
		"its power is not known": {func(f *found) { f.sees(powerUnknown); f.arrives(); f.sees(on) }, "Wait"},
		"its power is in error":  {func(f *found) { f.sees(powerError); f.arrives(); f.sees(on) }, "Wait"},
		"of a former cluster": {func(f *found) {
			f.node.Marks.Cluster = "former"
			f.sees()
			f.isConfirmed(metal3.NodeOfAnotherClusterReason)
		}, "Wait"},
		"confirmed, off":         {func(f *found) { f.sees(off); f.isConfirmed(metal3.NodeOfAnotherClusterReason); f.arrives(); f.sees(on) }, "soft-power-off"},
		"confirmed once more":    {func(f *found) { f.sees(); f.arrives(); f.isConfirmed(metal3.BMCInUseReason) }, "Wait"},
		"confirmed after online": {func(f *found) { f.sees(); f.arrives(); f.online(); f.isConfirmed(metal3.BMCInUseReason) }, "soft-power-off"},
		"deployed by another": {func(f *found) {
			f.sees()
			f.arrives()
			f.node.InstanceUUID = "22222222-2222-4222-8222-222222222222"
			f.sees()
			f.isConfirmed(metal3.AnotherDeploymentReason)
		}, "Wait"},
		"moved": {func(f *found) { f.sees(); f.arrives(); f.moves(); f.sees(); f.registers() }, "Wait"},
		"moved, online before": {func(f *found) {
			f.sees()
			f.arrives()
			f.online()
			f.moves()
			f.sees(off)
			f.registers()
			f.sees(on)
		}, "soft-power-off"},
		"moved to another Ironic": {func(f *found) {
			f.sees()
			f.arrives()
			f.moves()
			f.sees(in(ironic.Manageable))
			f.registers()
			f.node.InstanceUUID = AdoptedInstanceUUID(f.host)
			f.sees(in(ironic.Active))
		}, "Wait"},
		"moved, and undeployed": {func(f *found) {
			f.sees()
			f.arrives()
			f.moves()
			f.node.InstanceUUID = ""
			f.sees(in(ironic.Available))
			f.registers()
			f.isConfirmed(metal3.DeploymentGoneReason)
			f.sees(in(ironic.Manageable))
			f.sees(in(ironic.Adopting))
			f.node.InstanceUUID = InstanceUUID(f.host)
			f.sees(in(ironic.Active))
		}, "Wait"},
		"by an operator, on an available host": {func(f *found) {
			f.host.Spec.ExternallyProvisioned = false
			withState(metal3.StateAvailable)(f.host)
			prepared(f.host)
			f.sees()
		}, "Wait"},
		"deployed by the Bare Metal Operator, and to be off": {func(f *found) {
			f.host.Spec.ExternallyProvisioned = false
			withState(metal3.StateProvisioned)(f.host)
			f.host.Status.Provisioning.Image = metal3.Image{URL: "http://images/v1"}
			wantsImage("http://images/v1")(f.host)
			f.node.InstanceUUID = string(f.host.UID)
			f.sees()
			f.registers()
		}, "soft-power-off"},
		"its power is cut":       {func(f *found) { f.sees(); f.arrives(); CutPower(f.host, f.node, now.Add(-time.Minute)); f.sees() }, "power-off"},
		"and the button pressed": {func(f *found) { f.sees(); f.arrives(); CutPower(f.host, f.node, now); f.sees(off); f.sees(on) }, "soft-power-off"},
		"that was refused": {func(f *found) {
			f.sees()
			f.arrives()
			before := f.host.DeepCopy()
			CutPower(f.host, f.node, now)
			ForgetPowerCut(f.host)
			KeepPowerAs(before, f.host)
			f.sees()
		}, "Wait:4m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			f := findExternal(t)
			test.is(f)
			if step := f.arrives(); step.String() != test.want {
				t.Errorf("%s, want %s; it is recorded: %+v", step, test.want, f.host.Status.Record.Deployment)
			}
			if !strings.HasPrefix(test.want, "Wait") {
				return
			}
			f.online()
			if step := f.arrives(); step.String() != "soft-power-off" {
				t.Errorf("after spec.online was true and false again: %s", step)
			}
		})
	}
}

// online has spec.online be true for a while.
func (f *found) online() {
	f.host.Spec.Online = true
	f.sees()
	f.host.Spec.Online = false
	f.sees()
}

// asks takes a step that switches the power.
func (f *found) asks(want string) {
	f.t.Helper()
	step := f.arrives()
	if step.String() != want {
		f.t.Fatalf("%s, want %s; %+v", step, want, f.host.Status.Record)
	}
	switch step.Do {
	case SwitchPower:
		if MustAskPower(step) {
			AskPower(f.host, step, false, askedPrecision, now)
		}
		if step.Power == ironic.TargetPowerOn {
			f.node.PowerState = ironic.PowerOn
		} else {
			f.node.PowerState = ironic.PowerOff
		}
	case ClearRebootRequest:
		RemoveRebootAnnotation(f.host)
	case ForgetReboots:
		ForgetGoneReboots(f.host, now)
	}
	f.sees()
}

func (f *found) annotate(key, value string) {
	metav1.SetMetaDataAnnotation(&f.host.ObjectMeta, key, value)
	f.sees()
}

func (f *found) removes(key string) {
	delete(f.host.Annotations, key)
	f.sees()
}

// TestKeptIsRebooted: a machine that is left on although spec.online is false is on again after a reboot, and when it is not to be kept
// off any more. One that somebody else has switched off is not switched on.
func TestKeptIsRebooted(t *testing.T) {
	const key = metal3.RebootAnnotationPrefix + "fence"
	for name, script := range map[string]func(f *found){
		"once": func(f *found) {
			f.annotate(metal3.RebootAnnotation, "")
			f.asks("soft-power-off")
			f.asks("ClearRebootRequest")
			f.asks("power-on")
			f.asks("ForgetReboots")
			f.asks("Wait")
		},
		"kept off for a while": func(f *found) {
			f.annotate(key, `{"mode":"hard"}`)
			f.asks("power-off")
			f.asks("Wait")
			f.annotate(key, "")
			f.asks("Wait")
			f.removes(key)
			f.asks("power-on")
			f.asks("ForgetReboots")
			f.asks("Wait")
		},
		"called off before it was off": func(f *found) {
			f.annotate(key, "")
			AskPower(f.host, f.arrives(), false, askedPrecision, now)
			f.removes(key)
			f.asks("Wait:4m0s") // it may still come
			f.sees(off)
			f.asks("power-on")
			f.asks("ForgetReboots")
			f.asks("Wait")
		},
		"never off any more": func(f *found) {
			f.annotate(key, "")
			f.asks("soft-power-off")
			f.host.Spec.DisablePowerOff = true
			f.removes(key)
			f.asks("power-on")
		},
		"to be off by then": func(f *found) {
			f.annotate(key, "")
			f.asks("soft-power-off")
			f.online()
			f.removes(key)
			f.asks("ForgetReboots")
			f.asks("Wait")
		},
		"the button is pressed": func(f *found) {
			f.sees(off)
			f.asks("Wait")
			f.annotate(key, "")
			f.asks("Wait")
			f.removes(key)
			f.asks("Wait")
			f.sees(func(n *ironic.Node) { n.PowerState = ironic.PowerOn })
			f.asks("Wait")
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := findExternal(t)
			f.sees()
			f.asks("Wait")
			script(f)
		})
	}
}
