// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"math"
	"net/http"
	"sync"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// TestLockedNodes: what a conductor has locked is asked for again every second or
// two, each host at moments of its own. It is no error, and goes on afterwards.
func TestLockedNodes(t *testing.T) {
	const locked, hosts = 20 * time.Second, 20
	inSimulatedFleet(t, fleetSettings(), ironicsim.Options{}, func(t *testing.T, w *world) {
		w.sim.Refuse(string(ironic.TargetManage), http.StatusConflict, "Node is locked by host conductor-0, please retry after the current operation is completed.")
		var mu sync.Mutex
		tries := map[string][]time.Time{} // by path
		w.sim.Intercept(func(call string, r *http.Request) error {
			mu.Lock()
			defer mu.Unlock()
			if call == string(ironic.TargetManage) {
				tries[r.URL.Path] = append(tries[r.URL.Path], time.Now())
			}
			return nil
		})
		w.onRecord(func(host *metal3.BareMetalHost) {
			if host.Status.ErrorType != "" {
				t.Errorf("%s shows %s: %s", host.Name, host.Status.ErrorType, host.Status.ErrorMessage)
			}
		})
		keys := w.enrol(enginetest.Namespace, hosts)
		time.Sleep(locked)
		w.sim.Intercept(nil)
		expectSpread(t, tries, hosts)
		w.sim.Accept(string(ironic.TargetManage))
		w.after(10*time.Second, "all are registered", w.all(keys, func(host *metal3.BareMetalHost) bool {
			return host.Status.Ironic != nil && host.Status.Ironic.ProvisionState != string(ironic.Enroll) && host.Status.Ironic.ProvisionState != string(ironic.Verifying)
		}))
	})
}

// expectSpread: the tries of a host are one to three seconds apart, now more and now
// less, so that those of all hosts do not stay together.
func expectSpread(t *testing.T, tries map[string][]time.Time, hosts int) {
	t.Helper()
	fewest, most := math.MaxInt, 0
	shortest, longest := time.Hour, time.Duration(0)
	for id, times := range tries {
		for i := 1; i < len(times); i++ {
			if times[i].Sub(times[0]) < time.Second {
				continue // what the registration itself writes has the host planned anew
			}
			apart := times[i].Sub(times[i-1])
			if apart < time.Second || apart > 3*time.Second {
				t.Errorf("node %s was asked again after %s", id, apart)
			}
			shortest, longest = min(shortest, apart), max(longest, apart)
		}
		fewest, most = min(fewest, len(times)), max(most, len(times))
	}
	t.Logf("%d nodes were asked %d to %d times, %s to %s apart", len(tries), fewest, most, shortest, longest)
	if len(tries) != hosts || fewest < 6 || most > 22 || longest-shortest < time.Second {
		t.Errorf("%d nodes of %d were asked %d to %d times, %s to %s apart", len(tries), hosts, fewest, most, shortest, longest)
	}
}
