// SPDX-License-Identifier: Apache-2.0

package baremetalhost_test

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/pkg/store/storetest"
)

// everyDataImage has a DataImage for each host.
type everyDataImage struct{}

func (everyDataImage) Get(context.Context, string, string) (*metal3.DataImage, error) {
	return &metal3.DataImage{}, nil
}

// neverSwitched fails the test if Ironic is asked for power.
type neverSwitched struct {
	*oneHost
	t *testing.T
}

func (n neverSwitched) ironic(*metal3.BareMetalHost) (baremetalhost.Ironic, error) { return n, nil }

func (n neverSwitched) SwitchPower(context.Context, ironic.Fence, string, ironic.PowerTarget) (ironic.PowerTarget, string, error) {
	n.t.Error("Ironic was asked for power, which is left to the controller")
	return "", "", nil
}

// A provisioned host with a DataImage is not switched on by the action itself, which would be too early
// for the image: the action sets spec.online, and says what it waits for.
func TestPowerOnWithDataImage(t *testing.T) {
	o := &oneHost{
		host: newHost("worker-0", func(h *metal3.BareMetalHost) {
			h.Status.Provisioning.ID, h.Status.Provisioning.State = "n", metal3.StateProvisioned
		}),
		node:  &ironic.Node{UUID: "n", ProvisionState: ironic.Active, PowerState: ironic.PowerOff},
		reads: -1, writes: -1,
	}
	sources := baremetalhost.Sources{Hosts: o, Ironic: neverSwitched{o, t}.ironic, Prover: o, Refresher: o, Passwords: o}
	action := baremetalhost.NewPowerREST(sources, baremetalhost.HostChangers{User: o, Own: o}, everyDataImage{}, noPolicies{}, o.cuts())
	request := &metal3.HostPower{Spec: metal3.HostPowerSpec{Action: metal3.PowerActionOn}}
	answer, err := action.(rest.NamedCreater).Create(genericapirequest.WithNamespace(t.Context(), storetest.Namespace), "worker-0", request, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if status := answer.(*metal3.HostPower).Status; !strings.Contains(status.Message, "as soon as its DataImage is attached") {
		t.Errorf("the answer is %+v", status)
	}
	if !o.host.Spec.Online {
		t.Error("spec.online is false")
	}
}

// switched notes that Ironic was asked for power.
type switched struct {
	*oneHost
	target ironic.PowerTarget
}

func (s *switched) ironic(*metal3.BareMetalHost) (baremetalhost.Ironic, error) { return s, nil }

func (s *switched) SwitchPower(_ context.Context, _ ironic.Fence, _ string, target ironic.PowerTarget) (ironic.PowerTarget, string, error) {
	s.target = target
	return target, "", nil
}

// A host with which the controller does nothing would stay as it is for ever if its power were left to that.
func TestPowerOfHostLeftAlone(t *testing.T) {
	for _, reason := range []string{metal3.RestoredReason, metal3.OperatorRunningReason, metal3.DeploymentGoneReason} {
		for _, test := range []struct {
			action metal3.PowerAction
			power  ironic.PowerState
			want   ironic.PowerTarget
		}{
			{metal3.PowerActionOn, ironic.PowerOff, ironic.TargetPowerOn},
			{metal3.PowerActionReboot, ironic.PowerOn, ironic.TargetReboot},
		} {
			o := &oneHost{
				host: newHost("worker-0", func(h *metal3.BareMetalHost) {
					h.Spec.Online = test.power == ironic.PowerOn
					h.Status.Provisioning.ID, h.Status.Provisioning.State = "n", metal3.StateProvisioned
					h.Status.Record.Hold = &metal3.Hold{Reason: reason, Message: "held"}
				}),
				node:  &ironic.Node{UUID: "n", ProvisionState: ironic.Active, PowerState: test.power},
				reads: -1, writes: -1,
			}
			asked := &switched{oneHost: o}
			sources := baremetalhost.Sources{Hosts: o, Ironic: asked.ironic, Prover: o, Refresher: o, Passwords: o}
			action := baremetalhost.NewPowerREST(sources, baremetalhost.HostChangers{User: o, Own: o}, everyDataImage{}, onReboot{}, o.cuts())
			request := &metal3.HostPower{Spec: metal3.HostPowerSpec{Action: test.action, Mode: metal3.PowerModeHard}}
			_, err := action.(rest.NamedCreater).Create(genericapirequest.WithNamespace(t.Context(), storetest.Namespace), "worker-0", request, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
			if err != nil || asked.target != test.want {
				t.Errorf("%s, %s: Ironic was asked for %q (%v)", reason, test.action, asked.target, err)
			}
		}
	}
}
