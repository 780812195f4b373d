// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestForgottenNode: a node on which no conductor works any more is noticed, and only such a node; and it is registered anew only if its machine
// is in use by nobody.
func TestForgottenNode(t *testing.T) {
	const longAgo = 24 * time.Hour // when the state began, which says nothing
	const isForgotten, isLeftAlone = "Ironic has forgotten the node, whose state is ", "It is left alone"
	polled := func(n *ironic.Node) { n.ParentNode = "" }
	deletedHost := func(h *metal3.BareMetalHost) { h.DeletionTimestamp = &metav1.Time{Time: now} }
	provisioned := func(h *metal3.BareMetalHost) { h.Status.Provisioning.State = metal3.StateProvisioned }
	for name, test := range map[string]struct {
		state  ironic.ProvisionState
		seen   time.Duration // without a reservation
		change func(node *ironic.Node)
		host   func(*metal3.BareMetalHost)
		want   string
		kept   bool // although it is forgotten
		kind   metal3.ErrorType
	}{
		"undeployed":            {state: ironic.Deleting, seen: 21 * time.Second, want: isForgotten + "deleting"},
		"deployed":              {state: ironic.Deploying, seen: 21 * time.Second, want: isForgotten + "deploying"},
		"just begun":            {state: ironic.Deleting, seen: 19 * time.Second},
		"worked on":             {state: ironic.Deleting, seen: time.Hour, change: func(n *ironic.Node) { n.Reservation = "conductor-0" }},
		"in a maintenance":      {state: ironic.Deleting, seen: time.Hour, change: func(n *ironic.Node) { n.Maintenance = true }, kept: true, want: isForgotten},
		"serviced":              {state: ironic.Servicing, seen: time.Hour, host: provisioned, kept: true, want: isForgotten, kind: metal3.ServicingError},
		"waiting for a ramdisk": {state: ironic.CleanWait, seen: time.Hour},
		"paused while cleaning": {state: ironic.CleanHold, seen: time.Hour},
		"at rest":               {state: ironic.Active, seen: time.Hour},

		"polled by Ironic":           {state: ironic.Deleting, seen: time.Hour + time.Second, change: polled, want: isForgotten},
		"polled, not long ago":       {state: ironic.Deleting, seen: time.Hour - time.Second, change: polled},
		"polled, and worked on":      {state: ironic.Deleting, seen: 2 * time.Hour, change: func(n *ironic.Node) { polled(n); n.Reservation = "conductor-0" }},
		"polled, and concealed":      {state: ironic.Deleting, seen: 2 * time.Hour, change: func(n *ironic.Node) { polled(n); n.LockConcealed = true }},
		"polled, in a maintenance":   {state: ironic.Deleting, seen: 2 * time.Hour, change: func(n *ironic.Node) { polled(n); n.Maintenance = true }, want: isForgotten, kept: true},
		"polled, in service":         {state: ironic.Servicing, seen: 2 * time.Hour, change: polled, host: provisioned, want: isForgotten, kept: true, kind: metal3.ServicingError},
		"polled, while adopted":      {state: ironic.Adopting, seen: 2 * time.Hour, change: polled, want: isForgotten, kept: true},
		"polled, of another user":    {state: ironic.Deploying, seen: 2 * time.Hour, change: func(n *ironic.Node) { polled(n); n.InstanceUUID = "9f1d6a3e-0000-4000-8000-000000000000" }, want: isForgotten, kept: true},
		"polled, and runs something": {state: ironic.Deploying, seen: 2 * time.Hour, change: polled, host: provisioned, want: isForgotten, kept: true, kind: metal3.PowerManagementError},
		"polled, and rebuilt": {state: ironic.Deploying, seen: 2 * time.Hour, change: polled, host: func(h *metal3.BareMetalHost) {
			h.Status.Provisioning.State, h.Status.Record.Deployment = metal3.StateProvisioning, &metal3.Deployment{NodeUUID: h.Status.Provisioning.ID, Rebuild: &metal3.Rebuild{}}
		}, want: isForgotten, kept: true},
		"polled, erased, and host deleted": {state: ironic.Cleaning, seen: 2 * time.Hour, change: polled, host: deletedHost, want: isForgotten, kept: true},
		"polled, inspected, and deleted":   {state: ironic.Inspecting, seen: 2 * time.Hour, change: polled, host: deletedHost, want: isForgotten},
		"polled, and waiting":              {state: ironic.CleanWait, seen: 24 * time.Hour, change: polled},
		"polled, while verified":           {state: ironic.Verifying, seen: 2 * time.Hour, change: polled, want: isForgotten + "verifying"},
	} {
		t.Run(name, func(t *testing.T) {
			host := newHost(withState(metal3.StateDeprovisioning))
			if test.host != nil {
				test.host(host)
			}
			began := now.Add(-longAgo)
			node := &ironic.Node{UUID: host.Status.Provisioning.ID, Address: ownBMC, ProvisionState: test.state, ParentNode: host.Status.Provisioning.ID, ProvisionUpdatedAt: &began}
			if test.change != nil {
				test.change(node)
			}
			for _, at := range []time.Time{now.Add(-test.seen), now} {
				if isStuck(host, NodeFromIronic(node)) {
					t.Error("the node is given up at once")
				}
				host.Status, _ = Observe(host, Observation{Node: node}, at)
			}
			got := host.Status.ErrorMessage
			if !strings.Contains(got, test.want) || test.want == "" && got != "" || strings.Contains(got, isLeftAlone) != test.kept {
				t.Errorf("error %q, want %q", got, test.want)
			}
			if test.kind != "" && host.Status.ErrorType != test.kind {
				t.Errorf("it is a %s", host.Status.ErrorType)
			}
			if stuck := isStuck(host, NodeOf(&host.Status)); stuck != (test.want != "" && !test.kept) {
				t.Errorf("the node is given up: %t", stuck)
			}
		})
	}
}

// TestReservedMeanwhileIsNotForgotten: what counts is for how long Ironic has not been at work, and not for how long it has been in the state.
func TestReservedMeanwhileIsNotForgotten(t *testing.T) {
	host := newHost(withState(metal3.StateDeprovisioning))
	node := nodeIn(ironic.Deleting, func(n *ironic.Node) { n.UUID = host.Status.Provisioning.ID })
	look := func(at time.Duration, reservation string, want bool) {
		t.Helper()
		node.Reservation = reservation
		host.Status, _ = Observe(host, Observation{Node: node}, now.Add(at))
		if got := host.Status.Ironic.Forgotten; got != want {
			t.Errorf("after %s: forgotten: %t", at, got)
		}
	}
	look(0, "", false)
	look(59*time.Minute, "conductor-0", false)
	look(2*time.Hour, "", false)
	look(3*time.Hour+time.Second, "", true)
	look(2*time.Hour, "", true) // by a replica whose clock lags
	look(4*time.Hour, "conductor-1", false)
}

// TestForgottenSwitch: a power target that nobody takes away blocks nothing for ever, and the power state that goes with it is not believed.
func TestForgottenSwitch(t *testing.T) {
	for name, test := range map[string]struct {
		host   []hostOption
		power  ironic.PowerState
		target ironic.PowerTarget
		want   string
	}{
		"to be on, was on":         {host: provisionedHost, power: ironic.PowerOn, target: ironic.TargetPowerOff, want: "power-on"},
		"to be on, was off":        {host: provisionedHost, power: ironic.PowerOff, target: ironic.TargetPowerOn, want: "power-on"},
		"to be off, was on":        {host: and(provisionedHost, offline), power: ironic.PowerOn, target: ironic.TargetPowerOff, want: "soft-power-off"},
		"to be off, was off":       {host: and(provisionedHost, offline), power: ironic.PowerOff, target: ironic.TargetPowerOn, want: "soft-power-off"},
		"is deleted, was off":      {host: []hostOption{withState(metal3.StatePoweringOffBeforeDelete), deleted}, power: ironic.PowerOff, target: ironic.TargetPowerOn, want: "power-off"},
		"never off, was off":       {host: and(provisionedHost, neverOff), power: ironic.PowerOff, target: ironic.TargetPowerOn, want: "power-on"},
		"left on, was on":          {host: and([]hostOption{withState(metal3.StateExternallyProvisioned), externallyProvisioned, offline, withPower(true)}, keepsPower), power: ironic.PowerOn, target: ironic.TargetPowerOn, want: "Wait"},
		"left on, was off":         {host: and([]hostOption{withState(metal3.StateExternallyProvisioned), externallyProvisioned, offline, withPower(true)}, keepsPower), power: ironic.PowerOff, target: ironic.TargetPowerOn, want: "Wait"},
		"available, to be on, off": {host: []hostOption{withState(metal3.StateAvailable), prepared}, power: ironic.PowerOff, target: ironic.TargetPowerOn, want: "power-on"},
	} {
		t.Run(name, func(t *testing.T) {
			state := ironic.Active
			host := newHost(test.host...)
			if !host.Status.Provisioning.State.RunsSomething() {
				state = ironic.Available
			}
			node := nodeIn(state, func(n *ironic.Node) {
				n.PowerState, n.TargetPowerState, n.InstanceUUID = test.power, test.target, recordedInstance(host)
			})
			next := func(at time.Duration) string {
				host.Status, _ = Observe(host, Observation{Node: node}, now.Add(at))
				s := planned(host, node)
				s.Situation.ObservedAt, s.Situation.OtherNodes.AsOf = now.Add(at), now.Add(at)
				return Next(s.Situation).String()
			}
			if got := next(0); got != "Wait" {
				t.Errorf("at first: %s", got)
			}
			if got := next(time.Hour - time.Second); got != "Wait" {
				t.Errorf("after an hour: %s", got)
			}
			if got := next(time.Hour + 2*time.Second); got != test.want {
				t.Errorf("%s, want %s; error %q", got, test.want, host.Status.ErrorMessage)
			}
			if host.Status.ErrorType != metal3.PowerManagementError || !strings.Contains(host.Status.ErrorMessage, "has forgotten that it was changing the power state") {
				t.Errorf("%s: %s", host.Status.ErrorType, host.Status.ErrorMessage)
			}
		})
	}
}

// TestForgottenReboot: a reboot that Ironic has forgotten has not happened, and is due again.
func TestForgottenReboot(t *testing.T) {
	host := newHost(and(provisionedHost, neverOff, annotated(metal3.RebootAnnotation, ""))...)
	host.Status.Record.Rebooted = map[string]string{metal3.RebootAnnotation: ""}
	host.Status.Record.Reboot = &metal3.Reboot{NodeUUID: "u", Target: string(ironic.TargetReboot), Annotations: []string{metal3.RebootAnnotation}}
	node := nodeIn(ironic.Active, func(n *ironic.Node) { n.TargetPowerState = ironic.TargetPowerOn })
	for _, at := range []time.Duration{0, 2 * time.Hour} {
		host.Status, _ = Observe(host, Observation{Node: node}, now.Add(at))
	}
	if _, done := host.Status.Record.Rebooted[metal3.RebootAnnotation]; done || host.Status.Record.Reboot != nil {
		t.Errorf("recorded: %v %v", host.Status.Record.Rebooted, host.Status.Record.Reboot)
	}
}

// TestForgottenNodeIsLetGo: a host whose node Ironic has forgotten can be detached, which does nothing to the machine, unless somebody wants the
// node left alone.
func TestForgottenNodeIsLetGo(t *testing.T) {
	for want, change := range map[string]func(*ironic.Node){
		"DeleteNode": func(*ironic.Node) {}, "Wait": func(n *ironic.Node) { n.Maintenance, n.MaintenanceReason = true, "mine" },
	} {
		host := newHost(and(provisionedHost, annotated(metal3.DetachedAnnotation, ""), forgotten)...)
		if got := nextOf(planned(host, nodeIn(ironic.Servicing, change))).String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestFoundWhileComingOn: a machine that is found off while it is being switched on is left on.
func TestFoundWhileComingOn(t *testing.T) {
	for name, test := range map[string]struct {
		node *ironic.Node
		want bool
	}{
		"off": {node: nodeIn(ironic.Active, off)}, "on": {node: nodeIn(ironic.Active), want: true},
		"coming on": {node: nodeIn(ironic.Active, off, func(n *ironic.Node) { n.TargetPowerState = ironic.TargetPowerOn }), want: true},
	} {
		if got := deploymentFound(newHost(offline), NodeFromIronic(test.node)).KeepPower; got != test.want {
			t.Errorf("%s: left on: %t", name, got)
		}
	}
}
