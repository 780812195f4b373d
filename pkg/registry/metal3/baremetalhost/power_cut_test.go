// SPDX-License-Identifier: Apache-2.0

package baremetalhost_test

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// deniedChanges are the changes of users whom admission denies them.
type deniedChanges struct{ *oneHost }

func (d deniedChanges) Change(context.Context, string, string, bool, func(*metal3.BareMetalHost) error) (*metal3.BareMetalHost, error) {
	return nil, apierrors.NewForbidden(metal3.Resource("baremetalhosts"), d.host.Name, errors.New("denied"))
}

// cutWhenOff is an etcd in which a host that is to be off must be known as one whose power is to be cut, or not.
type cutWhenOff struct {
	*oneHost
	t    *testing.T
	want bool
}

func (c cutWhenOff) Change(ctx context.Context, namespace, name string, dryRun bool, change func(*metal3.BareMetalHost) error) (*metal3.BareMetalHost, error) {
	if got := c.host.Status.Record.PowerCut != nil; got != c.want {
		c.t.Errorf("when spec.online is written, it is recorded that the power is to be cut: %t, want %t", got, c.want)
	}
	return c.oneHost.Change(ctx, storetest.Namespace, name, dryRun, change)
}

// TestHardPowerOffIsRecordedFirst checks that the leader knows of a hard power-off before it sees that the host is to be
// off, and that the record does not outlive a refusal.
func TestHardPowerOffIsRecordedFirst(t *testing.T) {
	for name, test := range map[string]struct {
		spec           metal3.HostPowerSpec
		power          ironic.PowerState
		denied         bool
		answer         error
		recorded, left bool
		mayCome        bool // the request, later
	}{
		"hard":                  {spec: metal3.HostPowerSpec{Action: metal3.PowerActionOff, Mode: metal3.PowerModeHard}, power: ironic.PowerOn, recorded: true, left: true},
		"power unknown":         {spec: metal3.HostPowerSpec{Action: metal3.PowerActionOff, Mode: metal3.PowerModeHard}, recorded: true, left: true},
		"off already":           {spec: metal3.HostPowerSpec{Action: metal3.PowerActionOff, Mode: metal3.PowerModeHard}, power: ironic.PowerOff},
		"soft":                  {spec: metal3.HostPowerSpec{Action: metal3.PowerActionOff, Mode: metal3.PowerModeSoft}, power: ironic.PowerOn},
		"denied by admission":   {spec: metal3.HostPowerSpec{Action: metal3.PowerActionOff, Mode: metal3.PowerModeHard}, power: ironic.PowerOn, denied: true},
		"refused by Ironic":     {spec: metal3.HostPowerSpec{Action: metal3.PowerActionOff, Mode: metal3.PowerModeHard}, power: ironic.PowerOn, answer: &ironic.APIError{Status: 400, Op: "test", Message: "sealed"}, recorded: true},
		"no conductor":          {spec: metal3.HostPowerSpec{Action: metal3.PowerActionOff, Mode: metal3.PowerModeHard}, power: ironic.PowerOn, answer: &ironic.APIError{Status: 404, Op: "test", Message: "No valid host was found. Reason: No conductor service registered which supports driver ipmi for conductor group \"\"."}, recorded: true, left: true},
		"no answer of Ironic's": {spec: metal3.HostPowerSpec{Action: metal3.PowerActionOff, Mode: metal3.PowerModeHard}, power: ironic.PowerOn, answer: errors.New("odd"), recorded: true, left: true, mayCome: true},
		"locked":                {spec: metal3.HostPowerSpec{Action: metal3.PowerActionOff, Mode: metal3.PowerModeHard}, power: ironic.PowerOn, answer: &ironic.APIError{Status: 409, Op: "test", Message: "Node n is locked by host c"}, recorded: true, left: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := &oneHost{
				host:  newHost("worker-0", func(h *metal3.BareMetalHost) { h.Spec.Online, h.Status.Provisioning.ID = true, "n" }),
				node:  &ironic.Node{UUID: "n", ProvisionState: ironic.Available, PowerState: test.power},
				reads: -1, writes: -1, answer: test.answer,
			}
			var user baremetalhost.HostChanger = cutWhenOff{o, t, test.recorded}
			if test.denied {
				user = deniedChanges{o}
			}
			sources := baremetalhost.Sources{Hosts: o, Ironic: o.ironic, Nodes: o, Events: enginetest.NoEvents{}}
			action := baremetalhost.NewPowerREST(sources, baremetalhost.HostChangers{User: user, Own: o}, noDataImages{}, noPolicies{}, o.cuts())
			_, err := action.(rest.NamedCreater).Create(genericapirequest.WithNamespace(t.Context(), storetest.Namespace), "worker-0", &metal3.HostPower{Spec: test.spec}, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
			if (err != nil) != (test.denied || test.answer != nil) {
				t.Error(err)
			}
			if online := o.host.Spec.Online; online == test.left && test.power != ironic.PowerOff && test.spec.Mode == metal3.PowerModeHard {
				t.Errorf("afterwards, spec.online is %t", online)
			}
			if got := o.host.Status.Record.PowerCut != nil; got != test.left {
				t.Errorf("afterwards, it is recorded that the power is to be cut: %t, want %t", got, test.left)
			}
			if got := o.host.Status.Record.AskedPower != nil; got != test.mayCome {
				t.Errorf("afterwards, it is recorded that the request may still be carried out: %t, want %t", got, test.mayCome)
			}
		})
	}
}

// TestPowerOfMachineThatIsLeftOn: who switches a machine that is left on although spec.online is false means it, whether Ironic takes the
// request now or not; unless it is refused.
func TestPowerOfMachineThatIsLeftOn(t *testing.T) {
	refusal := &ironic.APIError{Status: 400, Op: "test", Message: "sealed"}
	noConductor := &ironic.APIError{Status: 404, Op: "test", Message: "No valid host was found. Reason: No conductor service registered which supports driver ipmi for conductor group \"\"."}
	off := metal3.HostPowerSpec{Action: metal3.PowerActionOff, Mode: metal3.PowerModeSoft}
	hard := metal3.HostPowerSpec{Action: metal3.PowerActionOff, Mode: metal3.PowerModeHard}
	for name, test := range map[string]struct {
		spec   metal3.HostPowerSpec
		power  ironic.PowerState
		dryRun []string
		answer error
		left   bool // it is left on
	}{
		"off":               {spec: off, power: ironic.PowerOn},
		"off, no conductor": {spec: off, power: ironic.PowerOn, answer: noConductor},
		"off, refused":      {spec: off, power: ironic.PowerOn, answer: refusal, left: true},
		"off, which it is":  {spec: off, power: ironic.PowerOff},
		"off, only checked": {spec: off, power: ironic.PowerOn, dryRun: []string{metav1.DryRunAll}, left: true},
		"on, refused":       {spec: metal3.HostPowerSpec{Action: metal3.PowerActionOn}, power: ironic.PowerOn, answer: refusal, left: true},
		"cut":               {spec: hard, power: ironic.PowerOn},
		"cut, which it is":  {spec: hard, power: ironic.PowerOff},
		"cut, no conductor": {spec: hard, power: ironic.PowerOn, answer: noConductor},
		"cut, locked":       {spec: hard, power: ironic.PowerOn, answer: &ironic.APIError{Status: 409, Op: "test", Message: "Node n is locked by host c"}},
		"cut, no answer":    {spec: hard, power: ironic.PowerOn, answer: errors.New("odd")},
		"cut, refused":      {spec: hard, power: ironic.PowerOn, answer: refusal, left: true},
		"cut, only checked": {spec: hard, power: ironic.PowerOn, dryRun: []string{metav1.DryRunAll}, left: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := &oneHost{
				host: newHost("worker-0", func(h *metal3.BareMetalHost) {
					h.Spec.Online, h.Spec.ExternallyProvisioned = false, true
					h.Status.Provisioning.ID, h.Status.Provisioning.State = "n", metal3.StateExternallyProvisioned
					h.Status.Record.Deployment = &metal3.Deployment{NodeUUID: "n", InstanceUUID: "i", KeepPower: true}
				}),
				node:  &ironic.Node{UUID: "n", InstanceUUID: "i", ProvisionState: ironic.Active, PowerState: test.power},
				reads: -1, writes: -1, answer: test.answer,
			}
			sources := baremetalhost.Sources{Hosts: o, Ironic: o.ironic, Nodes: o, Events: enginetest.NoEvents{}}
			action := baremetalhost.NewPowerREST(sources, baremetalhost.HostChangers{User: o, Own: o}, noDataImages{}, noPolicies{}, o.cuts())
			_, err := action.(rest.NamedCreater).Create(genericapirequest.WithNamespace(t.Context(), storetest.Namespace), "worker-0", &metal3.HostPower{Spec: test.spec}, rest.ValidateAllObjectFunc, &metav1.CreateOptions{DryRun: test.dryRun})
			if (err != nil) != (test.answer != nil) {
				t.Error(err)
			}
			if left := o.host.Status.Record.Deployment.KeepPower; left != test.left || o.host.Spec.Online {
				t.Errorf("it is left on: %t, want %t; spec.online is %t", left, test.left, o.host.Spec.Online)
			}
			if test.spec.Action != metal3.PowerActionOn {
				return
			}
			for _, host := range o.written {
				if !host.Spec.Online && !host.Status.Record.Deployment.KeepPower {
					t.Error("for a moment, the leader is to switch it off")
				}
			}
		})
	}
}
