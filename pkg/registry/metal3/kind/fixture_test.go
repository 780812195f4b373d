package kind

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	etcd3testing "k8s.io/apiserver/pkg/storage/etcd3/testing"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/install"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

const namespace = "metal3"

var scheme = runtime.NewScheme()

func init() { install.Install(scheme) }

// hosts returns a kind with a status subresource.
func hosts() Kind {
	return Kind{
		Resource: "baremetalhosts", Singular: "baremetalhost",
		New:       func() runtime.Object { return &metal3.BareMetalHost{} },
		NewList:   func() runtime.Object { return &metal3.BareMetalHostList{} },
		HasStatus: true,
		Validate: func(obj, old runtime.Object) field.ErrorList {
			if obj.(*metal3.BareMetalHost).Spec.Description != "wrong" {
				return nil
			}
			if old != nil && old.(*metal3.BareMetalHost).Spec.Description == "wrong" {
				return nil
			}
			return field.ErrorList{field.Invalid(field.NewPath("spec", "description"), "wrong", "is wrong")}
		},
	}
}

// data returns a kind without a status subresource.
func data() Kind {
	return Kind{
		Resource: "hardwaredata", Singular: "hardwaredata", ShortNames: []string{"hd"},
		New:     func() runtime.Object { return &metal3.HardwareData{} },
		NewList: func() runtime.Object { return &metal3.HardwareDataList{} },
		Columns: []Column{Age},
	}
}

// eachCache runs a test on the storage of a kind in a real etcd, once with the watch cache and
// once without.
func eachCache(t *testing.T, k Kind, test func(t *testing.T, r *REST)) {
	t.Helper()
	_, config := etcd3testing.NewUnsecuredEtcd3TestClientServer(t)
	for _, cache := range []string{"off", "on"} {
		t.Run("watch cache "+cache, func(t *testing.T) { test(t, newREST(t, k, *config, cache == "on")) })
	}
}

func newREST(t *testing.T, k Kind, config storagebackend.Config, cached bool) *REST {
	t.Helper()
	decorator := generic.UndecoratedStorage
	if cached {
		decorator = genericregistry.StorageWithCacher()
		config.Prefix += "/cached"
	}
	config.EventsHistoryWindow = storagebackend.DefaultEventsHistoryWindow
	config.Codec = serializer.NewCodecFactory(scheme).LegacyCodec(metal3.SchemeGroupVersion)
	r, err := NewREST(k, scheme, generic.RESTOptions{
		StorageConfig:           config.ForResource(metal3.Resource(k.Resource)),
		Decorator:               decorator,
		DeleteCollectionWorkers: 1,
		ResourcePrefix:          "/metal3.io/" + k.Resource,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.DestroyFunc)
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 5*time.Minute, true,
		func(context.Context) (bool, error) { return r.ReadinessCheck() == nil, nil })
	if err != nil {
		t.Fatal("the store does not become ready")
	}
	return r
}

func inNamespace(t *testing.T) context.Context {
	return genericapirequest.WithNamespace(t.Context(), namespace)
}

func newHost(name string, change ...func(*metal3.BareMetalHost)) *metal3.BareMetalHost {
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	for _, c := range change {
		c(host)
	}
	return host
}

func create[T runtime.Object](t *testing.T, store rest.Creater, obj T) T {
	t.Helper()
	created, err := store.Create(inNamespace(t), obj, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created.(T)
}

func get(t *testing.T, store rest.Getter, name string) runtime.Object {
	t.Helper()
	obj, err := store.Get(inNamespace(t), name, &metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// put writes obj like a PUT of a client.
func put[T interface {
	runtime.Object
	GetName() string
}](t *testing.T, store rest.Updater, obj T) (T, error) {
	written, _, err := store.Update(inNamespace(t), obj.GetName(), rest.DefaultUpdatedObjectInfo(obj),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	if err != nil {
		var none T
		return none, err
	}
	return written.(T), nil
}
