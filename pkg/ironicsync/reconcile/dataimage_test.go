// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// drives answers as a test wants.
type drives struct {
	mu      sync.Mutex
	ready   bool
	problem string
	calls   int
}

func (d *drives) BeforePowerOn(context.Context, *metal3.BareMetalHost) (bool, string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	return d.ready, d.problem, nil
}

func (d *drives) set(ready bool, problem string) (calls int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ready, d.problem = ready, problem
	return d.calls
}

// A provisioned host is switched on when its virtual drive is ready. It shows what is wrong with the
// drive, and is tried again at once when that has changed.
func TestPowerOnWaitsForDrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSimulatedWorld(t, ironicsim.Options{})
		d := &drives{ready: true}
		w.images = d
		w.start(0)
		defer func() { w.stop() }()
		w.secret("secret")
		host := enrolled(0)
		host.Spec.ExternallyProvisioned = true
		w.hosts.Add(host)
		is := func(on bool) func() bool {
			return func() bool {
				return w.host().Status.Provisioning.State == metal3.StateExternallyProvisioned && w.host().Status.PoweredOn == on
			}
		}
		w.after(time.Minute, "on", is(true))
		before := d.set(false, "")
		w.update(func(h *metal3.BareMetalHost) { h.Spec.Online = false })
		w.after(time.Minute, "off", is(false))
		w.update(func(h *metal3.BareMetalHost) { h.Spec.Online = true })
		time.Sleep(20 * time.Second)
		if !is(false)() || w.host().Status.ErrorMessage != "" {
			t.Errorf("while the drive is being changed, the host is on: %t, error %q", w.host().Status.PoweredOn, w.host().Status.ErrorMessage)
		}
		if calls := d.set(false, "no route to the BMC") - before; calls < 5 || calls > 25 {
			t.Errorf("the drive was looked at %d times in 20 seconds, want about every 2 seconds", calls)
		}
		w.after(10*time.Second, "the problem is shown", func() bool {
			return w.host().Status.ErrorType == metal3.PowerManagementError && strings.Contains(w.host().Status.ErrorMessage, "no route to the BMC")
		})
		d.set(true, "")
		time.Sleep(10 * time.Second)
		if !is(false)() {
			t.Error("there was no back-off")
		}
		w.planHost(enginetest.Namespace, enginetest.HostName(0))
		w.after(10*time.Second, "on, without error", func() bool { return is(true)() && w.host().Status.ErrorMessage == "" })
	})
}
