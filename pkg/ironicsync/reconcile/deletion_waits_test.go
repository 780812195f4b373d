// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// TestDeletionWaitsForIronic: an Ironic that fails inside, each time in other words, keeps a machine from being undeployed or switched
// off. It is not given up because of that, and the host says what it waits for.
func TestDeletionWaitsForIronic(t *testing.T) {
	for _, call := range []string{string(ironic.TargetDeleted), string(ironic.TargetPowerOff)} {
		t.Run(call, func(t *testing.T) {
			inLateWorld(t, call == string(ironic.TargetDeleted), func(t *testing.T, w *world, key types.NamespacedName) {
				id := w.hostOf(key).Status.Provisioning.ID
				time.Sleep(time.Minute) // it is on
				before := w.sim.Node(id)
				for n, status := range []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout, http.StatusServiceUnavailable, http.StatusInternalServerError} {
					w.sim.Refuse(call, status, fmt.Sprintf("<oslo.messaging object at 0x7f%d>", n))
					if n == 0 {
						w.hosts.Remove(t, key.Name)
					}
					time.Sleep(5 * time.Minute)
				}
				host := w.hostOf(key)
				if now := w.sim.Node(id); now == nil || now.ProvisionState != before.ProvisionState || now.PowerState != before.PowerState {
					t.Fatalf("what was not to be given up is %+v; the host is %s", now, host.Status.Provisioning.State)
				}
				if host.Status.ErrorType == "" || !strings.Contains(host.Status.ErrorMessage, "0x7f") {
					t.Errorf("the host does not say what it waits for: %s %q", host.Status.ErrorType, host.Status.ErrorMessage)
				}
				w.sim.Accept(call)
				w.after(20*time.Minute, "deleted", func() bool {
					_, err := w.hosts.Get(t.Context(), key.Namespace, key.Name)
					return err != nil
				})
				if w.wasTold("DeprovisioningAbandoned") || w.sim.BMC(0).Power() != string(ironic.PowerOff) {
					t.Errorf("given up, or not switched off: %s", w.sim.BMC(0).Power())
				}
			})
		})
	}
}

// TestDeletionGivesUpTheMachine: where it is the machine that cannot be undeployed, its deletion does not wait for ever, whatever
// Ironic does in between.
func TestDeletionGivesUpTheMachine(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.provisionedHost()
		id := w.host().Status.Provisioning.ID
		w.hosts.Remove(t, enginetest.HostName(0))
		t.Logf("gone after %s", w.after(2*time.Hour, "gone", func() bool {
			_ = w.sim.Sim.FailNext(id, "clean", failure) // each time, until there is no node any more
			return w.gone()
		}))
		if !w.wasTold("DeprovisioningAbandoned") {
			t.Error("nobody was told that the disks may hold data")
		}
	})
}
