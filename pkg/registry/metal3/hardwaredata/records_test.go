package hardwaredata_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	etcd3testing "k8s.io/apiserver/pkg/storage/etcd3/testing"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/install"
	api "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/hardwaredata"
)

const namespace = "metal3"

// options provides storage for all resources in one etcd, with the watch cache on.
type options storagebackend.Config

func (o options) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	config := storagebackend.Config(o)
	return generic.RESTOptions{
		StorageConfig:  config.ForResource(resource),
		Decorator:      genericregistry.StorageWithCacher(),
		ResourcePrefix: "/" + resource.Group + "/" + resource.Resource,
	}, nil
}

// newRecords returns Records on a real etcd.
func newRecords(t *testing.T) *hardwaredata.Records {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	_, config := etcd3testing.NewUnsecuredEtcd3TestClientServer(t)
	config.EventsHistoryWindow = storagebackend.DefaultEventsHistoryWindow
	config.Codec = serializer.NewCodecFactory(scheme).LegacyCodec(api.SchemeGroupVersion)
	kinds, err := metal3.NewKinds(scheme, options(*config))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds {
		t.Cleanup(k.DestroyFunc)
		err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 5*time.Minute, true,
			func(context.Context) (bool, error) { return k.ReadinessCheck() == nil, nil })
		if err != nil {
			t.Fatal("the store does not become ready")
		}
	}
	return kinds.HardwareData()
}

func newData(name, hostname string, finalizers ...string) *api.HardwareData {
	return &api.HardwareData{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: finalizers},
		Spec:       api.HardwareDataSpec{HardwareDetails: &api.HardwareDetails{Hostname: hostname}},
	}
}

func TestPut(t *testing.T) {
	records, ctx := newRecords(t), t.Context()
	put := func(data *api.HardwareData) *api.HardwareData {
		t.Helper()
		if err := records.Put(ctx, data); err != nil {
			t.Fatal(err)
		}
		recorded, err := records.Get(ctx, data.Namespace, data.Name)
		if err != nil {
			t.Fatal(err)
		}
		return recorded
	}
	deleted := newData("worker-0", "first", api.HardwareDataFinalizer)
	deleted.UID, deleted.ResourceVersion = "of a deleted object", "1"
	first := put(deleted)
	if first.UID == "" || first.UID == deleted.UID || first.Generation != 1 || len(first.Finalizers) != 1 {
		t.Errorf("created %+v", first)
	}
	// Putting the same spec again causes no write, and so no watch event.
	if again := put(newData("worker-0", "first")); again.ResourceVersion != first.ResourceVersion {
		t.Error("an equal spec was written")
	}
	second := put(newData("worker-0", "second"))
	want := first.DeepCopy()
	want.Spec.HardwareDetails.Hostname = "second"
	want.Generation, want.ResourceVersion = 2, second.ResourceVersion
	if diff := cmp.Diff(want, second); diff != "" {
		t.Errorf("after another spec (- want, + got):\n%s", diff)
	}
	bad := newData("worker-0", "third")
	bad.Spec.HardwareDetails.NIC = []api.NIC{{MAC: "eth0"}}
	if err := records.Put(ctx, bad); !apierrors.IsInvalid(err) {
		t.Errorf("with an invalid MAC address: got %v, want Invalid", err)
	}
	if _, err := records.Update(ctx, first); !apierrors.IsConflict(err) {
		t.Errorf("update of an older revision: got %v, want Conflict", err)
	}
}

// TestPutRace checks that concurrent Puts of the same object all succeed.
func TestPutRace(t *testing.T) {
	records := newRecords(t)
	const writers = 16
	errs := make([]error, writers)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() { errs[i] = records.Put(t.Context(), newData("worker-0", fmt.Sprint(i))) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if data, err := records.Get(t.Context(), namespace, "worker-0"); err != nil || data.Generation != writers {
		t.Errorf("not every spec was written: %+v, %v", data, err)
	}
}

func TestRemoveFinalizer(t *testing.T) {
	records, ctx := newRecords(t), t.Context()
	remove := func(finalizer string) {
		t.Helper()
		if err := records.RemoveFinalizer(ctx, namespace, "worker-0", finalizer); err != nil {
			t.Error(err)
		}
	}
	remove(api.HardwareDataFinalizer) // the object does not exist yet
	if _, err := records.Create(ctx, newData("worker-0", "a", api.HardwareDataFinalizer, "example.com/other")); err != nil {
		t.Fatal(err)
	}
	if err := records.Delete(ctx, namespace, "worker-0"); err != nil {
		t.Fatal(err)
	}
	remove(api.HardwareDataFinalizer)
	data, err := records.Get(ctx, namespace, "worker-0")
	if err != nil || data.DeletionTimestamp.IsZero() {
		t.Fatalf("deleted before the last finalizer: %+v, %v", data, err)
	}
	if diff := cmp.Diff([]string{"example.com/other"}, data.Finalizers); diff != "" {
		t.Error(diff)
	}
	remove(api.HardwareDataFinalizer) // again
	remove("example.com/other")
	if _, err := records.Get(ctx, namespace, "worker-0"); !apierrors.IsNotFound(err) {
		t.Errorf("after the last finalizer was removed: got %v, want NotFound", err)
	}
	if err := records.Delete(ctx, namespace, "worker-0"); !apierrors.IsNotFound(err) {
		t.Errorf("deleting a missing object: got %v, want NotFound", err)
	}
}
