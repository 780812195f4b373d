package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/enginetest"
)

// requests is how often Ironic was asked for nodes.
type requests struct{ feeds, lists, gets int }

func (w *world) requests() requests {
	gets, lists := w.ironic.Asked()
	return requests{feeds: w.ironic.count("ChangedSince"), lists: lists, gets: gets}
}

// TestTransitIsCheap: however many hosts Ironic works on, a few requests a second
// serve all of them.
func TestTransitIsCheap(t *testing.T) {
	for _, hosts := range []int{20, 60} {
		t.Run(fmt.Sprintf("%d hosts", hosts), func(t *testing.T) {
			inFleet(t, fleetSettings(), unwrapped, func(t *testing.T, w *world) {
				w.ironic.Change(func() { w.ironic.takes[ironic.Inspecting] = 10 * time.Minute })
				keys := w.enrol(enginetest.Namespace, hosts)
				w.after(5*time.Minute, "all are being inspected", w.all(keys, func(host *metal3.BareMetalHost) bool {
					return host.Status.Ironic != nil && host.Status.Ironic.ProvisionState == string(ironic.Inspecting)
				}))
				time.Sleep(10 * time.Second) // what has just changed is looked at for a while
				before := w.requests()
				const seconds = 10
				time.Sleep(seconds * time.Second)
				after := w.requests()
				feeds, lists, gets := after.feeds-before.feeds, after.lists-before.lists, after.gets-before.gets
				t.Logf("%d hosts in transit for %d s: the newest were asked for %d times, all %d times, single ones %d times", hosts, seconds, feeds, lists, gets)
				// Three polls a second, and a look at all of them twice a minute.
				if feeds > 4*seconds || lists > 1 || gets > 0 {
					t.Errorf("in %d s: %d, %d, %d", seconds, feeds, lists, gets)
				}
			})
		})
	}
}
