// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/destination"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// requestClean records a request for clean steps, as the subresource does.
func (w *world) requestClean(steps ...metal3.CleanStep) error {
	w.t.Helper()
	host := w.host()
	if err := lifecycle.RequestClean(host, w.sim.Node(host.Status.Provisioning.ID), steps, time.Now()); err != nil {
		return err
	}
	if _, err := w.hosts.Record(w.t.Context(), host); err != nil {
		w.t.Fatal(err)
	}
	return nil
}

var erase = metal3.CleanStep{Interface: "deploy", Step: "erase_devices", Args: &runtime.RawExtension{Raw: []byte(`{"passes":3}`)}}

// cleaned reports whether the host is available again after a requested clean has ended in phase.
func (w *world) cleaned(phase metal3.PreparationPhase) func() bool {
	return func() bool {
		s := w.host().Status
		return w.in(metal3.StateAvailable)() && s.Record.RequestedClean == nil && s.Record.Preparation != nil && s.Record.Preparation.IsRequested && s.Record.Preparation.Phase == phase
	}
}

// TestRequestedClean: the steps are carried out once, with their arguments.
func TestRequestedClean(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.available()
		if err := w.requestClean(erase); err != nil {
			t.Fatal(err)
		}
		if s := w.host().Status; s.Provisioning.State != metal3.StatePreparing {
			t.Errorf("the host is %s", s.Provisioning.State)
		}
		if err := w.requestClean(erase); err == nil {
			t.Error("a second clean is accepted before the first one has ended")
		}
		w.after(20*time.Second, "cleaned", w.cleaned(metal3.PreparationSucceeded))
		time.Sleep(time.Hour)
		if step := w.sim.Steps("clean")[0][0]; w.cleans() != 1 || step.Interface != "deploy" || step.Step != "erase_devices" || fmt.Sprint(step.Args) != "map[passes:3]" {
			t.Errorf("%d cleans: %+v", w.cleans(), w.sim.Steps("clean"))
		}
		w.provision()
		if err := w.requestClean(erase); err == nil || !strings.Contains(err.Error(), "it is provisioned, and only an available host") {
			t.Errorf("a clean of a provisioned host: %v", err)
		}
		// Once it has been deprovisioned, its node is available in Ironic, too.
		w.update(func(h *metal3.BareMetalHost) { h.Spec.Image = nil })
		w.after(time.Minute, "available", w.in(metal3.StateAvailable))
		if err := w.requestClean(erase); err != nil {
			t.Fatal(err)
		}
		w.after(20*time.Second, "cleaned", func() bool { return w.cleans() == 2 && w.cleaned(metal3.PreparationSucceeded)() })
	})
}

// TestRequestedCleanFails: the host says which step has failed, and is available again later. The step
// is not tried again.
func TestRequestedCleanFails(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.available()
		w.failNext("clean")
		if err := w.requestClean(erase); err != nil {
			t.Fatal(err)
		}
		w.after(20*time.Second, "failed", func() bool { return w.host().Status.ErrorType == metal3.PreparationError })
		words := w.sim.Node(w.host().Status.Provisioning.ID).LastError
		if s := w.host().Status; !strings.HasSuffix(words, ": "+failure) || s.ErrorMessage != "The preparation has failed. "+words || s.Record.RequestedClean != nil || s.Record.Preparation.Phase != metal3.PreparationFailed || s.Record.Preparation.Message != words {
			t.Errorf("the error is %q, and the preparation %+v", s.ErrorMessage, s.Record.Preparation)
		}
		if took := w.after(10*time.Minute, "available again", w.cleaned(metal3.PreparationFailed)); took < 50*time.Second {
			t.Errorf("the error was shown for %s", took)
		}
		time.Sleep(time.Hour)
		if s := w.host().Status; w.cleans() != 1 || s.ErrorMessage != "" {
			t.Errorf("%d cleans, error %q", w.cleans(), s.ErrorMessage)
		}
	})
}

// TestRequestedCleanRefused: what may not be fetched is not, and the host is available again later.
func TestRequestedCleanRefused(t *testing.T) {
	for url, says := range map[string]string{
		"http://169.254.169.254/x": "the host 169.254.169.254 ", "file:/etc/passwd": "it is not allowed: it must be a URL with one of the schemes",
	} {
		settings := fleetSettings()
		settings.Images = destination.Policy{}
		inSimulatedFleet(t, settings, ironicsim.Options{}, func(t *testing.T, w *world) {
			w.available()
			if err := w.requestClean(metal3.CleanStep{Interface: "management", Step: "update_firmware", Args: &runtime.RawExtension{Raw: []byte(`{"firmware_images":[{"url":"` + url + `"}]}`)}}); err != nil {
				t.Fatal(err)
			}
			w.after(20*time.Second, "refused", func() bool {
				return strings.Contains(w.host().Status.ErrorMessage, "arguments of the clean step management.update_firmware: "+says)
			})
			w.after(10*time.Minute, "available again", w.cleaned(metal3.PreparationFailed))
			if w.cleans() != 0 {
				t.Errorf("cleans: %v", w.sim.Steps("clean"))
			}
		})
	}
}

// TestRequestedCleanOutdated: what was asked for is not done to a machine that was used otherwise
// meanwhile, and the host says so.
func TestRequestedCleanOutdated(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.available()
		w.stop()
		if err := w.requestClean(erase); err != nil {
			t.Fatal(err)
		}
		w.setNode("provision_state", string(ironic.Available))
		w.setNode("provision_state", string(ironic.Manageable))
		w.start(0)
		w.after(time.Minute, "available", w.cleaned(metal3.PreparationFailed))
		if p := w.host().Status.Record.Preparation; w.cleans() != 0 || !strings.HasPrefix(p.Message, "It has not begun, because the node has been used otherwise") {
			t.Errorf("%d cleans, and the preparation is %+v", w.cleans(), p)
		}
	})
}
