// SPDX-License-Identifier: Apache-2.0

package baremetalhost_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// everyDataImage has a DataImage for each host.
type everyDataImage struct{}

func (everyDataImage) Get(context.Context, string, string) (*metal3.DataImage, error) {
	return &metal3.DataImage{}, nil
}

// unreadableDataImages cannot be read from etcd.
type unreadableDataImages struct{}

func (unreadableDataImages) Get(context.Context, string, string) (*metal3.DataImage, error) {
	return nil, errors.New("etcd is away")
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
	sources := baremetalhost.Sources{Hosts: o, Ironic: neverSwitched{o, t}.ironic, Nodes: o, Events: enginetest.NoEvents{}}
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

// What the controller does not do now is asked of Ironic, as it is without a DataImage or a policy: it would stay undone, or be done when
// nobody expects it any more. (A host whose BMC another node has is refused everything.)
func TestPowerOfHostLeftAlone(t *testing.T) {
	held := func(reason string) func(*metal3.BareMetalHost, *ironic.Node) {
		return func(h *metal3.BareMetalHost, _ *ironic.Node) {
			h.Status.Record.Hold = &metal3.Hold{Reason: reason, Message: "held"}
		}
	}
	in := func(state ironic.ProvisionState) func(*metal3.BareMetalHost, *ironic.Node) {
		return func(_ *metal3.BareMetalHost, n *ironic.Node) { n.ProvisionState = state }
	}
	for name, test := range map[string]struct {
		change func(*metal3.BareMetalHost, *ironic.Node)
		// attaches and services are set if the controller does attach the DataImage, or change settings, before it switches the host on;
		// reboots is set if it does reboot it.
		attaches, services, reboots bool
	}{
		"nothing is amiss":      {func(*metal3.BareMetalHost, *ironic.Node) {}, true, true, true},
		"etcd restored":         {change: held(metal3.RestoredReason)},
		"operator running":      {change: held(metal3.OperatorRunningReason)},
		"deployment gone":       {change: held(metal3.DeploymentGoneReason)},
		"another deployment":    {change: held(metal3.AnotherDeploymentReason), attaches: true},
		"rescued":               {change: in(ironic.Rescue)},
		"another one's service": {change: in(ironic.ServiceFail)},
		"paused": {change: func(h *metal3.BareMetalHost, _ *ironic.Node) {
			h.Annotations = map[string]string{metal3.PausedAnnotation: ""}
		}},
		"maintenance": {change: func(_ *metal3.BareMetalHost, n *ironic.Node) { n.Maintenance, n.MaintenanceReason = true, "a disk" }},
		"the BMC is silent": {func(_ *metal3.BareMetalHost, n *ironic.Node) {
			n.Maintenance, n.Fault = true, ironic.FaultPowerFailure
		}, true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			checkLeft(t, "on, DataImage", askPower(t, metal3.PowerActionOn, everyDataImage{}, noPolicies{}, test.change), test.attaches, ironic.TargetPowerOn)
			checkLeft(t, "on, policy", askPower(t, metal3.PowerActionOn, noDataImages{}, onReboot{}, test.change), test.services, ironic.TargetPowerOn)
			checkLeft(t, "on, both", askPower(t, metal3.PowerActionOn, everyDataImage{}, onReboot{}, test.change), test.attaches, ironic.TargetPowerOn)
			checkLeft(t, "reboot, policy", askPower(t, metal3.PowerActionReboot, noDataImages{}, onReboot{}, test.change), test.reboots, ironic.TargetReboot)
			checkLeft(t, "reboot, DataImage", askPower(t, metal3.PowerActionReboot, everyDataImage{}, noPolicies{}, test.change), false, ironic.TargetReboot)
		})
	}
}

// ofFormer is the metadata of what a former host of the name has left.
var ofFormer = metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "BareMetalHost", Name: "worker-0", UID: "former"}}}

type formerDataImage struct{}

func (formerDataImage) Get(context.Context, string, string) (*metal3.DataImage, error) {
	return &metal3.DataImage{ObjectMeta: ofFormer}, nil
}

type formerPolicy struct{ onReboot }

func (f formerPolicy) Get(ctx context.Context, namespace, name string) (*metal3.HostUpdatePolicy, error) {
	policy, err := f.onReboot.Get(ctx, namespace, name)
	policy.ObjectMeta = ofFormer
	return policy, err
}

// A host does not wait for what a former host of its name has left.
func TestPowerWithWhatAFormerHostHasLeft(t *testing.T) {
	nothing := func(*metal3.BareMetalHost, *ironic.Node) {}
	checkLeft(t, "on", askPower(t, metal3.PowerActionOn, formerDataImage{}, formerPolicy{}, nothing), false, ironic.TargetPowerOn)
	checkLeft(t, "reboot", askPower(t, metal3.PowerActionReboot, formerDataImage{}, formerPolicy{}, nothing), false, ironic.TargetReboot)
}

// askPower asks for the power of a provisioned host, which is off if it is to be switched on.
func askPower(t *testing.T, action metal3.PowerAction, images store.Getter[*metal3.DataImage], policies store.Getter[*metal3.HostUpdatePolicy], change func(*metal3.BareMetalHost, *ironic.Node)) *switched {
	t.Helper()
	o := &oneHost{
		host: newHost("worker-0", func(h *metal3.BareMetalHost) {
			h.Spec.Online = action == metal3.PowerActionReboot
			h.Status.Provisioning.ID, h.Status.Provisioning.State = "n", metal3.StateProvisioned
		}),
		node:  &ironic.Node{UUID: "n", ProvisionState: ironic.Active, PowerState: ironic.PowerOff},
		reads: -1, writes: -1,
	}
	if action == metal3.PowerActionReboot {
		o.node.PowerState = ironic.PowerOn
	}
	change(o.host, o.node)
	asked := &switched{oneHost: o}
	sources := baremetalhost.Sources{Hosts: o, Ironic: asked.ironic, Nodes: o, Events: enginetest.NoEvents{}}
	power := baremetalhost.NewPowerREST(sources, baremetalhost.HostChangers{User: o, Own: o}, images, policies, o.cuts())
	request := &metal3.HostPower{Spec: metal3.HostPowerSpec{Action: action, Mode: metal3.PowerModeHard}}
	if _, err := power.(rest.NamedCreater).Create(genericapirequest.WithNamespace(t.Context(), storetest.Namespace), "worker-0", request, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); err != nil {
		t.Errorf("%s: %v", action, err)
	}
	return asked
}

// checkLeft checks that the power was left to the controller, or that Ironic was asked for target and nothing waits for the controller.
func checkLeft(t *testing.T, what string, asked *switched, left bool, target ironic.PowerTarget) {
	t.Helper()
	_, annotated := asked.host.Annotations[metal3.RebootAnnotation]
	if left {
		target = ""
	}
	if asked.target != target || annotated && !left || !asked.host.Spec.Online {
		t.Errorf("%s: Ironic was asked for %q, want %q; spec.online is %t, and there is an annotation: %t", what, asked.target, target, asked.host.Spec.Online, annotated)
	}
}

// TestPowerOnWithoutEtcd: who asks for on learns that spec.online is true now, for the controller acts on it.
func TestPowerOnWithoutEtcd(t *testing.T) {
	o := &oneHost{
		host: newHost("worker-0", func(h *metal3.BareMetalHost) {
			h.Status.Provisioning.ID, h.Status.Provisioning.State = "n", metal3.StateProvisioned
		}),
		node:  &ironic.Node{UUID: "n", ProvisionState: ironic.Active, PowerState: ironic.PowerOff},
		reads: -1, writes: -1,
	}
	sources := baremetalhost.Sources{Hosts: o, Ironic: neverSwitched{o, t}.ironic, Nodes: o, Events: enginetest.NoEvents{}}
	action := baremetalhost.NewPowerREST(sources, baremetalhost.HostChangers{User: o, Own: o}, unreadableDataImages{}, noPolicies{}, o.cuts())
	request := &metal3.HostPower{Spec: metal3.HostPowerSpec{Action: metal3.PowerActionOn}}
	_, err := action.(rest.NamedCreater).Create(genericapirequest.WithNamespace(t.Context(), storetest.Namespace), "worker-0", request, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "spec.online is true now") || !o.host.Spec.Online {
		t.Errorf("spec.online is %t: %v", o.host.Spec.Online, err)
	}
}
