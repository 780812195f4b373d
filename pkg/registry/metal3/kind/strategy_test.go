// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	registrytesting "k8s.io/apiserver/pkg/registry/generic/testing"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// TestStore runs the tests that k8s.io/apiserver has for every resource.
func TestStore(t *testing.T) {
	valid := func() *metal3.BareMetalHost {
		return &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "foo"}} // in the tester's namespace
	}
	wrong := func(obj runtime.Object) runtime.Object {
		obj.(*metal3.BareMetalHost).Spec.Description = "wrong"
		return obj
	}
	tests := map[string]func(*registrytesting.Tester){
		"create": func(r *registrytesting.Tester) { r.TestCreate(valid(), wrong(valid())) },
		"update": func(r *registrytesting.Tester) {
			r.TestUpdate(valid(), func(obj runtime.Object) runtime.Object {
				obj.(*metal3.BareMetalHost).Spec.Online = true
				return obj
			}, wrong)
		},
		"delete": func(r *registrytesting.Tester) { r.TestDelete(valid()) },
		"get":    func(r *registrytesting.Tester) { r.TestGet(valid()) },
		"list":   func(r *registrytesting.Tester) { r.TestList(valid()) },
		"watch": func(r *registrytesting.Tester) {
			r.TestWatch(valid(), []labels.Set{{}}, []labels.Set{{"no": "such"}},
				[]fields.Set{{}, {"metadata.name": "foo"}}, []fields.Set{{"metadata.name": "bar"}})
		},
	}
	etcd := storetest.New(t, storetest.Codec())
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			options := storetest.Options{Config: etcd.Config, NoCache: true}
			options.Config.Prefix += "/" + name // what one test leaves behind would disturb the next
			test(registrytesting.New(t, newREST(t, hosts(), options).Store))
		})
	}
}

func TestNames(t *testing.T) {
	eachCache(t, data(), func(t *testing.T, r *REST) {
		if r.GetSingularName() != "hardwaredata" || len(r.ShortNames()) != 1 || r.ShortNames()[0] != "hd" {
			t.Errorf("singular %s, short names %v", r.GetSingularName(), r.ShortNames())
		}
	})
}

func TestCreate(t *testing.T) {
	eachCache(t, hosts(), func(t *testing.T, r *REST) {
		created := storetest.Create(t, r, newHost("worker-0", func(h *metal3.BareMetalHost) {
			h.Generation = 7
			h.Status.ErrorMessage = "not so"
		}))
		if created.Generation != 1 || created.Status.ErrorMessage != "" || created.UID == "" {
			t.Errorf("created %+v", created)
		}
		bad := newHost("Not_A_DNS_Name")
		if _, err := r.Create(storetest.InNamespace(t), bad, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("a bad name: %v", err)
		}
	})
}

func TestUpdate(t *testing.T) {
	tests := []struct {
		name       string
		change     func(*metal3.BareMetalHost)
		noStatus   bool // the kind has no status subresource
		generation int64
		message    string // status.errorMessage afterwards
	}{
		{name: "nothing", change: func(*metal3.BareMetalHost) {}, generation: 1},
		{name: "spec", change: func(h *metal3.BareMetalHost) { h.Spec.Online = true }, generation: 2},
		{name: "labels", change: func(h *metal3.BareMetalHost) { h.Labels = map[string]string{"rack": "1"} }, generation: 1},
		{name: "finalizers", change: func(h *metal3.BareMetalHost) { h.Finalizers = []string{"example.com/x"} }, generation: 1},
		{name: "generation", change: func(h *metal3.BareMetalHost) { h.Generation = 99 }, generation: 1},
		{name: "status", change: func(h *metal3.BareMetalHost) { h.Status.ErrorMessage = "changed" }, generation: 1},
		{name: "kind without a status subresource", change: func(h *metal3.BareMetalHost) { h.Status.ErrorMessage = "changed" }, noStatus: true, generation: 2, message: "changed"},
	}
	for _, noStatus := range []bool{false, true} {
		k := hosts()
		k.HasStatus = !noStatus
		eachCache(t, k, func(t *testing.T, r *REST) {
			for _, test := range tests {
				if test.noStatus != noStatus {
					continue
				}
				t.Run(test.name, func(t *testing.T) {
					host := storetest.Create(t, r, newHost(strings.ReplaceAll(test.name, " ", "-")))
					test.change(host)
					after, err := storetest.Put(t, r, host)
					if err != nil {
						t.Fatal(err)
					}
					if after.Generation != test.generation || after.Status.ErrorMessage != test.message {
						t.Errorf("generation %d, status.errorMessage %q", after.Generation, after.Status.ErrorMessage)
					}
				})
			}
		})
	}
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
		{"of one that is not there", func(h *metal3.BareMetalHost) { h.Name = "no-such" }, apierrors.IsNotFound},
		{"with a bad label", func(h *metal3.BareMetalHost) { h.Labels = map[string]string{"a b": ""} }, apierrors.IsInvalid},
		{"against the rules", func(h *metal3.BareMetalHost) { h.Spec.Description = "wrong" }, apierrors.IsInvalid},
	}
	eachCache(t, hosts(), func(t *testing.T, r *REST) {
		before := storetest.Create(t, r, newHost("worker-0"))
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				changed := before.DeepCopy()
				changed.Spec.Online = true
				test.change(changed)
				if _, err := storetest.Put(t, r, changed); !test.refused(err) {
					t.Errorf("got %v", err)
				}
			})
		}
		if diff := cmp.Diff(before, storetest.GetHost(t, r, "worker-0")); diff != "" {
			t.Errorf("something was written:\n%s", diff)
		}
	})
}

func TestStatusUpdate(t *testing.T) {
	eachCache(t, hosts(), func(t *testing.T, r *REST) {
		storage := map[string]rest.Storage{}
		r.AddTo(storage)
		status, ok := storage["baremetalhosts/status"].(rest.Updater)
		if len(storage) != 2 || storage["baremetalhosts"] != r || !ok {
			t.Fatalf("served is %v", storage)
		}
		before := storetest.Create(t, r, newHost("worker-0", func(h *metal3.BareMetalHost) {
			h.Labels = map[string]string{"rack": "1"}
			h.Finalizers = []string{"example.com/x"}
		}))
		changed := before.DeepCopy()
		changed.Spec.Online = true
		changed.Labels = map[string]string{"rack": "2"}
		changed.Finalizers = nil
		changed.Generation = 9
		changed.Status.ErrorMessage = "so it is"
		after, err := storetest.Put(t, status, changed)
		if err != nil {
			t.Fatal(err)
		}
		want := before.DeepCopy()
		want.Status.ErrorMessage = "so it is"
		want.ResourceVersion = after.ResourceVersion
		if diff := cmp.Diff(want, after); diff != "" {
			t.Errorf("more than the status was written (- want, + got):\n%s", diff)
		}
		// The main resource does not change the status.
		after.Status.ErrorMessage, after.Spec.Online = "not so", true
		after, err = storetest.Put(t, r, after)
		if err != nil {
			t.Fatal(err)
		}
		if after.Status.ErrorMessage != "so it is" || !after.Spec.Online {
			t.Errorf("the host is %+v", after)
		}
	})
}

func TestWithoutStatus(t *testing.T) {
	eachCache(t, data(), func(t *testing.T, r *REST) {
		storage := map[string]rest.Storage{}
		if r.AddTo(storage); len(storage) != 1 || storage["hardwaredata"] != r {
			t.Errorf("served is %v", storage)
		}
		if fields := r.GetResetFields(); len(fields) != 0 {
			t.Errorf("server-side apply drops %v", fields)
		}
	})
}

// TestInvalidKinds checks that NewREST refuses an invalid description of a kind.
func TestInvalidKinds(t *testing.T) {
	tests := map[string]func(*Kind){
		"no metadata": func(k *Kind) { k.New = func() runtime.Object { return &metav1.Status{} } },
		"JSONPath":    func(k *Kind) { k.Columns = []Column{{Name: "Bad", JSONPath: ".spec[", Type: "string"}} },
	}
	for says, change := range tests {
		k := data()
		change(&k)
		if _, err := NewREST(k, scheme, generic.RESTOptions{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
