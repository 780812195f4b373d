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
)

func TestKeepWhileUsed(t *testing.T) {
	eachCache(t, hosts(), func(t *testing.T, r *REST) {
		var users []string
		var unknown error
		asked := 0
		r.KeepWhileUsed(func(_ context.Context, ns, name string) ([]string, error) {
			if asked++; ns != namespace || name != "worker-0" {
				t.Errorf("asked for %s/%s", ns, name)
			}
			return users, unknown
		})
		host := create(t, r, newHost("worker-0"))
		change := func(change func(*metal3.BareMetalHost)) error {
			changed := get(t, r, "worker-0").(*metal3.BareMetalHost).DeepCopy()
			change(changed)
			_, err := put(t, r, changed)
			return err
		}
		spec := func(h *metal3.BareMetalHost) { h.Spec.Online = !h.Spec.Online }
		remove := func(validate rest.ValidateObjectFunc) error {
			_, _, err := r.Delete(inNamespace(t), "worker-0", validate, &metav1.DeleteOptions{})
			return err
		}
		removeAll := func() error {
			_, err := r.DeleteCollection(inNamespace(t), rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}, &metainternalversion.ListOptions{})
			return err
		}

		if err := change(spec); err != nil {
			t.Errorf("what nobody uses: %v", err)
		}
		users = slices.Repeat([]string{"x"}, 7)
		if err := change(spec); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec: Forbidden: cannot change while it is used by x, x, x, x, x and 2 more") {
			t.Errorf("what is used: %v", err)
		}
		for name, err := range map[string]error{"delete": remove(rest.ValidateAllObjectFunc), "deletecollection": removeAll()} {
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "used by x") {
				t.Errorf("%s of what is used: %v", name, err)
			}
		}
		asked = 0
		if err := change(func(h *metal3.BareMetalHost) { h.Finalizers = []string{"example.com/x"} }); err != nil || asked > 0 {
			t.Errorf("metadata of what is used: %v, asked %d times", err, asked)
		}
		// Admission comes first, and what it says is said.
		no := errors.New("no")
		if err := remove(func(context.Context, runtime.Object) error { return no }); !errors.Is(err, no) || asked > 0 {
			t.Errorf("a deletion that admission refuses: %v, asked %d times", err, asked)
		}
		users, unknown = nil, errors.New("etcd is away")
		for name, err := range map[string]error{"update": change(spec), "delete": remove(rest.ValidateAllObjectFunc)} {
			if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "etcd is away") {
				t.Errorf("%s while nobody can tell: %v", name, err)
			}
		}
		if after := get(t, r, "worker-0").(*metal3.BareMetalHost); after.DeletionTimestamp != nil || after.Generation != host.Generation+1 {
			t.Errorf("after all that it is %+v", after.ObjectMeta)
		}
		// The last finalizer of what is being deleted goes without a question.
		unknown = nil
		if err := remove(rest.ValidateAllObjectFunc); err != nil {
			t.Error(err)
		}
		users = []string{"x"}
		if err := change(func(h *metal3.BareMetalHost) { h.Finalizers = nil }); err != nil {
			t.Error(err)
		}
		if _, err := r.Get(inNamespace(t), "worker-0", &metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("it is still there: %v", err)
		}
	})
}

// A status subresource of a kind without a status takes what it is given, and keeps
// nothing of it.
func TestStatusWithoutStatus(t *testing.T) {
	k := data()
	k.HasStatus = true
	eachCache(t, k, func(t *testing.T, r *REST) {
		storage := map[string]rest.Storage{}
		r.AddTo(storage)
		changed := create(t, r, &metal3.HardwareData{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "worker-0"}}).DeepCopy()
		changed.Spec.HardwareDetails = &metal3.HardwareDetails{Hostname: "x"}
		changed.Labels = map[string]string{"a": "b"}
		after, err := put(t, storage["hardwaredata/status"].(rest.Updater), changed)
		if err != nil {
			t.Fatal(err)
		}
		if after.Spec.HardwareDetails != nil || after.Labels != nil || after.ResourceVersion != changed.ResourceVersion {
			t.Errorf("something was written: %+v", after)
		}
	})
}
