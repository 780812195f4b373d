// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// expectToldAndGoesOn: something makes all steps of host 0 fail. Within a minute the host
// says so in its error, a condition and an event; the step is neither tried nor recorded
// in haste; and when that is over, the host goes on by itself.
func (w *world) expectToldAndGoesOn(words, event string, tries func() int, repair func(), done func() bool) {
	w.t.Helper()
	took := w.after(time.Minute, "the host says "+words, func() bool { return strings.Contains(w.host().Status.ErrorMessage, words) })
	host := w.host()
	if host.Status.OperationalStatus != metal3.OperationalStatusError || host.Status.ErrorCount == 0 {
		w.t.Errorf("operational status %s, %d errors", host.Status.OperationalStatus, host.Status.ErrorCount)
	}
	if registered, step := condition(host, metal3.RegisteredCondition), condition(host, metal3.StepFailedCondition); registered != metal3.RequestFailedReason && step != metal3.RequestFailedReason {
		w.t.Errorf("no condition says so: Registered is %q, StepFailed %q", registered, step)
	}
	w.after(time.Second, "there is an event "+event, func() bool {
		w.events.mu.Lock()
		defer w.events.mu.Unlock()
		return slices.Contains(w.events.reasons, event)
	})
	triesBefore, versionBefore := tries(), w.hosts.Writes()
	time.Sleep(10 * time.Minute)
	more, writes := tries()-triesBefore, w.hosts.Writes()-versionBefore
	w.t.Logf("told after %s; in ten minutes %d tries and %d writes", took, more, writes)
	if more < 10 || more > 90 {
		w.t.Errorf("%d tries in ten minutes", more)
	}
	if writes > 10 {
		w.t.Errorf("%d writes in ten minutes", writes)
	}
	repair()
	w.t.Logf("went on %s after it was over", w.after(time.Minute, "it goes on", func() bool { return done() && w.host().Status.ErrorMessage == "" }))
}

// TestIronicRefusesWrites: reads work, and whatever changes something fails.
func TestIronicRefusesWrites(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]struct {
		status int // 0 for a connection that breaks
		words  string
	}{
		"401":       {401, "Incorrect username or password"},
		"403":       {403, "Access was denied to the following resource"},
		"500":       {500, "Unexpected error raised by RPC"},
		"no answer": {0, "Ironic is not available: connection closed before the answer"},
	} {
		for when, tt := range map[string]struct {
			event string
			begin func(*world)
			done  func(*world) bool
		}{
			"registering": {"RegistrationError", func(w *world) { w.hosts.Add(enrolled(0)) }, (*world).registered},
			"inspecting": {"InspectionError", func(w *world) {
				w.hosts.Add(enrolled(0))
				w.after(20*time.Second, "verifying", func() bool {
					s := w.host().Status.Ironic
					return s != nil && s.ProvisionState == string(ironic.Verifying)
				})
			}, func(w *world) bool { return w.in(metal3.StateAvailable)() }},
			"deploying":   {"ProvisioningError", func(w *world) { w.update(wantImage) }, func(w *world) bool { return w.in(metal3.StateProvisioned)() }},
			"switching":   {"PowerManagementError", func(w *world) { w.update(func(h *metal3.BareMetalHost) { h.Spec.Online = false }) }, func(w *world) bool { return !w.host().Status.PoweredOn }},
			"undeploying": {"ProvisioningError", func(w *world) { w.update(func(h *metal3.BareMetalHost) { h.Spec.Image = nil }) }, func(w *world) bool { return w.in(metal3.StateAvailable)() }},
		} {
			t.Run(name+" while "+when, func(t *testing.T) {
				t.Parallel()
				delays := ironicsim.All(time.Second)
				delays.Verify = 5 * time.Second
				inSimulation(t, ironicsim.Options{Delays: delays}, func(t *testing.T, w *world) {
					w.secret("secret")
					if when != "registering" && when != "inspecting" {
						w.hosts.Add(enrolled(0))
						w.after(30*time.Second, "available", w.in(metal3.StateAvailable))
					}
					if when == "undeploying" {
						w.provision()
					}
					if when == "inspecting" {
						tt.begin(w)
					}
					var tries atomic.Int32
					w.sim.Intercept(func(_ string, r *http.Request) error {
						if r.Method == http.MethodGet {
							return nil
						}
						tries.Add(1)
						if failure.status == 0 {
							return &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
						}
						return nil
					})
					w.sim.Sim.SetFaults(ironicsim.Faults{FailWrites: failure.status})
					if when != "inspecting" {
						tt.begin(w)
					}
					w.expectToldAndGoesOn(failure.words, tt.event,
						func() int { return int(tries.Load()) },
						func() { w.sim.Intercept(nil); w.sim.Sim.SetFaults(ironicsim.Faults{}) },
						func() bool { return tt.done(w) })
					if when == "switching" && w.sim.Count("power off") > 0 {
						t.Error("the power was cut because Ironic did not answer to the soft power off")
					}
				})
			})
		}
	}
}

// neverRecent is an Ironic for which a look at a node is never recent enough to deploy it.
type neverRecent struct{ ironicClient }

func (n neverRecent) SetProvisionState(ctx context.Context, fence ironic.Fence, id string, target ironic.ProvisionTarget, options ironic.ProvisionOptions) error {
	if target == ironic.TargetActive {
		fence.LookedAt = fence.LookedAt.Add(-time.Hour)
	}
	return n.ironicClient.SetProvisionState(ctx, fence, id, target, options)
}

// TestStepsPlannedAnewForEver: a step that is planned anew each time it is to be taken is never taken, and its host says so.
func TestStepsPlannedAnewForEver(t *testing.T) {
	inFleet(t, fleetSettings(), ironicsim.Options{}, func(sim *enginetest.Ironic) ironicClient { return neverRecent{sim} }, func(t *testing.T, w *world) {
		keys := w.enrol(enginetest.Namespace, 1)
		w.after(10*time.Minute, "available", w.all(keys, arrived(metal3.StateAvailable)))
		w.edit(keys[0], wantImage)
		w.after(5*time.Minute, "it says so", w.all(keys, func(h *metal3.BareMetalHost) bool {
			return h.Status.ErrorType == metal3.ProvisioningError && strings.Contains(h.Status.ErrorMessage, "may have changed since they were read")
		}))
	})
}

// TestClusterRefusesSecrets: the cluster's API server refuses to have a Secret written or
// read. No host says that its Secret does not exist.
func TestClusterRefusesSecrets(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(corev1.Resource("secrets"), "bmc", nil)
	for name, verb := range map[string]string{"patch": "patch", "get": "get", "get what no watch has told": "get"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
				refused, tries := true, 0
				w.secrets.client.PrependReactor(verb, "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
					w.secrets.mu.Lock()
					defer w.secrets.mu.Unlock()
					if refused {
						tries++
					}
					return refused, nil, forbidden
				})
				if name == verb {
					w.secret("secret")
				}
				w.hosts.Recorded = func(_, host *metal3.BareMetalHost) {
					if got := condition(host, metal3.RegisteredCondition); got == metal3.SecretNotFoundReason {
						t.Error("the host says that its Secret does not exist")
					}
				}
				w.hosts.Add(enrolled(0))
				w.expectToldAndGoesOn(`secrets "bmc" is forbidden`, "RegistrationError",
					func() int { w.secrets.mu.Lock(); defer w.secrets.mu.Unlock(); return tries },
					func() { w.secrets.mu.Lock(); refused = false; w.secrets.mu.Unlock(); w.secret("secret") }, w.registered)
			})
		})
	}
}

// haveTime begins another process, which polls Ironic seldom: for what takes days.
func (w *world) haveTime() {
	w.stop()
	ctx, cancel := context.WithCancel(w.t.Context())
	settings := fleetSettings()
	settings.PollInterval = time.Minute
	w.run(ctx, cancel, w.hosts, w.sim, settings)
}

// TestProtectedNode: that somebody has protected the node in Ironic is an error of this host, and not that Ironic refuses the server.
func TestProtectedNode(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		const words = "is protected and cannot be undeployed, rebuilt or deleted"
		w.secret("secret")
		w.hosts.Add(enrolled(0))
		w.after(30*time.Second, "available", w.in(metal3.StateAvailable))
		w.provision()
		w.setNode("protected", true)
		w.update(func(h *metal3.BareMetalHost) { h.Spec.Image = nil })
		w.after(time.Minute, "the host says so", func() bool { return strings.Contains(w.host().Status.ErrorMessage, words) })
		if reason := condition(w.host(), metal3.StepFailedCondition); reason != metal3.ProvisioningErrorReason {
			t.Errorf("the reason of StepFailed is %q", reason)
		}
		time.Sleep(time.Hour)
		if state := w.host().Status.Provisioning.State; state != metal3.StateDeprovisioning {
			t.Errorf("after an hour it is %s", state)
		}
		w.setNode("protected", false)
		// After an hour of failures, the pause is up to 64 minutes long.
		w.after(2*time.Hour, "it goes on by itself", w.in(metal3.StateAvailable))
	})
}

// TestDeletedWithoutSecret: that a host cannot be registered any more does not end its undeployment, which somebody or something delays.
func TestDeletedWithoutSecret(t *testing.T) {
	for name, delay := range map[string]struct{ begin, end func(w *world) }{
		"protected": {func(w *world) { w.setNode("protected", true) }, func(w *world) { w.setNode("protected", false) }},
		"busy": {func(w *world) {
			w.sim.Refuse("deleted", 503, "Requested action cannot be performed due to lack of free conductor workers.")
		}, func(w *world) { w.sim.Accept("deleted") }},
	} {
		t.Run(name, func(t *testing.T) {
			inSimulation(t, ironicsim.Options{PowerSyncInterval: -1}, func(t *testing.T, w *world) {
				w.provisionedHost()
				w.haveTime()
				if err := w.secrets.put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: enginetest.Namespace, Name: "bmc"}}); err != nil {
					t.Fatal(err)
				}
				delay.begin(w)
				w.hosts.Remove(t, enginetest.HostName(0))
				time.Sleep(6 * time.Hour)
				if w.gone() || w.wasTold("DeprovisioningAbandoned") || w.sim.Count("power off") != 0 {
					t.Fatal("the deletion has gone on")
				}
				delay.end(w)
				w.after(24*time.Hour, "it goes on by itself", w.gone)
				if w.wasTold("DeprovisioningAbandoned") || w.sim.Count("deleted") == 0 {
					t.Error("the machine was not undeployed")
				}
			})
		})
	}
}

// TestProtectedNodeDeleted: the deletion of a host waits as long as somebody protects its node: nothing is abandoned, and the machine is
// not switched off.
func TestProtectedNodeDeleted(t *testing.T) {
	inSimulation(t, ironicsim.Options{PowerSyncInterval: -1}, func(t *testing.T, w *world) {
		const words = "is protected and cannot be undeployed, rebuilt or deleted"
		w.provisionedHost()
		w.haveTime()
		w.setNode("protected", true)
		w.hosts.Remove(t, enginetest.HostName(0))
		w.after(time.Minute, "the host says so", func() bool { return strings.Contains(w.host().Status.ErrorMessage, words) })
		time.Sleep(48 * time.Hour)
		if w.gone() || w.wasTold("DeprovisioningAbandoned") || w.sim.Count("power off") != 0 {
			t.Fatal("the deletion has gone on")
		}
		w.setNode("protected", false)
		w.after(24*time.Hour, "it goes on by itself", w.gone)
		if w.wasTold("DeprovisioningAbandoned") {
			t.Error("the machine was not undeployed")
		}
	})
}
