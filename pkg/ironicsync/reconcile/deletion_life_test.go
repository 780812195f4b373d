// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// provisionedHost adds a host, an ordinary one if none is given, and waits until it runs an image.
func (w *world) provisionedHost(host ...*metal3.BareMetalHost) {
	w.t.Helper()
	w.secret("secret")
	if len(host) == 0 {
		host = append(host, enrolled(0))
	}
	wantImage(host[0])
	w.hosts.Add(host[0])
	w.after(30*time.Second, "provisioned", w.in(metal3.StateProvisioned))
}

func (w *world) wasTold(reason string) bool {
	w.events.mu.Lock()
	defer w.events.mu.Unlock()
	return slices.Contains(w.events.reasons, reason)
}

// switchedOnAtLast has somebody switch the machine on as soon as it is undeployed: Ironic's cleaning leaves it off.
func (w *world) switchedOnAtLast() {
	id := w.host().Status.Provisioning.ID
	var once sync.Once
	w.sim.Intercept(func(string, *http.Request) error {
		if node, _ := w.sim.Sim.Node(id); node["provision_state"] == string(ironic.Available) {
			once.Do(func() {
				w.sim.BMC(0).SetPower(string(ironic.PowerOn))
				w.setNode("power_state", string(ironic.PowerOn))
			})
		}
		return nil
	})
}

// TestNoCleaningAskedForAtLast: what the spec says last before a deletion counts.
func TestNoCleaningAskedForAtLast(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.provisionedHost()
		id := w.host().Status.Provisioning.ID
		deleted := w.sim.Count("deleted")
		w.update(func(h *metal3.BareMetalHost) { h.Spec.AutomatedCleaningMode = metal3.CleaningModeDisabled })
		w.hosts.Remove(t, enginetest.HostName(0))
		w.after(time.Minute, "undeployed", func() bool { return w.sim.Count("deleted") > deleted })
		if node := w.sim.Node(id); node == nil || node.AutomatedClean != "false" {
			t.Error("Ironic was not told, and cleans")
		}
		w.after(time.Minute, "deleted", w.gone)
	})
}

// TestDeletionWithoutRegistration: Ironic refuses what it is told, and the Secret
// cannot be read. The host goes all the same: deprovisioned where Ironic could be told at
// least not to clean it, and as it is otherwise.
func TestDeletionWithoutRegistration(t *testing.T) {
	for name, spoil := range map[string]func(w *world){
		"refused":    func(w *world) { w.sim.Refuse("UpdateNode", 400, "no") },
		"conflict":   func(w *world) { w.sim.Refuse("UpdateNode", 409, "no") },
		"incomplete": func(w *world) { w.secret("") },
		"incomplete, and the machine stays on": func(w *world) {
			w.secret("")
			w.sim.Refuse("power off", 400, "stuck")
		},
		"cannot be asked": func(w *world) { w.sim.Refuse("GetRegistration", 404, "no") },
	} {
		t.Run(name, func(t *testing.T) {
			inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
				w.provisionedHost()
				w.switchedOnAtLast()
				spoil(w)
				w.hosts.Edit(t, enginetest.HostName(0), func(h *metal3.BareMetalHost) { h.Spec.AutomatedCleaningMode = metal3.CleaningModeDisabled })
				w.hosts.Remove(t, enginetest.HostName(0))
				t.Logf("deleted after %s", w.after(15*time.Minute, "deleted", w.gone))
				undeployed := 1
				if name == "refused" || name == "conflict" {
					undeployed = 0
				}
				staysOn := strings.Contains(name, "stays on")
				isOn := w.sim.BMC(0).Power() == string(ironic.PowerOn)
				if w.wasTold("DeprovisioningAbandoned") != (undeployed == 0) || w.sim.Count("deleted") != undeployed || (w.sim.Count("power off") == 1) == staysOn || isOn != staysOn {
					t.Errorf("undeployed %d times, switched off %d times, on: %t", w.sim.Count("deleted"), w.sim.Count("power off"), isOn)
				}
			})
		})
	}
}

// TestLeftOverInstance: somebody left an instance of which the server does not know whether anybody waits for it. When a person
// has confirmed the node, it is replaced, which Ironic lets nobody do in one step.
func TestLeftOverInstance(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.available()
		id := w.host().Status.Provisioning.ID
		w.setNode("instance_uuid", "7f6b7d4c-3d8a-4a11-9f6e-8d3f0c1b2a90")
		w.update(wantImage)
		w.after(20*time.Second, "held", func() bool { return condition(w.host(), metal3.HeldCondition) == metal3.AnotherDeploymentReason })
		seen := w.sim.Node(id)
		w.hosts.EditStatus(t, enrolled(0).Name, func(h *metal3.BareMetalHost) {
			if err := lifecycle.TakeOver(h, seen, time.Now()); err != nil {
				t.Error(err)
			}
		})
		w.after(20*time.Second, "provisioned", w.in(metal3.StateProvisioned))
		if wanted, got := w.host().Status.Record.Deployment.InstanceUUID, w.sim.Node(id).InstanceUUID; got != wanted {
			t.Errorf("the instance is %q, and %q is recorded", got, wanted)
		}
	})
}

// TestConflictThatStays: a conflict that is no lock may be over in a moment. If it
// stays, the host says so, and Ironic is not asked again and again.
func TestConflictThatStays(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.available()
		const words = "Node is associated with something else."
		w.sim.Refuse("active", 409, words)
		w.update(wantImage)
		time.Sleep(5 * time.Second)
		if got := w.host().Status.ErrorMessage; got != "" {
			t.Errorf("shown at once: %q", got)
		}
		t.Logf("shown after another %s", w.after(30*time.Second, "it is shown", func() bool {
			return ownWords(w.host()) == words && w.host().Status.ErrorType == metal3.ProvisioningError
		}))
		tries := w.sim.Count("active")
		time.Sleep(10 * time.Minute)
		if more := w.sim.Count("active") - tries; more < 7 || more > 35 {
			t.Errorf("tried %d times more in ten minutes", more)
		}
		w.sim.Accept("active")
		w.after(time.Hour, "provisioned", w.in(metal3.StateProvisioned))
	})
}

// TestForcedRebootWhileCleaned: the cleaning that it aborted begins again at once,
// and is not aborted again.
func TestForcedRebootWhileCleaned(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.secret("secret")
		host := enrolled(0)
		wantImage(host)
		w.hosts.Add(host)
		w.after(20*time.Second, "being cleaned", func() bool {
			return w.host().Status.Provisioning.State == metal3.StateProvisioning && w.host().Status.Ironic.ProvisionState == string(ironic.CleanWait)
		})
		w.update(func(h *metal3.BareMetalHost) {
			h.Annotations = map[string]string{metal3.RebootAnnotation: `{"force":true}`}
		})
		w.after(20*time.Second, "provisioned", w.in(metal3.StateProvisioned))
		if _, left := w.host().Annotations[metal3.RebootAnnotation]; left {
			t.Error("the annotation is left")
		}
	})
}

// TestOldLookInterruptsNothing: when so much time has passed between looking at the node and
// acting, as while the leader's machine was suspended, the step is planned anew.
func TestOldLookInterruptsNothing(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.provisionedHost()
		w.sim.Sim.SetFaults(ironicsim.Faults{Latency: 21 * time.Second})
		w.hosts.Remove(t, enginetest.HostName(0))
		time.Sleep(5 * time.Minute)
		if n := w.sim.Count("deleted"); n != 0 || w.host().Status.Provisioning.State != metal3.StateProvisioned {
			t.Errorf("undeployed %d times, state %s", n, w.host().Status.Provisioning.State)
		}
		w.sim.Sim.SetFaults(ironicsim.Faults{})
		w.after(time.Minute, "deleted", w.gone)
	})
}

// TestSupersededLeaderChangesNothing: a request that had been decided on is not made if another
// replica can lead by then, as when this process was suspended.
func TestSupersededLeaderChangesNothing(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.provisionedHost()
		w.sim.Sim.SetFaults(ironicsim.Faults{Latency: 2 * time.Second})
		w.hosts.Remove(t, enginetest.HostName(0))
		time.Sleep(time.Second) // the leader is looking at the node
		w.superseded.Store(true)
		time.Sleep(5 * time.Minute)
		if n := w.sim.Count("deleted"); n != 0 || w.host().Status.Provisioning.State != metal3.StateProvisioned {
			t.Errorf("undeployed %d times, state %s", n, w.host().Status.Provisioning.State)
		}
		w.superseded.Store(false)
		w.after(time.Minute, "deleted", w.gone)
	})
}

// hostsThatGo has hosts deleted a moment before they are read.
type hostsThatGo struct {
	live.Hosts
	going atomic.Bool
	begin func()
}

func (h *hostsThatGo) Get(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, error) {
	if h.going.CompareAndSwap(true, false) {
		h.begin()
	}
	return h.Hosts.Get(ctx, namespace, name)
}

// TestDeletedWhileReporting: a host is deleted at the moment at which it is to be reported that its Secret is missing, for
// which the node is not looked at. It is looked at before the host is undeployed.
func TestDeletedWhileReporting(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.provisionedHost()
		w.stop()
		hosts := &hostsThatGo{Hosts: w.hosts, begin: func() { w.hosts.Remove(t, enginetest.HostName(0)) }}
		ctx, cancel := context.WithCancel(t.Context())
		w.run(ctx, cancel, hosts, w.sim, reconcile.Settings{BMCs: anywhere, Images: anywhere, MaxProvisioningRetries: 3, Workers: 4, PollInterval: time.Second})
		time.Sleep(10 * time.Second)
		hosts.going.Store(true)
		if err := errors.Join(w.secrets.client.Tracker().Delete(secretsResource, enginetest.Namespace, "bmc"), w.secrets.metadata.Tracker().Delete(secretsResource, enginetest.Namespace, "bmc")); err != nil {
			t.Fatal(err)
		}
		w.after(time.Minute, "being deleted", func() bool { return !hosts.going.Load() })
		w.after(5*time.Minute, "deleted", w.gone)
	})
}

// takeRightToSecrets has the cluster answer as it does to a server that has lost the right to Secrets. The returned function gives it
// back.
func (w *world) takeRightToSecrets() (giveBack func()) {
	lost := new(atomic.Bool)
	lost.Store(true)
	for _, verb := range []string{"get", "patch"} {
		w.secrets.client.PrependReactor(verb, "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return lost.Load(), nil, apierrors.NewForbidden(corev1.Resource("secrets"), "bmc",
				fmt.Errorf(`User "metal3" cannot %s resource "secrets" in API group "" in the namespace "metal3"`, verb))
		})
	}
	return func() { lost.Store(false) }
}

// TestDeletionWithoutRightToSecrets: a machine is undeployed with the credentials that Ironic has. Only then does its host wait for
// the right to release the Secret, and says so.
func TestDeletionWithoutRightToSecrets(t *testing.T) {
	const words = "Bind the ClusterRole metal3-apiserver-secrets"
	t.Run("undeployed", func(t *testing.T) {
		inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
			w.provisionedHost()
			w.switchedOnAtLast()
			giveBack := w.takeRightToSecrets()
			w.secret("secret") // as the deletion of the Secret does, this shows that it has changed
			w.hosts.Remove(t, enginetest.HostName(0))
			w.after(5*time.Minute, "undeployed, and told why it waits", func() bool {
				return w.sim.Count("deleted") == 1 && w.sim.Count("power off") == 1 && strings.Contains(w.host().Status.ErrorMessage, words) &&
					w.host().Status.Provisioning.State == metal3.StateDeleting
			})
			time.Sleep(10 * time.Minute)
			if w.gone() {
				t.Fatal("the host has left its Secret behind in a namespace that stays")
			}
			giveBack()
			w.after(2*time.Minute, "deleted", w.gone)
		})
	})
	t.Run("Ironic has lost the node", func(t *testing.T) {
		inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
			w.provisionedHost()
			id := w.host().Status.Provisioning.ID
			giveBack := w.takeRightToSecrets()
			w.secret("secret")
			if err := w.sim.Sim.LoseNode(id); err != nil {
				t.Fatal(err)
			}
			w.hosts.Remove(t, enginetest.HostName(0))
			time.Sleep(30 * time.Minute)
			if w.gone() {
				t.Fatal("the host was let go with what it runs, because its Secret could not be read")
			}
			if message := w.host().Status.ErrorMessage; !strings.Contains(message, words) {
				t.Errorf("the host says %q", message)
			}
			giveBack()
			w.after(10*time.Minute, "deleted", w.gone)
			if w.wasTold("DeprovisioningAbandoned") || w.sim.Count("provide") != 2 { // which cleans it, as before the deployment
				t.Error("what was on the disks is there")
			}
		})
	})
}

// TestDeletedWithUnseenSecret: what was provisioned is erased although Ironic has lost the node and cannot verify it anew for now, and the
// watch does not know of the Secret, which exists.
func TestDeletedWithUnseenSecret(t *testing.T) {
	inSimulation(t, ironicsim.Options{WithoutDefects: true}, func(t *testing.T, w *world) {
		w.provisionedHost()
		cleaned := w.sim.Count("provide")
		w.sim.BMC(0).SetDead(true)
		if err := w.sim.Sim.LoseNode(w.host().Status.Provisioning.ID); err != nil {
			t.Fatal(err)
		}
		w.after(10*time.Minute, "registered anew, and not verified", func() bool {
			node := w.host().Status.Ironic
			return node != nil && node.ProvisionState == string(ironic.Enroll) && w.host().Status.ErrorMessage != ""
		})
		watched := w.secrets.metadata.Tracker()
		secret, err := watched.Get(secretsResource, enginetest.Namespace, "bmc")
		if err == nil {
			err = watched.Delete(secretsResource, enginetest.Namespace, "bmc")
		}
		if err != nil {
			t.Fatal(err)
		}
		w.update(func(h *metal3.BareMetalHost) { h.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
		time.Sleep(time.Minute)
		if w.gone() {
			t.Fatal("the host has gone, and what its machine runs was not erased")
		}
		w.sim.BMC(0).SetDead(false)
		if err := watched.Create(secretsResource, secret, enginetest.Namespace); err != nil {
			t.Fatal(err)
		}
		w.after(3*time.Hour, "gone", w.gone)
		if w.sim.Count("provide") == cleaned {
			t.Error("the machine was not cleaned")
		}
	})
}
