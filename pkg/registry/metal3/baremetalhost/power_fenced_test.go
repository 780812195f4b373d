// SPDX-License-Identifier: Apache-2.0

package baremetalhost_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
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

// meanwhile is an etcd and an Ironic during whose answers somebody else changes the host.
type meanwhile struct {
	*oneHost
	// looked is called when Ironic has shown the node for the first time, and wrote when the user's change is written.
	looked, wrote func(*metal3.BareMetalHost)
	// switched are the requests for power.
	switched []ironic.PowerTarget
	// asked are those for states.
	asked []ironic.ProvisionTarget
	// recorded is whether a request that leads to a machine that is on was recorded when the last one was sent.
	recorded bool
}

func (m *meanwhile) ironic(*metal3.BareMetalHost) (baremetalhost.Ironic, error) { return m, nil }

func (m *meanwhile) change(change *func(*metal3.BareMetalHost)) {
	if *change != nil {
		m.host = m.host.DeepCopy()
		(*change)(m.host)
		*change = nil
	}
}

func (m *meanwhile) GetNode(ctx context.Context, id string) (*ironic.Node, error) {
	defer m.change(&m.looked)
	return m.oneHost.GetNode(ctx, id)
}

func (m *meanwhile) Change(ctx context.Context, namespace, name string, dryRun bool, change func(*metal3.BareMetalHost) error) (*metal3.BareMetalHost, error) {
	written, err := m.oneHost.Change(ctx, storetest.Namespace, name, dryRun, change)
	m.change(&m.wrote)
	return written, err
}

func (m *meanwhile) SwitchPower(_ context.Context, _ ironic.Fence, _ string, target ironic.PowerTarget) (ironic.PowerTarget, string, error) {
	m.switched = append(m.switched, target)
	m.recorded = m.host.Status.Record.PowerOns != nil
	return target, "", m.answer
}

func (m *meanwhile) SetProvisionState(_ context.Context, _ ironic.Fence, _ string, target ironic.ProvisionTarget, _ ironic.ProvisionOptions) error {
	m.asked = append(m.asked, target)
	return m.answer
}

// TestFencedDuringInspection: a machine that is fenced while Ironic shows its node, or while the controller may begin the inspection, is not
// inspected, also not later.
func TestFencedDuringInspection(t *testing.T) {
	fenced := func(h *metal3.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.RebootAnnotationPrefix+"fencing", `{"force":true}`)
	}
	disabled := func(h *metal3.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.InspectAnnotation, metal3.InspectAnnotationValueDisabled)
	}
	for name, test := range map[string]struct {
		state         ironic.ProvisionState
		looked, wrote func(*metal3.BareMetalHost)
		want          []ironic.ProvisionTarget
		disabled      bool // afterwards
	}{
		"while the node is read":                {state: ironic.Available, looked: fenced},
		"while the node is read, manageable":    {state: ironic.Manageable, looked: fenced},
		"while the controller may begin":        {state: ironic.Available, wrote: fenced},
		"never, and the node is manageable":     {state: ironic.Manageable, want: []ironic.ProvisionTarget{ironic.TargetInspect}},
		"declared external while it is read":    {state: ironic.Manageable, looked: func(h *metal3.BareMetalHost) { h.Spec.ExternallyProvisioned = true }},
		"disabled while the node is read":       {state: ironic.Available, looked: disabled, disabled: true},
		"disabled while it is read, manageable": {state: ironic.Manageable, looked: disabled, disabled: true},
		"disabled while the controller may":     {state: ironic.Available, wrote: disabled, disabled: true},
		"replaced by another host of this name": {state: ironic.Manageable, looked: func(h *metal3.BareMetalHost) { h.UID = "another" }},
		"paused, which keeps nobody from asking": {state: ironic.Manageable, looked: func(h *metal3.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.PausedAnnotation, "")
		}, want: []ironic.ProvisionTarget{ironic.TargetInspect}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &meanwhile{looked: test.looked, wrote: test.wrote, oneHost: &oneHost{
				host: newHost("worker-0", func(h *metal3.BareMetalHost) {
					h.Status.Provisioning.ID, h.Status.Provisioning.State = "n", metal3.StateAvailable
				}),
				node:  &ironic.Node{UUID: "n", ProvisionState: test.state, PowerState: ironic.PowerOff},
				reads: -1, writes: -1,
			}}
			sources := baremetalhost.Sources{Hosts: m, Ironic: m.ironic, Nodes: m, Events: enginetest.NoEvents{}}
			inspect := baremetalhost.NewInspectREST(sources, baremetalhost.HostChangers{User: m, Own: m.oneHost})
			_, err := inspect.(rest.NamedCreater).Create(genericapirequest.WithNamespace(t.Context(), storetest.Namespace), "worker-0", &metal3.HostInspection{}, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
			if !slices.Equal(m.asked, test.want) || (err == nil) != (test.want != nil) || err != nil && !apierrors.IsConflict(err) {
				t.Errorf("Ironic was asked for %q: %v", m.asked, err)
			}
			if value, has := m.host.Annotations[metal3.InspectAnnotation]; has != test.disabled || has && value != metal3.InspectAnnotationValueDisabled {
				t.Errorf("the annotation is there: %t, with %q", has, value)
			}
		})
	}
}

// TestFencedDuringPower: a machine that is fenced or switched off while Ironic shows its node, or while spec.online is written, is not
// switched on, and spec.online is as whoever did that has left it.
func TestFencedDuringPower(t *testing.T) {
	const fence = metal3.RebootAnnotationPrefix + "fencing"
	fenced := func(h *metal3.BareMetalHost) { metav1.SetMetaDataAnnotation(&h.ObjectMeta, fence, "") }
	claimed := func(h *metal3.BareMetalHost) {
		h.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: "metal3.io/v1alpha1", Kind: "HostClaim", Namespace: "tenant", Name: "mine", UID: "u"}
	}
	paused := func(h *metal3.BareMetalHost) {
		claimed(h)
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.PausedAnnotation, "")
	}
	on := func(h *metal3.BareMetalHost) { h.Spec.Online, h.Generation = true, h.Generation+1 }
	off := func(h *metal3.BareMetalHost) { h.Spec.Online, h.Generation = false, h.Generation+1 }
	for name, test := range map[string]struct {
		action        metal3.PowerAction
		online        bool // before
		looked, wrote func(*metal3.BareMetalHost)
		refusal       string // part of it; empty if the action is carried out
		left          bool   // spec.online afterwards
	}{
		"on":                          {action: metal3.PowerActionOn, looked: fenced, refusal: fence},
		"on, when it is written":      {action: metal3.PowerActionOn, wrote: fenced, refusal: fence},
		"on, which it is to be":       {action: metal3.PowerActionOn, online: true, looked: fenced, refusal: fence, left: true},
		"on, and switched off":        {action: metal3.PowerActionOn, wrote: off, refusal: "set to false meanwhile"},
		"reboot":                      {action: metal3.PowerActionReboot, online: true, looked: fenced, refusal: fence, left: true},
		"reboot, and switched off":    {action: metal3.PowerActionReboot, online: true, looked: off, refusal: "it is to be off"},
		"off":                         {action: metal3.PowerActionOff, online: true, looked: fenced},
		"off, of a claim":             {action: metal3.PowerActionOff, online: true, looked: claimed, refusal: "HostClaim tenant/mine decides", left: true},
		"off, of a paused claim":      {action: metal3.PowerActionOff, online: true, looked: paused},
		"off as before, and online":   {action: metal3.PowerActionOff, looked: on},
		"off as before, and claimed":  {action: metal3.PowerActionOff, looked: func(h *metal3.BareMetalHost) { on(h); claimed(h) }, refusal: "HostClaim tenant/mine decides", left: true},
		"off as before, of another":   {action: metal3.PowerActionOff, looked: func(h *metal3.BareMetalHost) { h.UID = "another" }, refusal: "another host has its name"},
		"on, as its claim says":       {action: metal3.PowerActionOn, online: true, looked: claimed, left: true},
		"on, and nothing in between":  {action: metal3.PowerActionOn, left: true},
		"reboot, nothing in between":  {action: metal3.PowerActionReboot, online: true, left: true},
		"on, of another of this name": {action: metal3.PowerActionOn, online: true, looked: func(h *metal3.BareMetalHost) { h.UID = "another" }, refusal: "another host has its name", left: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := &meanwhile{looked: test.looked, wrote: test.wrote, oneHost: &oneHost{
				host: newHost("worker-0", func(h *metal3.BareMetalHost) {
					h.Spec.Online, h.Status.Provisioning.ID, h.Status.Provisioning.State = test.online, "n", metal3.StateProvisioned
				}),
				node:  &ironic.Node{UUID: "n", ProvisionState: ironic.Active, PowerState: ironic.PowerOff},
				reads: -1, writes: -1,
			}}
			sources := baremetalhost.Sources{Hosts: m, Ironic: m.ironic, Nodes: m, Events: enginetest.NoEvents{}}
			power := baremetalhost.NewPowerREST(sources, baremetalhost.HostChangers{User: m, Own: m.oneHost}, noDataImages{}, noPolicies{}, m.cuts())
			request := &metal3.HostPower{Spec: metal3.HostPowerSpec{Action: test.action, Mode: metal3.PowerModeHard}}
			_, err := power.(rest.NamedCreater).Create(genericapirequest.WithNamespace(t.Context(), storetest.Namespace), "worker-0", request, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
			switch {
			case test.refusal == "" && (err != nil || len(m.switched) != 1):
				t.Errorf("Ironic was asked for %q: %v", m.switched, err)
			case test.refusal != "" && (!apierrors.IsConflict(err) || !strings.Contains(err.Error(), test.refusal) || m.switched != nil):
				t.Errorf("Ironic was asked for %q: %v, want a Conflict with %q", m.switched, err, test.refusal)
			}
			if m.host.Spec.Online != test.left {
				t.Errorf("spec.online is %t afterwards", m.host.Spec.Online)
			}
		})
	}
}

// TestPowerOnIsRecorded: a request that leads to a machine that is on is recorded before it is sent, and removed when it is answered: until
// then, a machine that is fenced meanwhile is not shown as off.
func TestPowerOnIsRecorded(t *testing.T) {
	silent := &ironic.UnavailableError{Op: "test", Class: ironic.ClassTimeout, Reason: "no answer"}
	refused := &ironic.APIError{Status: 400, Op: "test", Message: "the machine is sealed"}
	for name, test := range map[string]struct {
		action       metal3.PowerAction
		answer       error
		sent, stands bool
	}{
		"on":                     {action: metal3.PowerActionOn, sent: true},
		"on, refused":            {action: metal3.PowerActionOn, answer: refused, sent: true},
		"on, without an answer":  {action: metal3.PowerActionOn, answer: silent, sent: true, stands: true},
		"reboot":                 {action: metal3.PowerActionReboot, sent: true},
		"reboot, without one":    {action: metal3.PowerActionReboot, answer: silent, sent: true, stands: true},
		"off":                    {action: metal3.PowerActionOff},
		"off, without an answer": {action: metal3.PowerActionOff, answer: silent},
	} {
		t.Run(name, func(t *testing.T) {
			m := &meanwhile{oneHost: &oneHost{
				host: newHost("worker-0", func(h *metal3.BareMetalHost) {
					h.Spec.Online, h.Status.Provisioning.ID, h.Status.Provisioning.State = true, "n", metal3.StateProvisioned
				}),
				node:  &ironic.Node{UUID: "n", ProvisionState: ironic.Active, PowerState: ironic.PowerOff},
				reads: -1, writes: -1, answer: test.answer,
			}}
			sources := baremetalhost.Sources{Hosts: m, Ironic: m.ironic, Nodes: m, Events: enginetest.NoEvents{}}
			power := baremetalhost.NewPowerREST(sources, baremetalhost.HostChangers{User: m, Own: m.oneHost}, noDataImages{}, noPolicies{}, m.cuts())
			request := &metal3.HostPower{Spec: metal3.HostPowerSpec{Action: test.action, Mode: metal3.PowerModeHard}}
			_, _ = power.(rest.NamedCreater).Create(genericapirequest.WithNamespace(t.Context(), storetest.Namespace), "worker-0", request, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
			if len(m.switched) != 1 {
				t.Fatalf("Ironic was asked for %q", m.switched)
			}
			if m.recorded != test.sent {
				t.Errorf("recorded when it was sent: %t", m.recorded)
			}
			if stands := m.host.Status.Record.PowerOns != nil; stands != test.stands {
				t.Errorf("recorded afterwards: %t", stands)
			}
		})
	}
}
