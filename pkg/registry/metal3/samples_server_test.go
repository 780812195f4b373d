package metal3_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/wait"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	etcd3testing "k8s.io/apiserver/pkg/storage/etcd3/testing"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/install"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	registry "github.com/metal3-io/metal3-apiserver/pkg/registry/metal3"
)

// server does with a request what the real one does, from its body to a real etcd,
// without HTTP and admission.
type server struct {
	storage map[string]rest.Storage
	stores  map[string]*genericregistry.Store
	// strict refuses unknown fields, as for kubectl; lenient drops them.
	strict, lenient runtime.Decoder
}

func newServer(t *testing.T) *server {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := serializer.NewCodecFactory(scheme)
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		t.Fatal("no serializer for JSON")
	}
	_, config := etcd3testing.NewUnsecuredEtcd3TestClientServer(t)
	options := restOptions{config, codecs.LegacyCodec(metal3.SchemeGroupVersion)}
	stores, err := registry.NewStores(scheme, options, nil)
	if err != nil {
		t.Fatal(err)
	}
	internal := schema.GroupVersion{Group: metal3.GroupName, Version: runtime.APIVersionInternal}
	s := &server{
		storage: stores.Storage(scheme, noIronic{}, noRequests{}, nil, nil, nil, nil, nil, validation.CleanSteps{}),
		stores:  map[string]*genericregistry.Store{"baremetalhosts": stores.Hosts},
		strict:  codecs.DecoderToVersion(info.StrictSerializer, internal),
		lenient: codecs.DecoderToVersion(info.Serializer, internal),
	}
	for resource, k := range stores.Kinds {
		s.stores[resource] = k.Store
	}
	for _, resource := range slices.Sorted(maps.Keys(s.stores)) {
		store := s.stores[resource]
		t.Cleanup(store.DestroyFunc)
		err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 5*time.Minute, true,
			func(context.Context) (bool, error) { return store.ReadinessCheck() == nil, nil })
		if err != nil {
			t.Fatalf("the store of %s does not become ready", resource)
		}
	}
	return s
}

// restOptions are those of each resource, without a watch cache.
type restOptions struct {
	config *storagebackend.Config
	codec  runtime.Codec
}

func (o restOptions) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	config := *o.config
	config.Codec = o.codec
	return generic.RESTOptions{
		StorageConfig:           config.ForResource(resource),
		Decorator:               generic.UndecoratedStorage,
		DeleteCollectionWorkers: 1,
		ResourcePrefix:          "/" + resource.Group + "/" + resource.Resource,
	}, nil
}

// noIronic is a Refresher that has nothing to refresh.
type noIronic struct{}

func (noIronic) RefreshHost(context.Context, string, string) error       { return nil }
func (noIronic) RefreshAll(context.Context, string) error                { return nil }
func (noIronic) RefreshSettings(context.Context, string, string) error   { return nil }
func (noIronic) RefreshAllSettings(context.Context, string) error        { return nil }
func (noIronic) RefreshComponents(context.Context, string, string) error { return nil }
func (noIronic) RefreshAllComponents(context.Context, string) error      { return nil }
func (noIronic) ReadHost(context.Context, string, string) (*metal3.BareMetalHost, error) {
	return nil, nil
}
func (noIronic) Preview(context.Context, runtime.Object) (string, error)            { return "", nil }
func (noIronic) Guard(ctx context.Context, _ *metal3.BareMetalHost) context.Context { return ctx }
func (noIronic) RedactPassword(context.Context, *metal3.BareMetalHost, *ironic.Node) error {
	return nil
}

func (noIronic) WhyUnproven(context.Context, *metal3.BareMetalHost, *ironic.Node) (string, error) {
	return "", nil
}

func (noIronic) WhyNotTaken(context.Context, string, *metal3.BareMetalHost) (string, error) {
	return "", nil
}

func (noIronic) WhyUnconfirmable(context.Context, *metal3.BareMetalHost, *ironic.Node) (string, error) {
	return "", nil
}

// noRequests records no request.
type noRequests struct{}

func (noRequests) TakeOver(*metal3.BareMetalHost, *ironic.Node) error       { return nil }
func (noRequests) RequestRebuild(*metal3.BareMetalHost, *ironic.Node) error { return nil }
func (noRequests) CutPower(*metal3.BareMetalHost, *ironic.Node)             {}
func (noRequests) CallOffTransfer(*metal3.BareMetalHost) bool               { return false }
func (noRequests) RequestTransfer(*metal3.BareMetalHost, *ironic.Node, string) error {
	return nil
}
func (noRequests) ForgetPowerCut(*metal3.BareMetalHost)        {}
func (noRequests) PowerCutAnswered(*metal3.BareMetalHost) bool { return false }
func (noRequests) RequestClean(*metal3.BareMetalHost, *ironic.Node, []metal3.CleanStep) error {
	return nil
}

// place writes an object into etcd as it is: by no rule, or by older ones. It
// returns what a client would then read.
func (s *server) place(t *testing.T, resource string, contents map[string]any) map[string]any {
	t.Helper()
	obj, _, err := s.lenient.Decode(mustJSON(t, contents), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := obj.(metav1.Object)
	rest.FillObjectMetaSystemFields(m)
	m.SetGeneration(1)
	ctx, store := inNamespaceOf(t, contents), s.stores[resource]
	key, err := store.KeyFunc(ctx, m.GetName())
	if err != nil {
		t.Fatal(err)
	}
	out := store.NewFunc()
	if err := store.Storage.Create(ctx, key, obj, out, 0, false); err != nil {
		t.Fatal(err)
	}
	var placed map[string]any
	if err := useNumber(json.NewDecoder(bytes.NewReader(mustJSON(t, out)))).Decode(&placed); err != nil {
		t.Fatal(err)
	}
	placed["apiVersion"], placed["kind"] = contents["apiVersion"], contents["kind"]
	return placed
}

// send is a request with a body, POST to a resource or PUT to an object.
func (s *server) send(t *testing.T, method, resource string, contents map[string]any) error {
	t.Helper()
	obj, _, err := s.strict.Decode(mustJSON(t, contents), nil, nil)
	if err != nil {
		return err
	}
	ctx, storage := inNamespaceOf(t, contents), s.storage[resource]
	if method == http.MethodPost {
		_, err = storage.(rest.Creater).Create(ctx, obj, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
		return err
	}
	_, _, err = storage.(rest.Updater).Update(ctx, obj.(metav1.Object).GetName(), rest.DefaultUpdatedObjectInfo(obj),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return err
}

// remove is a DELETE.
func (s *server) remove(t *testing.T, resource string, contents map[string]any) error {
	t.Helper()
	name, _, err := unstructured.NestedString(contents, "metadata", "name")
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = s.storage[resource].(rest.GracefulDeleter).Delete(inNamespaceOf(t, contents), name, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{})
	return err
}

// inNamespaceOf is the context of a request for an object.
func inNamespaceOf(t *testing.T, contents map[string]any) context.Context {
	t.Helper()
	namespace, _, err := unstructured.NestedString(contents, "metadata", "namespace")
	if err != nil {
		t.Fatal(err)
	}
	return genericapirequest.WithNamespace(t.Context(), namespace)
}

func mustJSON(t *testing.T, value any) []byte {
	t.Helper()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSpace(text.Bytes())
}
