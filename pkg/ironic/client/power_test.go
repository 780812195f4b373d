// SPDX-License-Identifier: Apache-2.0

package client

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// What SwitchPower asks Ironic for, and what it tells of that.
func TestSwitchPower(t *testing.T) {
	const (
		noSoft = "The driver redfish does not support the power state, soft power off"
		locked = "Node a is locked by host conductor-0, please retry after the current operation is completed."
	)
	type switched struct {
		Used, SoftRefusal, Err string
		Bodies                 []string
	}
	tests := map[string]struct {
		target ironic.PowerTarget
		answer func(body string) (status int, faultString string)
		want   switched
	}{
		"on": {target: ironic.TargetPowerOn, want: switched{Used: "power on", Bodies: []string{`{"target":"power on"}`}}},
		"soft off": {target: ironic.TargetSoftPowerOff, want: switched{
			Used: "soft power off", Bodies: []string{`{"target":"soft power off","timeout":180}`},
		}},
		"no soft off": {
			target: ironic.TargetSoftPowerOff,
			answer: func(body string) (int, string) {
				if strings.Contains(body, "soft") {
					return 400, noSoft
				}
				return 202, ""
			},
			want: switched{Used: "power off", SoftRefusal: noSoft, Bodies: []string{`{"target":"soft power off","timeout":180}`, `{"target":"power off"}`}},
		},
		"no soft reboot, and then locked": {
			target: ironic.TargetSoftReboot,
			answer: func(body string) (int, string) {
				if strings.Contains(body, "soft") {
					return 400, noSoft
				}
				return 409, locked
			},
			want: switched{
				Used: "rebooting", SoftRefusal: noSoft, Err: "set power state rebooting of node a: " + locked + " (HTTP 409)",
				Bodies: []string{`{"target":"soft rebooting","timeout":180}`, `{"target":"rebooting"}`},
			},
		},
		// The hard one cuts the power: only the refusal that says that there is no soft one leads to it.
		"soft off locked": {
			target: ironic.TargetSoftPowerOff,
			answer: func(string) (int, string) { return 409, locked },
			want: switched{
				Used: "soft power off", Err: "set power state soft power off of node a: " + locked + " (HTTP 409)",
				Bodies: []string{`{"target":"soft power off","timeout":180}`},
			},
		},
		"hard refused": {
			target: ironic.TargetPowerOff,
			answer: func(string) (int, string) { return 400, "no" },
			want:   switched{Used: "power off", Err: "set power state power off of node a: no (HTTP 400)", Bodies: []string{`{"target":"power off"}`}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var f *fakeIronic
			f = newFake(t, newestMinor, func(w http.ResponseWriter, r *http.Request) {
				status, words := 202, ""
				if test.answer != nil {
					status, words = test.answer(f.last().Body)
				}
				answer(status, fault(words))(w, r)
			})
			var got switched
			used, refusal, err := f.client().SwitchPower(t.Context(), ironic.NoFence, "a", test.target)
			got.Used, got.SoftRefusal = string(used), refusal
			if err != nil {
				got.Err = err.Error()
			}
			for _, r := range f.requests() {
				got.Bodies = append(got.Bodies, r.Body)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("- want, + got:\n%s", diff)
			}
		})
	}
}
