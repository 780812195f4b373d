// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"fmt"
	"strings"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestPowerOfLockedNode checks the answers while the node is locked. The holder of the lock may be
// doing what is requested: as soon as the action has written spec.online, the leader acts on it as
// well, and Ironic then refuses the action because the leader's request holds the lock.
func TestPowerOfLockedNode(t *testing.T) {
	s := startServer(t, true)
	const softOff, hardOff = `{"spec":{"action":"off"}}`, `{"spec":{"action":"off","mode":"hard"}}`
	const on, reboot = `{"spec":{"action":"on"}}`, `{"spec":{"action":"reboot"}}`
	locked := func(target ironic.PowerTarget) func(*ironic.Node) {
		return func(n *ironic.Node) { n.Reservation, n.TargetPowerState = "conductor-0", target }
	}
	isOff := func(n *ironic.Node) { n.PowerState = ironic.PowerOff }
	offAndLocked := func(target ironic.PowerTarget) func(*ironic.Node) {
		return func(n *ironic.Node) { isOff(n); locked(target)(n) }
	}
	tests := []struct {
		name    string
		body    string
		offline bool               // whether spec.online is false before the action
		before  func(*ironic.Node) // the node before the action; by default, it is on and not locked
		since   func(*ironic.Node) // the node when Ironic has answered that it is locked; nil if Ironic must not be asked
		away    bool               // whether Ironic fails to answer all reads after that
		code    int
		says    string // part of the error, or of status.message
		target  string // status.targetPowerState
		online  bool   // spec.online afterwards
	}{
		// The leader was quicker, with the same request. Ironic's target_power_state is "power off"
		// for both modes.
		{name: "off, the leader's off", body: softOff, since: locked("power off"), code: 201, says: "switching the host off already", target: "power off"},
		{name: "off, the leader's soft off", body: softOff, since: locked("soft power off"), code: 201, says: "switching the host off already", target: "soft power off"},
		{name: "off, off again", body: softOff, offline: true, since: locked("power off"), code: 201, says: "switching the host off already", target: "power off"},
		{name: "off, done by now", body: softOff, since: isOff, code: 201, says: "switched off meanwhile"},
		{name: "hard off, done by now", body: hardOff, since: isOff, code: 201, says: "switched off meanwhile"},
		{name: "on, the leader's on", body: on, offline: true, before: isOff, since: offAndLocked("power on"), code: 201, says: "switching the host on already", target: "power on", online: true},
		// The power off that is under way may not be a hard one.
		{name: "hard off, the leader's off", body: hardOff, since: locked("power off"), code: 429, says: "perhaps a soft one"},
		// Something else holds the lock. The leader acts on spec.online afterwards, or may be acting
		// on it already.
		{name: "off, locked by something else", body: softOff, since: locked(""), code: 429, says: "spec.online is false now"},
		{name: "hard off, locked by something else", body: hardOff, since: locked(""), code: 429, says: "spec.online is false now"},
		{name: "off, power on under way", body: softOff, since: locked("power on"), code: 429, says: "spec.online is false now"},
		{name: "on, power off under way", body: on, offline: true, since: locked("power off"), code: 429, says: "spec.online is true now", online: true},
		{name: "off, a stale target", body: softOff, since: func(n *ironic.Node) { n.TargetPowerState = "power off" }, code: 429, says: "spec.online is false now"},
		{name: "off, Ironic gone since", body: softOff, since: locked("power off"), away: true, code: 429, says: "spec.online is false now"},
		// Ironic has not begun the requested reboot, so the request can be repeated.
		{name: "reboot", body: reboot, since: locked("power on"), code: 429, says: "locked by host", online: true},

		// The lock is seen before anything is written.
		{name: "off under way", body: softOff, offline: true, before: locked("power off"), code: 201, says: "switching the host off already", target: "power off"},
		{name: "off under way for a reboot by annotation", body: softOff, before: locked("power off"), code: 201, says: "switching the host off already", target: "power off"},
		{name: "on under way", body: on, before: offAndLocked("power on"), code: 201, says: "switching the host on already", target: "power on", online: true},
		{name: "hard off, off under way", body: hardOff, offline: true, before: locked("power off"), code: 429, says: "perhaps a soft one"},
		{name: "hard off, off under way for a reboot by annotation", body: hardOff, before: locked("power off"), code: 429, says: "perhaps a soft one", online: true},
		{name: "on, off under way", body: on, offline: true, before: locked("power off"), code: 429, says: "target power off"},
		{name: "off, cleaning switches it off", body: softOff, code: 429, says: "locked by conductor", online: true, before: func(n *ironic.Node) {
			n.ProvisionState, n.TargetProvisionState = ironic.Cleaning, "available"
			locked("power off")(n)
		}},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			name := fmt.Sprintf("locked-%d", i)
			want := s.register(t, name, func(h *metal3.BareMetalHost, n *ironic.Node) {
				h.Spec.Online = !test.offline
				if test.before != nil {
					test.before(n)
				}
			}).Generation
			if test.online == test.offline {
				want++
			}
			s.ironic.intercept(t, func(node string) {
				if test.since == nil {
					t.Error("Ironic was asked")
				} else if err := lockNode(s.ironic, node); err != nil {
					t.Error(err)
				}
			}, func(node string) {
				s.ironic.edit(t, node, func(n *ironic.Node) {
					n.Reservation = ""
					test.since(n)
				})
				if test.away {
					_ = breakConnection(s.ironic, node)
				}
			})
			got := s.do(t, "POST", hostsPath+"/"+name+"/power", test.body)
			host := s.recorded(t, name)
			if host.Spec.Online != test.online {
				t.Errorf("spec.online is %t", host.Spec.Online)
			}
			if host.Generation != want {
				t.Errorf("the spec was written %d times more than needed", host.Generation-want)
			}
			if got.code != test.code {
				t.Fatalf("HTTP %d: %s", got.code, got.body)
			}
			if test.code != 201 {
				checkError(t, got, name, test.says)
				if retry := got.header.Get("Retry-After"); retry != "2" {
					t.Errorf("Retry-After is %q", retry)
				}
				return
			}
			var power metal3.HostPower
			got.into(t, 201, &power)
			if power.Status.TargetPowerState != test.target || power.Status.Mode != "" || !strings.Contains(power.Status.Message, test.says) {
				t.Errorf("status is %+v", power.Status)
			}
		})
	}
}
