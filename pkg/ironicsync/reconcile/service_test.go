// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// provisionedWithPolicy has a provisioned host whose policy permits changes at a reboot.
func (w *world) provisionedWithPolicy() {
	w.t.Helper()
	w.available(redfishHost())
	w.provision()
	w.policy(metal3.UpdateOnReboot)
}

// policy creates the host's policy, or replaces it.
func (w *world) policy(firmwareSettings metal3.UpdatePolicy) {
	w.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error { // the controller makes the host its owner
		policy, err := w.policies.Get(w.t.Context(), enginetest.Namespace, enginetest.HostName(0))
		if err != nil {
			policy = &metal3.HostUpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: enginetest.Namespace, Name: enginetest.HostName(0)}}
			if policy, err = w.policies.Create(w.t.Context(), policy); err != nil {
				return err
			}
		}
		policy.Spec.FirmwareSettings, policy.Spec.FirmwareUpdates = firmwareSettings, firmwareSettings
		_, err = w.policies.Update(w.t.Context(), policy)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) reboot() {
	w.t.Helper()
	w.update(func(h *metal3.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.RebootAnnotation, `{"mode":"hard"}`)
	})
}

// services are the steps of each service that Ironic has begun.
func (w *world) services() (steps []string) {
	for _, service := range w.sim.Steps("service") {
		names := []string{}
		for _, step := range service {
			names = append(names, step.Interface+"."+step.Step)
		}
		steps = append(steps, strings.Join(names, " "))
	}
	return steps
}

// runsAgain reports whether the machine runs what it ran, and the host shows the message as its error.
func (w *world) runsAgain(message string) func() bool {
	return func() bool {
		s := w.host().Status
		return s.Provisioning.State == metal3.StateProvisioned && s.PoweredOn && s.Ironic != nil && s.Ironic.ProvisionState == "active" && s.Ironic.TargetPowerState == "" &&
			len(w.host().Annotations) == 0 && ownWords(w.host()) == message && (s.Record.Servicing == nil || s.Record.Servicing.EndedAt != nil)
	}
}

// TestPolicyWithdrawn: a machine is not serviced by a policy that has ceased to permit it since the service was planned.
func TestPolicyWithdrawn(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.provisionedWithPolicy()
		w.wantBIOS("BootMode", "Bios")
		time.Sleep(time.Minute)
		w.sim.Sim.SetFaults(ironicsim.Faults{Latency: 37 * time.Millisecond}) // by then, the watch has told of it
		withdraw := sync.OnceFunc(func() { w.policy(metal3.UpdateOnPreparing) })
		w.hosts.BeforeRecord = func(h *metal3.BareMetalHost) {
			if h.Status.Record.Servicing != nil {
				withdraw()
			}
		}
		w.reboot()
		time.Sleep(10 * time.Minute)
		if n := w.services(); len(n) != 0 {
			t.Errorf("serviced for %v", n)
		}
		w.after(time.Minute, "it runs again", w.runsAgain(""))
	})
}

// TestServiceThatWasNotSent: a service that was recorded, and not requested because etcd did not answer then, is requested once it does,
// and not only when a request that nobody has answered would be out of date.
func TestServiceThatWasNotSent(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.provisionedWithPolicy()
		w.wantBIOS("BootMode", "Bios")
		time.Sleep(time.Minute)
		w.policies.fail(apierrors.NewServerTimeout(metal3.Resource("hostupdatepolicies"), "get", 1))
		w.reboot()
		w.after(30*time.Second, "the service is recorded", func() bool { return w.host().Status.Record.Servicing != nil })
		time.Sleep(time.Second)
		w.policies.fail(nil)
		w.after(time.Minute, "serviced", func() bool { return len(w.services()) == 1 })
	})
}

// TestPolicyWithdrawnUnseen: nor by one of which the watch has yet to tell that.
func TestPolicyWithdrawnUnseen(t *testing.T) {
	for name, withdraw := range map[string]func(w *world){
		"changed": func(w *world) { w.policy(metal3.UpdateOnPreparing) },
		"deleted": func(w *world) { w.policies.delete(enginetest.Namespace, enginetest.HostName(0)) },
	} {
		t.Run(name, func(t *testing.T) {
			inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
				w.provisionedWithPolicy()
				w.wantBIOS("BootMode", "Bios")
				time.Sleep(time.Minute)
				w.policies.hush(true)
				withdraw(w)
				w.reboot()
				time.Sleep(10 * time.Minute)
				if n := w.services(); len(n) != 0 {
					t.Errorf("serviced for %v", n)
				}
				w.policies.hush(false)
				w.policy(metal3.UpdateOnPreparing)
				w.after(time.Minute, "it runs again", w.runsAgain(""))
			})
		})
	}
}

// TestServicing: a changed BIOS setting of a provisioned host is applied when the user reboots it, if
// the policy permits that, and not before.
func TestServicing(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.provisionedWithPolicy()
		w.after(time.Second, "owned", func() bool {
			policy, err := w.policies.Get(t.Context(), enginetest.Namespace, enginetest.HostName(0))
			return err == nil && len(policy.OwnerReferences) == 1 && policy.OwnerReferences[0].UID == w.host().UID && policy.OwnerReferences[0].Controller == nil
		})
		w.wantBIOS("BootMode", "Bios")
		time.Sleep(time.Hour)
		if n := w.services(); len(n) != 0 || !w.host().Status.PoweredOn {
			t.Errorf("serviced without a reboot: %v", n)
		}

		w.reboot()
		w.after(20*time.Second, "serviced", func() bool { return w.host().Status.OperationalStatus == metal3.OperationalStatusServicing })
		if s := w.host().Status.Record.Servicing; s == nil || !slices.Equal(s.Steps, []string{"bios.apply_configuration"}) {
			t.Errorf("status.record.servicing is %+v", s)
		}
		w.after(20*time.Second, "it runs again", w.runsAgain(""))
		w.after(time.Second, "its settings say so", func() bool { return w.biosSays(false, true) })
		if s := w.host().Status; s.Record.Servicing.Phase != metal3.PreparationSucceeded || s.OperationalStatus != metal3.OperationalStatusOK {
			t.Errorf("%s, %+v", s.OperationalStatus, s.Record.Servicing)
		}

		// Off and on is a reboot, too.
		w.update(func(h *metal3.BareMetalHost) { h.Spec.Online = false })
		w.after(20*time.Second, "off", func() bool { return !w.host().Status.PoweredOn })
		w.wantBIOS("AssetTag", "2")
		w.update(func(h *metal3.BareMetalHost) { h.Spec.Online = true })
		w.after(20*time.Second, "on", w.runsAgain(""))
		w.after(time.Second, "its settings say so", func() bool { return w.biosSays(false, true) })

		// Without permission, a reboot changes nothing.
		w.policy(metal3.UpdateOnPreparing)
		w.wantBIOS("AssetTag", "3")
		w.reboot()
		w.after(20*time.Second, "rebooted", w.runsAgain(""))
		if got := w.services(); len(got) != 2 || w.cleans() != 0 {
			t.Errorf("services: %v; %d cleans", got, w.cleans())
		}
		w.stop()
		if reasons := w.events.reasons; !slices.Contains(reasons, "ServicingStarted") || !slices.Contains(reasons, "ServicingComplete") || slices.Contains(reasons, "ServicingAbandoned") {
			t.Errorf("events: %v", reasons)
		}
	})
}

// TestServicingFails: the machine runs again at once what it ran, the host says why, and the change is
// tried again with the next reboot. Old releases of Ironic have another way out than new ones.
func TestServicingFails(t *testing.T) {
	for _, isOld := range []bool{true, false} {
		t.Run(fmt.Sprintf("old %v", isOld), func(t *testing.T) {
			options := ironicsim.Options{MaxVersion: ironic.NewestAPIVersion.String(), WithoutDefects: true}
			if isOld {
				options.MaxVersion = "1.96"
			}
			inSimulation(t, options, func(t *testing.T, w *world) {
				w.provisionedWithPolicy()
				w.wantBIOS("BootMode", "Bios")
				w.failNext("service")
				w.reboot()
				const step = " failed step {'interface': 'bios', 'step': 'apply_configuration', "
				var words string
				took := w.after(20*time.Second, "failed", func() bool {
					words = ownWords(w.host())
					return strings.Contains(words, step) && strings.HasSuffix(words, ": "+failure)
				})
				w.after(20*time.Second-took, "it runs again", w.runsAgain(words))
				want, aborts := []string{"bios.apply_configuration"}, 1
				if isOld {
					want, aborts = append(want, "power.power_on"), 0
				}
				if got := w.services(); !slices.Equal(got, want) || w.sim.Count("abort") != aborts {
					t.Errorf("services %v, %d aborts", got, w.sim.Count("abort"))
				}
				if s := w.host().Status; s.ErrorType != metal3.ServicingError || s.ErrorCount != 1 || condition(w.host(), metal3.StepFailedCondition) != metal3.ServicingErrorReason || s.Ironic.Maintenance {
					t.Errorf("%s, %d errors, maintenance %v", s.ErrorType, s.ErrorCount, s.Ironic.Maintenance)
				}
				time.Sleep(time.Hour)
				if got := w.services(); len(got) != len(want) {
					t.Errorf("tried again without a reboot: %v", got)
				}

				w.reboot()
				w.after(20*time.Second, "done", w.runsAgain(""))
				if s := w.host().Status; !w.biosSays(false, true) || s.ErrorCount != 0 || s.Record.Servicing.Phase != metal3.PreparationSucceeded {
					t.Errorf("%d errors, %+v", s.ErrorCount, s.Record.Servicing)
				}
				w.stop()
				if reasons := w.events.reasons; !slices.Contains(reasons, "ServicingError") || !slices.Contains(reasons, "ServicingAbandoned") {
					t.Errorf("events: %v", reasons)
				}
				if n := w.sim.Count("deleted"); n != 0 {
					t.Errorf("undeployed %d times", n)
				}
			})
		})
	}
}

// TestFailedServiceLeftAtOnce: where Ironic does not end the maintenance of a failed service yet, the service that leaves it was not asked
// for, and nothing waits for it when Ironic does.
func TestFailedServiceLeftAtOnce(t *testing.T) {
	options := ironicsim.Options{MaxVersion: "1.96", WithoutDefects: true}
	inSimulation(t, options, func(t *testing.T, w *world) {
		w.provisionedWithPolicy()
		w.wantBIOS("BootMode", "Bios")
		w.failNext("service")
		w.sim.Refuse("ClearMaintenance", 409, "Node is locked by host conductor, please retry after the current operation is completed.")
		w.reboot()
		w.after(20*time.Second, "failed", func() bool { return strings.Contains(ownWords(w.host()), failure) })
		time.Sleep(10 * time.Second)
		if n := len(w.services()); n != 1 {
			t.Errorf("%d services, while the maintenance has not ended", n)
		}
		words := ownWords(w.host())
		w.sim.Accept("ClearMaintenance")
		w.after(30*time.Second, "it runs again", w.runsAgain(words))
	})
}

// TestServicingRefused: what Ironic refuses is said in its words, and the host is switched on.
func TestServicingRefused(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.provisionedWithPolicy()
		w.wantBIOS("BootMode", "Bios")
		w.sim.Refuse("service", 400, "Validation of node for servicing failed")
		w.reboot()
		w.after(20*time.Second, "switched on", w.runsAgain("Validation of node for servicing failed"))
		w.sim.Accept("service")
		w.reboot()
		w.after(20*time.Second, "serviced", w.runsAgain(""))
		if got := w.services(); len(got) != 1 || !w.biosSays(false, true) {
			t.Errorf("services: %v", got)
		}
		// An error goes when the change is not wanted any more.
		w.wantBIOS("BootMode", "Uefi")
		w.reboot()
		w.after(20*time.Second, "applied", func() bool { return w.sim.BMC(0).BIOS()["BootMode"] == "Uefi" })
		if err := w.sim.BMC(0).SetBIOS("BootMode", "Bios"); err != nil { // it takes it back before Ironic reads it
			t.Fatal(err)
		}
		w.after(20*time.Second, "not taken", w.runsAgain(`Ironic has applied the BIOS settings without an error, and the machine does not have them: BootMode is "Bios", and not "Uefi"`))
		w.wantBIOS("BootMode", "Bios")
		w.after(5*time.Second, "no error", w.runsAgain(""))
	})
}

// TestUpdateAfterRefusal: firmware is updated once, also by a service that was refused before, in the same state of the node.
func TestUpdateAfterRefusal(t *testing.T) {
	inSimulation(t, ironicsim.Options{WithoutDefects: true}, func(t *testing.T, w *world) {
		w.provisionedWithPolicy()
		w.wantFirmware("bmc", "http://images/bmc")
		w.sim.Refuse("service", 400, "Validation of node for servicing failed")
		w.reboot()
		w.after(20*time.Second, "switched on", w.runsAgain("Validation of node for servicing failed"))
		w.sim.Accept("service")
		w.reboot()
		w.after(20*time.Second, "updated", func() bool { return w.runsAgain("")() && w.firmwareSays(false, true) })
		w.reboot()
		w.after(20*time.Second, "rebooted", w.runsAgain(""))
		if got := w.services(); len(got) != 1 {
			t.Errorf("services: %v", got)
		}
	})
}

// TestServicingKilledAnywhere kills the controller at each of its steps, before it has had its
// effect and after. The firmware, of which Ironic does not tell which update it has, is updated in the
// end, and only once.
func TestServicingKilledAnywhere(t *testing.T) {
	for _, takes := range []time.Duration{time.Second, time.Millisecond} { // the service ends while nobody looks
		options := ironicsim.Options{Delays: ironicsim.All(time.Second), RamdiskDelay: takes, WithoutDefects: true}
		options.Delays.Service, options.Delays.Power = takes, takes
		t.Run(takes.String(), func(t *testing.T) {
			killedAnywhere(t, func(t *testing.T, killedAt int) *world {
				w := newSimulatedWorld(t, options)
				w.start(0)
				w.provisionedWithPolicy()
				w.wantFirmware("bmc", "http://images/bmc")
				w.stop()
				w.reboot()
				w.start(killedAt)
				w.after(2*time.Minute+askedLimit, "made", func() bool {
					w.goOn(2 * time.Second)
					return w.runsAgain("")() && len(w.services()) > 0 && w.host().Status.Record.Servicing.Phase == metal3.PreparationSucceeded
				})
				w.after(time.Second, "its firmware says so", func() bool { return w.firmwareSays(false, true) })
				if got := w.services(); len(got) != 1 {
					t.Errorf("services: %v", got)
				}
				w.stop()
				return w
			})
		})
	}
}

// ownWords is the error of a host in its own words, without the sentence in front that says what has happened.
func ownWords(host *metal3.BareMetalHost) string {
	if host.Status.Record.Error == nil {
		return ""
	}
	return host.Status.Record.Error.Message
}
