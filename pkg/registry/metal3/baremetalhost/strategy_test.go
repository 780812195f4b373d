// SPDX-License-Identifier: Apache-2.0

package baremetalhost_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	registrytesting "k8s.io/apiserver/pkg/registry/generic/testing"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// TestStore holds the store to what k8s.io/apiserver expects of every resource.
func TestStore(t *testing.T) {
	valid := func() *metal3.BareMetalHost {
		host := newHost("foo")
		host.Namespace = "" // the tester's
		return host
	}
	tests := map[string]func(*registrytesting.Tester){
		"create": func(r *registrytesting.Tester) {
			invalid := valid()
			invalid.Spec.BootMode = "floppy"
			r.TestCreate(valid(), invalid)
		},
		"update": func(r *registrytesting.Tester) {
			r.TestUpdate(valid(), func(obj runtime.Object) runtime.Object {
				obj.(*metal3.BareMetalHost).Spec.Online = true
				return obj
			}, func(obj runtime.Object) runtime.Object {
				obj.(*metal3.BareMetalHost).Spec.BootMACAddress = "not a MAC address"
				return obj
			})
		},
		"delete": func(r *registrytesting.Tester) { r.TestDelete(valid()) },
		"get":    func(r *registrytesting.Tester) { r.TestGet(valid()) },
		"list":   func(r *registrytesting.Tester) { r.TestList(valid()) },
		"watch": func(r *registrytesting.Tester) {
			r.TestWatch(valid(), []labels.Set{{}}, []labels.Set{{"no": "such"}},
				[]fields.Set{{}, {"metadata.name": "foo"}, {"spec.online": "false"}}, []fields.Set{{"spec.online": "true"}})
		},
	}
	etcd := storetest.New(t, storetest.Codec())
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			options := storetest.Options{Config: etcd.Config, NoCache: true}
			options.Config.Prefix += "/" + name // what one test leaves behind disturbs the next
			test(registrytesting.New(t, newStore(t, options)))
		})
	}
}

func TestCreateWipesStatus(t *testing.T) {
	eachCache(t, func(t *testing.T, store *genericregistry.Store) {
		host := newHost("worker-0")
		host.Generation = 7
		host.Status.PoweredOn = true
		host.Status.Provisioning.ID = "another host's node"
		created := storetest.Create(t, store, host)
		if diff := cmp.Diff(metal3.BareMetalHostStatus{}, created.Status); diff != "" {
			t.Errorf("a client wrote a status:\n%s", diff)
		}
		if created.Generation != 1 {
			t.Errorf("generation is %d, want 1", created.Generation)
		}
	})
}

func TestUpdate(t *testing.T) {
	tests := []struct {
		name       string
		change     func(*metal3.BareMetalHost)
		generation int64
		kept       func(*metal3.BareMetalHost) string // what must be as it was
	}{
		{"spec", func(h *metal3.BareMetalHost) { h.Spec.Online = true }, 2, nil},
		{"null", func(h *metal3.BareMetalHost) { h.Spec.RAID.HardwareRAIDVolumes = []metal3.HardwareRAIDVolume{} }, 2, nil},
		{"labels", func(h *metal3.BareMetalHost) { h.Labels = map[string]string{"rack": "1"} }, 1, nil},
		{"annotations", func(h *metal3.BareMetalHost) { h.Annotations = map[string]string{metal3.InspectAnnotation: ""} }, 1, nil},
		{"finalizers", func(h *metal3.BareMetalHost) { h.Finalizers = []string{"example.com/x"} }, 1, nil},
		{"status", func(h *metal3.BareMetalHost) { h.Status.ErrorMessage = "not so" }, 1,
			func(h *metal3.BareMetalHost) string { return h.Status.ErrorMessage }},
		{"generation", func(h *metal3.BareMetalHost) { h.Generation = 99 }, 1, nil},
	}
	eachCache(t, func(t *testing.T, store *genericregistry.Store) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				before := storetest.Create(t, store, newHost(test.name, func(h *metal3.BareMetalHost) { h.Spec.RAID = &metal3.RAIDConfig{} }))
				changed := before.DeepCopy()
				test.change(changed)
				after, err := storetest.Put(t, store, changed)
				if err != nil {
					t.Fatal(err)
				}
				if after.Generation != test.generation {
					t.Errorf("generation went from %d to %d, want %d", before.Generation, after.Generation, test.generation)
				}
				if test.kept != nil && test.kept(after) != test.kept(before) {
					t.Errorf("%q became %q", test.kept(before), test.kept(after))
				}
			})
		}
	})
}

// TestFencingIsShownAtOnce: the very change that fences a machine shows it as on while a request to switch it on may still be carried out, so
// that nobody who watches takes it for fenced already.
func TestFencingIsShownAtOnce(t *testing.T) {
	fences := map[string]func(*metal3.BareMetalHost){
		"online": func(h *metal3.BareMetalHost) { h.Spec.Online = false },
		"reboot": func(h *metal3.BareMetalHost) {
			h.Annotations = map[string]string{metal3.RebootAnnotationPrefix + "fence": ""}
		},
	}
	eachCache(t, func(t *testing.T, store *genericregistry.Store) {
		for name, fence := range fences {
			storetest.Create(t, store, newHost(name, func(h *metal3.BareMetalHost) { h.Spec.Online = true }))
			host := record(t, store, name, func(s *metal3.BareMetalHostStatus) {
				s.Provisioning.State = metal3.StateProvisioned
				s.Ironic = &metal3.IronicStatus{NodeUUID: "u", PowerState: string(ironic.PowerOff)}
				s.Record.PowerOns = []metal3.PowerOn{{ID: "1", NodeUUID: "u", At: metav1.Now()}}
			})
			changed := host.DeepCopy()
			fence(changed)
			fenced, err := storetest.Put(t, store, changed)
			if err != nil {
				t.Fatal(err)
			}
			if host.Status.PoweredOn || !fenced.Status.PoweredOn {
				t.Errorf("%s: shown as on before: %t, and in the change: %t", name, host.Status.PoweredOn, fenced.Status.PoweredOn)
			}
		}
	})
}

// TestOnlineCountsOnceChanged: a machine that was taken over while it ran keeps its power until
// spec.online changes, also if that is changed back before anybody has looked.
func TestOnlineCountsOnceChanged(t *testing.T) {
	eachCache(t, func(t *testing.T, store *genericregistry.Store) {
		host := storetest.Create(t, store, newHost("worker-0", func(h *metal3.BareMetalHost) { h.Spec.Online = false }))
		host = record(t, store, host.Name, func(s *metal3.BareMetalHostStatus) {
			s.Record.Deployment = &metal3.Deployment{NodeUUID: "u", InstanceUUID: "i", KeepPower: true}
			s.Record.PowerCut = &metal3.PowerCut{NodeUUID: "u"}
		})
		change := func(change func(*metal3.BareMetalHost)) {
			t.Helper()
			changed := host.DeepCopy()
			change(changed)
			var err error
			if host, err = storetest.Put(t, store, changed); err != nil {
				t.Fatal(err)
			}
		}
		change(func(h *metal3.BareMetalHost) { h.Spec.Description = "something else" })
		if !host.Status.Record.Deployment.KeepPower {
			t.Error("a change of something else counts")
		}
		if host.Status.Record.PowerCut == nil {
			t.Error("the power is not to be cut any more, after a change of something else")
		}
		change(func(h *metal3.BareMetalHost) { h.Spec.Online = true })
		change(func(h *metal3.BareMetalHost) { h.Spec.Online = false })
		if diff := cmp.Diff(&metal3.Deployment{NodeUUID: "u", InstanceUUID: "i"}, host.Status.Record.Deployment); diff != "" {
			t.Errorf("after online was true and false again (-want +got):\n%s", diff)
		}
		if host.Status.Record.PowerCut != nil {
			t.Error("the power is to be cut once more, after online was true and false again")
		}
	})
}

func TestUpdateRefused(t *testing.T) {
	tests := []struct {
		name    string
		change  func(*metal3.BareMetalHost)
		refused func(error) bool
	}{
		{"without a resourceVersion", func(h *metal3.BareMetalHost) { h.ResourceVersion = "" }, apierrors.IsInvalid},
		{"with an old resourceVersion", func(h *metal3.BareMetalHost) { h.ResourceVersion = "1" }, apierrors.IsConflict},
		{"with another UID", func(h *metal3.BareMetalHost) { h.UID = "another" }, apierrors.IsConflict},
		{"of a host that is not there", func(h *metal3.BareMetalHost) { h.Name = "no-such" }, apierrors.IsNotFound},
		{"against the rules", func(h *metal3.BareMetalHost) { h.Spec.BootMode = "floppy" }, apierrors.IsInvalid},
	}
	eachCache(t, func(t *testing.T, store *genericregistry.Store) {
		status := baremetalhost.NewStatusREST(baremetalhost.NewREST(store, newScripted(store), nil, nil), scheme, nil)
		host := storetest.Create(t, store, newHost("worker-0"))
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				changed := host.DeepCopy()
				changed.Spec.Online = true
				test.change(changed)
				if _, err := storetest.Put(t, store, changed); !test.refused(err) {
					t.Errorf("got %v", err)
				}
				if test.name == "against the rules" {
					return // the spec is not looked at here
				}
				changed.Status.ErrorMessage = "changed"
				if _, err := storetest.Put(t, status, changed); !test.refused(err) {
					t.Errorf("through /status: got %v", err)
				}
			})
		}
		if diff := cmp.Diff(host, get(t, store, "worker-0")); diff != "" {
			t.Errorf("something was written:\n%s", diff)
		}
	})
}

func TestStatusUpdate(t *testing.T) {
	eachCache(t, func(t *testing.T, store *genericregistry.Store) {
		status := baremetalhost.NewStatusREST(baremetalhost.NewREST(store, newScripted(store), nil, nil), scheme, nil)
		before := storetest.Create(t, store, newHost("worker-0", func(h *metal3.BareMetalHost) {
			h.Labels = map[string]string{"rack": "1"}
			h.Finalizers = []string{metal3.BareMetalHostFinalizer}
		}))
		changed := before.DeepCopy()
		changed.Spec.Online = true
		changed.Labels = map[string]string{"rack": "2"}
		changed.Annotations = map[string]string{metal3.PausedAnnotation: ""}
		changed.Finalizers = nil
		changed.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "x", UID: "y"}}
		changed.Generation = 9
		changed.Status.ProvisioningFailCount = 3
		after, err := storetest.Put(t, status, changed)
		if err != nil {
			t.Fatal(err)
		}
		want := before.DeepCopy()
		want.Status.ProvisioningFailCount = 3
		want.ResourceVersion, want.Status.LastUpdated = after.ResourceVersion, after.Status.LastUpdated
		if after.Status.LastUpdated.IsZero() {
			t.Error("the status changed, but lastUpdated did not")
		}
		if diff := cmp.Diff(want, after); diff != "" {
			t.Errorf("more than the status was written (- want, + got):\n%s", diff)
		}

		changed = after.DeepCopy()
		changed.Status.OperationalStatus = "fine"
		if _, err := storetest.Put(t, status, changed); !apierrors.IsInvalid(err) {
			t.Errorf("an unknown operational status: got %v", err)
		}
	})
}

// TestDeleteCollection deletes more hosts than there are workers, and leaves
// those of other namespaces alone.
func TestDeleteCollection(t *testing.T) {
	eachCache(t, func(t *testing.T, store *genericregistry.Store) {
		hosts := baremetalhost.NewREST(store, newScripted(store), nil, nil)
		for i := range 5 {
			storetest.Create(t, hosts, newHost(fmt.Sprintf("worker-%d", i)))
		}
		if _, err := hosts.DeleteCollection(storetest.InNamespace(t), rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}, nil); err != nil {
			t.Fatal(err)
		}
		if left := list(t, hosts, nil).Items; len(left) != 0 {
			t.Errorf("%d hosts are left", len(left))
		}
	})
}
