// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// TestTrail follows a node from its creation to its end.
func TestTrail(t *testing.T) {
	var mu sync.Mutex
	var states, requests []string
	cuts := 0
	o := quick()
	o.Trail = func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case e.At.IsZero():
			t.Errorf("%+v has no time", e)
		case e.Node != nil && e.Node.Gone:
			states = append(states, "gone")
		case e.Node != nil:
			if state := e.Node.ProvisionState; len(states) == 0 || states[len(states)-1] != state {
				states = append(states, state)
			}
		case e.Request != nil && e.Request.Method != http.MethodGet:
			requests = append(requests, e.Request.Method+" "+e.Request.Target)
		case e.Machine != nil && e.Machine.PowerCut:
			cuts++
		}
	}
	a := start(t, o)
	bmc := a.sim.AddBMC("127.0.0.1:6230", "admin", "password")
	bmc.SetPower(fsm.PowerOn)
	id, err := a.sim.CreateNode(ipmi(6230, "password"))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(path, target string, arrived func(*node) bool) {
		t.Helper()
		if r, err := a.do("PUT", "/v1/nodes/"+id+path, newest, doc{"target": target}); err != nil || r.code != http.StatusAccepted {
			t.Fatalf("%s: %v %+v", target, err, r)
		}
		eventually(t, func() bool { _, n := a.sim.lookup(id); return arrived(n) && n.Reservation == "" },
			func() string { return target + " has no effect" })
	}
	ask("/states/provision", "manage", func(n *node) bool { return n.ProvisionState == fsm.Manageable })
	ask("/states/power", "power off", func(n *node) bool { return n.PowerState == fsm.PowerOff })
	if err := a.sim.LoseNode(id); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{fsm.Enroll, fsm.Verifying, fsm.Manageable, "gone"}; !slices.Equal(states, want) {
		t.Errorf("the node was %q, not %q", states, want)
	}
	if want := []string{"PUT manage", "PUT power off"}; !slices.Equal(requests, want) {
		t.Errorf("requests %q, not %q", requests, want)
	}
	if cuts != 1 {
		t.Errorf("the power was cut %d times, not once", cuts)
	}
}
