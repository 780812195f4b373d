package ironicsim

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// TestConcurrentUse has many nodes in motion, readers of all kinds and changes
// behind Ironic's back at the same time, for the race detector.
func TestConcurrentUse(t *testing.T) {
	o := quick()
	o.AutoInspect, o.AutoDeploy, o.DefaultRamdisk = true, true, true
	a := start(t, o)
	const nodes = 16
	var walkers, readers sync.WaitGroup
	stop := make(chan struct{})
	for i := range nodes {
		walkers.Go(func() {
			port := 6230 + i
			a.sim.AddBMC(fmt.Sprintf("127.0.0.1:%d", port), "admin", "password")
			id, err := a.sim.CreateNode(ipmi(port, "password"))
			if err != nil {
				t.Error(err)
				return
			}
			path := "/v1/nodes/" + id
			for _, step := range []struct{ target, state string }{{"manage", fsm.Manageable}, {"inspect", fsm.Manageable}, {"provide", fsm.Available}} {
				r, err := a.do("PUT", path+"/states/provision", newest, doc{"target": step.target})
				if err != nil || r.code != 202 {
					t.Errorf("%s: %v %+v", step.target, err, r)
					return
				}
				if !comesTrue(t, func() bool {
					_, n := a.sim.lookup(id)
					return n.ProvisionState == step.state && n.Reservation == ""
				}) {
					n, _ := a.sim.Node(id)
					t.Errorf("after %s: %v", step.target, brief(n))
					return
				}
			}
			a.sim.BMC(fmt.Sprintf("127.0.0.1:%d", port)).SetPower(fsm.PowerOn)
			if !comesTrue(t, func() bool { _, n := a.sim.lookup(id); return n.PowerState == fsm.PowerOn }) {
				t.Errorf("node %s did not follow its machine", id)
			}
			if i%2 == 0 {
				if err := a.sim.LoseNode(id); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, path := range []string{"/v1/nodes?detail=True", "/v1/nodes?fields=uuid,driver_info&limit=10", "/v1/ports?limit=100",
		"/v1/nodes?detail=True&sort_key=updated_at&sort_dir=desc&limit=50"} {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if r, err := a.do("GET", path, newest, nil); err != nil || r.code != 200 {
					t.Errorf("%s: %v %+v", path, err, r)
					return
				}
			}
		})
	}
	walkers.Wait()
	close(stop)
	readers.Wait()
	if got := len(a.sim.NodeUUIDs()); got != nodes/2 {
		t.Errorf("%d nodes are left, want %d", got, nodes/2)
	}
	for _, id := range a.sim.NodeUUIDs() {
		if r := a.must(200, "GET", "/v1/nodes/"+id+"/inventory", nil); !strings.Contains(string(r.raw), `"inventory"`) {
			t.Errorf("inventory of %s: %s", id, r.raw)
		}
	}
}
