// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ironicapi "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// TestConductorGroup: a node is created in the group of its host's failure domain, and follows the label while nothing is deployed;
// what is deployed keeps its conductor. A group without a conductor is told.
func TestConductorGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSimulatedWorld(t, ironicsim.Options{ConductorGroups: []string{"rack-1", "rack-2"}})
		w.groups = &ironicapi.IronicConductorGroups{ByFailureDomain: map[string]string{"a": "rack-1", "b": "rack-2", "c": "rack-3"}}
		w.start(0)
		defer func() { w.stop() }()
		group := func() any {
			node, _ := w.sim.Sim.Node(w.host().Status.Provisioning.ID)
			return node["conductor_group"]
		}
		in := func(want string) func() bool { return func() bool { return group() == want } }
		move := func(domain string) {
			w.update(func(h *metal3.BareMetalHost) {
				h.Labels = map[string]string{ironicapi.FailureDomainLabel: domain}
			})
		}
		w.secret("secret")
		host := enrolled(0)
		host.Labels = map[string]string{ironicapi.FailureDomainLabel: "a"}
		w.hosts.Add(host)
		w.after(5*time.Minute, "available", w.in(metal3.StateAvailable))
		if got := group(); got != "rack-1" {
			t.Fatalf("the node was created in group %q", got)
		}
		move("b")
		w.after(5*time.Second, "the group follows", in("rack-2"))
		move("elsewhere")
		time.Sleep(time.Minute)
		if got := group(); got != "rack-2" {
			t.Errorf("without a group of its own, the host is in %q", got)
		}
		move("c")
		w.after(5*time.Second, "the refusal is shown", func() bool {
			return w.host().Status.ErrorType == metal3.RegistrationError && strings.Contains(w.host().Status.ErrorMessage, "rack-3")
		})
		move("b")
		w.after(5*time.Minute, "the refusal has ended", w.in(metal3.StateAvailable))

		w.update(wantImage)
		w.after(10*time.Minute, "provisioned", w.in(metal3.StateProvisioned))
		move("a")
		time.Sleep(time.Minute)
		if host := w.host(); group() != "rack-2" || host.Status.Provisioning.State != metal3.StateProvisioned || host.Status.ErrorMessage != "" {
			t.Errorf("the group of a deployed host is %q now: %s %s", group(), host.Status.Provisioning.State, host.Status.ErrorMessage)
		}
		w.update(func(h *metal3.BareMetalHost) { h.Spec.Image = nil })
		w.after(10*time.Minute, "the group follows after the deployment", in("rack-1"))
	})
}
