// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

func TestKeepWhileUsed(t *testing.T) {
	eachCache(t, hosts(), func(t *testing.T, r *REST) {
		var users []string
		var unknown error
		asked := 0
		r.KeepWhileUsed(func(_ context.Context, ns, name string) ([]string, error) {
			if asked++; ns != storetest.Namespace || name != "worker-0" {
				t.Errorf("asked for %s/%s", ns, name)
			}
			return users, unknown
		})
		host := storetest.Create(t, r, newHost("worker-0"))
		change := func(change func(*metal3.BareMetalHost)) error {
			changed := storetest.GetHost(t, r, "worker-0").DeepCopy()
			change(changed)
			_, err := storetest.Put(t, r, changed)
			return err
		}
		spec := func(h *metal3.BareMetalHost) { h.Spec.Online = !h.Spec.Online }
		remove := func(validate rest.ValidateObjectFunc) error {
			_, _, err := r.Delete(storetest.InNamespace(t), "worker-0", validate, &metav1.DeleteOptions{})
			return err
		}
		removeAll := func() error {
			_, err := r.DeleteCollection(storetest.InNamespace(t), rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}, &metainternalversion.ListOptions{})
			return err
		}

		if err := change(spec); err != nil {
			t.Errorf("change of an unused object: %v", err)
		}
		users = slices.Repeat([]string{"x"}, 7)
		if err := change(spec); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec: Forbidden: cannot change while it is used by x, x, x, x, x and 2 more") {
			t.Errorf("change of a used object: %v", err)
		}
		for name, err := range map[string]error{"delete": remove(rest.ValidateAllObjectFunc), "deletecollection": removeAll()} {
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "used by x") {
				t.Errorf("%s of a used object: %v", name, err)
			}
		}
		asked = 0
		if err := change(func(h *metal3.BareMetalHost) { h.Finalizers = []string{"example.com/x"} }); err != nil || asked > 0 {
			t.Errorf("change of a used object's metadata: %v, asked %d times", err, asked)
		}
		// Admission runs first, and its error is returned.
		no := errors.New("no")
		if err := remove(func(context.Context, runtime.Object) error { return no }); !errors.Is(err, no) || asked > 0 {
			t.Errorf("a deletion that admission refuses: %v, asked %d times", err, asked)
		}
		users, unknown = nil, errors.New("etcd is away")
		for name, err := range map[string]error{"update": change(spec), "delete": remove(rest.ValidateAllObjectFunc)} {
			if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "etcd is away") {
				t.Errorf("%s while the users cannot be determined: %v", name, err)
			}
		}
		if after := storetest.GetHost(t, r, "worker-0"); after.DeletionTimestamp != nil || after.Generation != host.Generation+1 {
			t.Errorf("the object has changed: %+v", after.ObjectMeta)
		}
		// Removing the last finalizer of an object that is being deleted is always allowed.
		unknown = nil
		if err := remove(rest.ValidateAllObjectFunc); err != nil {
			t.Error(err)
		}
		users = []string{"x"}
		if err := change(func(h *metal3.BareMetalHost) { h.Finalizers = nil }); err != nil {
			t.Error(err)
		}
		if _, err := r.Get(storetest.InNamespace(t), "worker-0", &metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("after the last finalizer was removed: got %v, want NotFound", err)
		}
	})
}

// TestStatusWithoutStatus checks that the status subresource of a kind without a status field
// accepts a write and stores nothing.
func TestStatusWithoutStatus(t *testing.T) {
	k := data()
	k.HasStatus = true
	eachCache(t, k, func(t *testing.T, r *REST) {
		storage := map[string]rest.Storage{}
		r.AddTo(storage)
		changed := storetest.Create(t, r, &metal3.HardwareData{ObjectMeta: metav1.ObjectMeta{Namespace: storetest.Namespace, Name: "worker-0"}}).DeepCopy()
		changed.Spec.HardwareDetails = &metal3.HardwareDetails{Hostname: "x"}
		changed.Labels = map[string]string{"a": "b"}
		after, err := storetest.Put(t, storage["hardwaredata/status"].(rest.Updater), changed)
		if err != nil {
			t.Fatal(err)
		}
		if after.Spec.HardwareDetails != nil || after.Labels != nil || after.ResourceVersion != changed.ResourceVersion {
			t.Errorf("something was written: %+v", after)
		}
	})
}
