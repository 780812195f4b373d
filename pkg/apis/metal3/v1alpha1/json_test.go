// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/install"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// samples has objects as Go programs with the operator's types encode them, in the order of
// their fields: KIND.json with all fields, KIND.empty.json with none, and KIND.hollow.json
// with all structs but without values in them.
const samples = "testdata/json/"

// server has the codecs that the server uses.
type server struct {
	scheme          *runtime.Scheme
	strict, lenient runtime.Decoder
	storage         runtime.Encoder
}

func newServer(t testing.TB) *server {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := serializer.NewCodecFactory(scheme)
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		t.Fatal("no serializer for JSON")
	}
	internal := schema.GroupVersion{Group: v1alpha1.GroupName, Version: runtime.APIVersionInternal}
	return &server{
		scheme:  scheme,
		strict:  codecs.DecoderToVersion(info.StrictSerializer, internal),
		lenient: codecs.DecoderToVersion(info.Serializer, internal),
		storage: codecs.LegacyCodec(v1alpha1.SchemeGroupVersion),
	}
}

// objects returns an empty object of each kind that is stored.
func objects(t testing.TB) map[string]runtime.Object {
	t.Helper()
	all := map[string]runtime.Object{}
	for _, obj := range v1alpha1.KnownTypes() {
		switch name := reflect.TypeOf(obj).Elem().Name(); name {
		case "HostPower", "HostInspection", "HostRetry", "HostTakeover", "HostTransfer", "HostValidation", "HostHistory", "HostHistoryOptions",
			"HostMaintenance", "HostBootDevice", "HostNMI", "HostIndicator", "HostRebuild", "HostClean", "HostConsoleOptions":
		default:
			if !meta.IsListType(obj) {
				all[name] = obj
			}
		}
	}
	return all
}

func readSample(t testing.TB, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return compact.Bytes()
}

// TestSamplesKeepTheirBytes checks that both a client and the server encode a decoded sample
// with the same bytes.
func TestSamplesKeepTheirBytes(t *testing.T) {
	server, kinds := newServer(t), objects(t)
	files, err := filepath.Glob(samples + "*.json")
	if err != nil || len(files) < len(kinds) {
		t.Fatalf("%d samples of %d kinds: %v", len(files), len(kinds), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			kind, _, _ := strings.Cut(filepath.Base(file), ".")
			want := readSample(t, file)

			client := kinds[kind].DeepCopyObject()
			if err := json.Unmarshal(want, client); err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(client)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("a client writes (-want +got):\n%s", diff)
			}

			obj, _, err := server.strict.Decode(want, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err = runtime.Encode(server.storage, obj)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want)+"\n", string(got)); diff != "" {
				t.Errorf("the server writes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSamplesHaveAllFields checks that the samples are complete: otherwise, a field could be
// lost or renamed unnoticed.
func TestSamplesHaveAllFields(t *testing.T) {
	seen := fields{ // these are not in the operator's API
		reflect.TypeFor[v1alpha1.BareMetalHostStatus]():          {"ironic": true, "record": true},
		reflect.TypeFor[v1alpha1.HostFirmwareSettingsStatus]():   {"source": true},
		reflect.TypeFor[v1alpha1.HostFirmwareComponentsStatus](): {"source": true, "preparedAt": true},
	}
	for kind, obj := range objects(t) {
		var contents any
		if err := json.Unmarshal(readSample(t, samples+kind+".json"), &contents); err != nil {
			t.Fatal(err)
		}
		seen.collect(reflect.TypeOf(obj), contents)
	}
	for typ, names := range seen {
		for i := range typ.NumField() {
			if name := jsonName(typ.Field(i)); name != "" && !names[name] {
				t.Errorf("the field %s of %s is in no sample", name, typ.Name())
			}
		}
	}
}

// fields has the names of the fields that are in samples, for each struct type of this API.
type fields map[reflect.Type]map[string]bool

// collect records which fields a value of a type has.
func (f fields) collect(typ reflect.Type, value any) {
	switch typ.Kind() {
	case reflect.Pointer:
		f.collect(typ.Elem(), value)
	case reflect.Slice:
		items, _ := value.([]any)
		for _, item := range items {
			f.collect(typ.Elem(), item)
		}
	case reflect.Map:
		entries, _ := value.(map[string]any)
		for _, item := range entries {
			f.collect(typ.Elem(), item)
		}
	case reflect.Struct:
		if typ.PkgPath() != reflect.TypeFor[v1alpha1.Image]().PkgPath() {
			return // a type of Kubernetes, which has its own tests
		}
		if f[typ] == nil {
			f[typ] = map[string]bool{}
		}
		contents, _ := value.(map[string]any)
		for i := range typ.NumField() {
			name := jsonName(typ.Field(i))
			if item, ok := contents[name]; ok {
				f[typ][name] = true
				f.collect(typ.Field(i).Type, item)
			}
		}
	}
}

func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if name == "-" {
		return ""
	}
	return name
}
