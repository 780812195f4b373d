// SPDX-License-Identifier: Apache-2.0

package metal3_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/install"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	registry "github.com/metal3-io/metal3-apiserver/pkg/registry/metal3"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
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
	options := storetest.New(t, codecs.LegacyCodec(metal3.SchemeGroupVersion))
	options.NoCache = true
	stores, err := registry.NewStores(scheme, options, nil)
	if err != nil {
		t.Fatal(err)
	}
	internal := schema.GroupVersion{Group: metal3.GroupName, Version: runtime.APIVersionInternal}
	s := &server{
		storage: stores.Storage(scheme, registry.Deps{Live: noIronic{}}),
		stores:  map[string]*genericregistry.Store{"baremetalhosts": stores.Hosts},
		strict:  codecs.DecoderToVersion(info.StrictSerializer, internal),
		lenient: codecs.DecoderToVersion(info.Serializer, internal),
	}
	for resource, k := range stores.Kinds {
		s.stores[resource] = k.Store
	}
	for _, resource := range slices.Sorted(maps.Keys(s.stores)) {
		storetest.Use(t, s.stores[resource])
	}
	return s
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

func (noIronic) ObserveNode(context.Context, *metal3.BareMetalHost) (*ironic.Node, error) {
	return nil, nil
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
