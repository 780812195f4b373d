// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// putSecret writes the Secret "named", which the tests' hosts name.
func (w *world) putSecret(options ...func(*corev1.Secret)) {
	w.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: enginetest.Namespace, Name: "named"}}
	for _, o := range options {
		o(secret)
	}
	if err := w.secrets.put(secret); err != nil {
		w.t.Fatal(err)
	}
}

func holding(key, value string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Data = map[string][]byte{key: []byte(value)} }
}

// TestSecretsCorrected: a host whose deployment waits for a Secret, whichever, goes on
// when that comes, and when what is wrong in it is corrected; and not when nothing
// is. Until the Secret comes, nothing is cleaned.
func TestSecretsCorrected(t *testing.T) {
	t.Parallel()
	named := &corev1.SecretReference{Name: "named"}
	pull := func(s *corev1.Secret) { s.Type = corev1.SecretTypeDockerConfigJson }
	for name, tt := range map[string]struct {
		want func(*metal3.BareMetalHost)
		// wrong is what is in the Secret first, right later.
		wrong, right []func(*corev1.Secret)
	}{
		"user data": {
			func(h *metal3.BareMetalHost) { h.Spec.UserData = named },
			[]func(*corev1.Secret){holding("user-data", "#cloud-config")}, []func(*corev1.Secret){holding("userData", "#cloud-config")},
		},
		"network data": {
			func(h *metal3.BareMetalHost) { h.Spec.NetworkData = named },
			[]func(*corev1.Secret){holding("networkData", "[")}, []func(*corev1.Secret){holding("networkData", "links: []")},
		},
		"meta data": {
			func(h *metal3.BareMetalHost) { h.Spec.MetaData = named },
			[]func(*corev1.Secret){holding("metaData", "[")}, []func(*corev1.Secret){holding("metaData", "a: b")},
		},
		"network data of the ramdisk": {
			func(h *metal3.BareMetalHost) { h.Spec.PreprovisioningNetworkDataName = "named" },
			[]func(*corev1.Secret){holding("networkData", "[")}, []func(*corev1.Secret){holding("networkData", "links: []")},
		},
		"pull Secret": {
			func(h *metal3.BareMetalHost) {
				h.Spec.Image = &metal3.Image{URL: "oci://registry.example/linux", DiskFormat: ptr.To(metal3.Raw), OCIAuthSecretName: ptr.To("named")}
			},
			[]func(*corev1.Secret){pull, holding(corev1.DockerConfigJsonKey, "{")},
			[]func(*corev1.Secret){pull, holding(corev1.DockerConfigJsonKey, `{"auths":{"registry.example":{"username":"a","password":"b"}}}`)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			const quick = 200 * time.Millisecond
			inSimulation(t, ironicsim.Options{Delays: ironicsim.All(quick), RamdiskDelay: quick}, func(t *testing.T, w *world) {
				w.available()
				w.update(func(h *metal3.BareMetalHost) { wantImage(h); tt.want(h) })
				failures := func(n int) func() bool {
					return func() bool { return w.host().Status.ErrorMessage != "" && w.host().Status.ErrorCount == n }
				}
				w.after(5*time.Second, "the Secret is missing", failures(1))
				if state, cleans := w.host().Status.Provisioning.State, w.sim.Count("provide"); state != metal3.StateAvailable || cleans != 0 {
					t.Errorf("without the Secret, the host is %s and was cleaned %d times", state, cleans)
				}
				time.Sleep(10 * time.Second)
				w.putSecret(tt.wrong...)
				w.after(5*time.Second, "the Secret is wrong", failures(2))
				time.Sleep(5 * time.Second)
				touched := append(tt.wrong, func(s *corev1.Secret) {
					s.Labels = map[string]string{metal3.EnvironmentLabel: metal3.EnvironmentLabelValue, "touched": "true"}
				})
				w.putSecret(touched...)
				time.Sleep(5 * time.Second) // where the registration fails, the next try is due 16 s after it
				if s := w.host().Status; s.ErrorCount != 2 {
					t.Errorf("tried again, with nothing new in the Secret: %d times, %s", s.ErrorCount, s.ErrorMessage)
				}
				w.putSecret(tt.right...)
				t.Logf("provisioned %s after the Secret was corrected", w.after(10*time.Second, "provisioned", w.in(metal3.StateProvisioned)))
				if s := w.host().Status; s.ErrorCount != 0 || s.ProvisioningFailCount != 0 {
					t.Errorf("errors: %d, failures: %d", s.ErrorCount, s.ProvisioningFailCount)
				}
			})
		})
	}
}

// TestPullSecretOfRebuildCorrected: a rebuild that has failed, after which nothing is undeployed, is tried again with the pull secret that is
// there now. Ironic does not show which one it has.
func TestPullSecretOfRebuildCorrected(t *testing.T) {
	t.Parallel()
	inSimulation(t, quickIronic(), func(t *testing.T, w *world) {
		put := func(password string) {
			w.putSecret(func(s *corev1.Secret) { s.Type = corev1.SecretTypeDockerConfigJson },
				holding(corev1.DockerConfigJsonKey, `{"auths":{"registry.example":{"username":"a","password":"`+password+`"}}}`))
		}
		put("expired")
		w.available()
		w.update(func(h *metal3.BareMetalHost) {
			wantImage(h)
			h.Spec.Image = &metal3.Image{URL: "oci://registry.example/linux", DiskFormat: ptr.To(metal3.Raw), OCIAuthSecretName: ptr.To("named")}
		})
		w.after(time.Minute, "provisioned", w.in(metal3.StateProvisioned))
		w.failNext("deploy")
		host := w.host()
		if err := lifecycle.RequestRebuild(host, w.sim.Node(host.Status.Provisioning.ID), time.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := w.hosts.Record(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		w.after(time.Minute, "the rebuild fails", func() bool { return w.host().Status.ErrorMessage != "" })
		put("valid")
		w.after(10*time.Minute, "rebuilt", w.in(metal3.StateProvisioned))
		node, _ := w.sim.Sim.Node(host.Status.Provisioning.ID)
		if info, _ := node["instance_info"].(map[string]any); info["image_pull_secret"] != "a:valid" || w.sim.Count("rebuild") != 2 {
			t.Errorf("%d requests, the last one with %v", w.sim.Count("rebuild"), info["image_pull_secret"])
		}
	})
}

// TestErrorEndsWithAcceptedStep: what was wrong is gone as soon as Ironic has accepted
// the step, also when the host was observed while the step was under way.
func TestErrorEndsWithAcceptedStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		delays := ironicsim.All(time.Second)
		delays.Deploy = time.Minute
		w := newSimulatedWorld(t, ironicsim.Options{Delays: delays})
		var observed atomic.Bool
		failed := func(h *metal3.BareMetalHost) bool {
			return meta.IsStatusConditionTrue(h.Status.Conditions, metal3.StepFailedCondition)
		}
		w.hosts.BeforeRecord = func(ended *metal3.BareMetalHost) {
			if is := w.host(); failed(is) && !failed(ended) && !observed.Swap(true) {
				w.hosts.EditStatus(t, is.Name, func(h *metal3.BareMetalHost) {
					h.Status.LastUpdated = ptr.To(metav1.NewTime(time.Now().Add(time.Second)))
				})
			}
		}
		w.start(0)
		defer func() { w.stop() }()
		w.available()
		w.update(func(h *metal3.BareMetalHost) {
			wantImage(h)
			h.Spec.UserData = &corev1.SecretReference{Name: "named"}
		})
		w.after(5*time.Second, "the Secret is missing", func() bool { return failed(w.host()) })
		w.putSecret(holding("userData", "#cloud-config"))
		w.after(15*time.Second, "deploying", func() bool { return w.host().Status.Ironic.ProvisionState == string(ironic.Deploying) })
		time.Sleep(5 * time.Second)
		if s := w.host().Status; s.ErrorMessage != "" || s.OperationalStatus != metal3.OperationalStatusOK {
			t.Errorf("while Ironic deploys: %s, %s", s.OperationalStatus, s.ErrorMessage)
		}
		if !observed.Load() {
			t.Error("nothing came between")
		}
	})
}

// failedUpdate has a host whose update of firmware has failed, and whose node Ironic has put in maintenance.
func (w *world) failedUpdate() {
	w.t.Helper()
	w.available(redfishHost())
	w.failNext("clean")
	w.wantFirmware("bios", "http://images/wrong")
	w.after(20*time.Second, "failed", func() bool { return w.host().Status.ErrorType == metal3.PreparationError })
	if s := w.sim.Node(w.host().Status.Provisioning.ID); !s.Maintenance || s.Fault != ironic.FaultCleanFailure {
		w.t.Errorf("the maintenance of the node is %t, its fault %q", s.Maintenance, s.Fault)
	}
}

// TestFirmwareCorrected: an update that failed is made anew as soon as its spec is corrected and Ironic has
// discarded the old one, also if Ironic rewords the failure when the maintenance of the node ends.
func TestFirmwareCorrected(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.failedUpdate()
		w.sim.Intercept(func(call string, _ *http.Request) error {
			if call == "ClearMaintenance" {
				w.setNode("last_error", "it failed, said in other words")
			}
			return nil
		})
		w.setNode("driver_internal_info", map[string]any{"redfish_fw_updates": []any{map[string]any{"component": "bios"}}})
		time.Sleep(10 * time.Second)
		if w.cleans() != 1 {
			t.Errorf("%d cleans before the spec was corrected", w.cleans())
		}
		w.wantFirmware("bios", "http://images/right")
		time.Sleep(15 * time.Second)
		if w.cleans() != 1 || !w.host().Status.Ironic.Maintenance {
			t.Errorf("%d cleans before Ironic has discarded the update that failed, maintenance %t", w.cleans(), w.host().Status.Ironic.Maintenance)
		}
		w.setNode("driver_internal_info", map[string]any{})
		t.Logf("updated %s after the failed update was discarded", w.after(20*time.Second, "updated", func() bool {
			return w.in(metal3.StateAvailable)() && w.firmwareSays(false, true)
		}))
	})
}

// TestSecretIsBeingDeleted: a host tells that the Secret with its credentials is being deleted, without anything being asked of Ironic
// for that, and goes on with another one.
func TestSecretIsBeingDeleted(t *testing.T) {
	inSimulation(t, ironicsim.Options{BMCTimeout: time.Second}, func(t *testing.T, w *world) {
		w.available()
		updates := w.sim.Count("UpdateNode")
		deleted := w.storedSecret().DeepCopy()
		deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		if err := w.secrets.put(deleted); err != nil {
			t.Fatal(err)
		}
		registered := func() *metav1.Condition {
			return meta.FindStatusCondition(w.host().Status.Conditions, metal3.RegisteredCondition)
		}
		told := func() bool { return strings.Contains(registered().Message, "is being deleted") }
		w.after(5*time.Second, "it is told", told)
		if c := registered(); c.Status != metav1.ConditionTrue || w.host().Status.ErrorMessage != "" {
			t.Errorf("Registered is %s, and the error %q", c.Status, w.host().Status.ErrorMessage)
		}
		w.stop()
		w.start(0) // which has not seen the Secret before
		time.Sleep(time.Minute)
		if !told() || w.sim.Count("UpdateNode") != updates {
			t.Errorf("told: %t, and the node was updated %d times", told(), w.sim.Count("UpdateNode")-updates)
		}
		other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: enginetest.Namespace, Name: "another"}, Data: deleted.Data}
		if err := w.secrets.put(other); err != nil {
			t.Fatal(err)
		}
		w.update(func(h *metal3.BareMetalHost) { h.Spec.BMC.CredentialsName = "another" })
		w.after(30*time.Second, "it goes on with another one", func() bool { return !told() && registered().Status == metav1.ConditionTrue })
		if slices.Contains(w.storedSecret().Finalizers, metal3.SecretFinalizer) {
			t.Error("the Secret that is being deleted is held on to")
		}
	})
}

// TestFormerSecretsAreReleased: Secrets that a host has named while it could not be registered are not held when it is, whichever
// request has failed, and one that it still names is.
func TestFormerSecretsAreReleased(t *testing.T) {
	inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
		w.secret("wrong") // of the BMC
		w.putCredentials(enginetest.Namespace, "refused")
		w.putCredentials(enginetest.Namespace, "right")
		held := func(name string) bool {
			secret, err := w.secrets.client.CoreV1().Secrets(enginetest.Namespace).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return slices.Contains(secret.Finalizers, metal3.SecretFinalizer)
		}
		w.hosts.Add(enrolled(0))
		w.after(time.Minute, "refused by the BMC", func() bool { return w.host().Status.ErrorType == metal3.RegistrationError })
		w.sim.Refuse("UpdateNode", 400, "the conductor has no such driver")
		w.sim.Refuse("CreateNode", 400, "the conductor has no such driver")
		w.update(func(h *metal3.BareMetalHost) { h.Spec.BMC.CredentialsName = "refused" })
		w.after(time.Minute, "refused by Ironic", func() bool {
			return held("refused") && strings.Contains(w.host().Status.ErrorMessage, "no such driver")
		})
		w.sim.Accept("UpdateNode")
		w.sim.Accept("CreateNode")
		w.update(func(h *metal3.BareMetalHost) { h.Spec.BMC.CredentialsName = "right" })
		w.after(5*time.Minute, "available", w.in(metal3.StateAvailable))
		for name, want := range map[string]bool{"bmc": false, "refused": false, "right": true} {
			if held(name) != want {
				t.Errorf("the Secret %s is held: %t", name, !want)
			}
		}
	})
}
