// SPDX-License-Identifier: Apache-2.0

package install

import (
	"math/rand"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// fuzzFuncs fill in the fields that have a default, because an empty value would not survive
// a round trip.
func fuzzFuncs(serializer.CodecFactory) []any {
	return []any{
		func(spec *v1alpha1.BareMetalHostSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			if spec.AutomatedCleaningMode == "" {
				spec.AutomatedCleaningMode = v1alpha1.CleaningModeMetadata
			}
		},
		func(spec *v1alpha1.BareMetalSwitchSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			if spec.Driver == "" {
				spec.Driver = v1alpha1.GenericSwitch
			}
		},
		func(spec *v1alpha1.HostNetworkAttachmentSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			if spec.Mode == "" {
				spec.Mode = v1alpha1.SwitchPortAccess
			}
		},
		fillFields,
		func(spec *v1alpha1.HostPowerSpec, c randfill.Continue) {
			c.FillNoCustom(spec)
			if spec.Mode == "" {
				spec.Mode = v1alpha1.PowerModeHard
			}
		},
	}
}

// fillFields fills fields of any type.
func fillFields(f *v1alpha1.Fields, c randfill.Continue) {
	f.ByName = map[string]any{"text": "a", "number": c.Int63(), "list": []any{int64(1), nil}}
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	Install(scheme)
	return scheme
}

// TestRoundTrip checks that the server stores and reads back what a client has sent.
func TestRoundTrip(t *testing.T) {
	scheme := newScheme()
	codecs := serializer.NewCodecFactory(scheme)
	funcs := fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, fuzzFuncs)
	filler := fuzzer.FuzzerFor(funcs, rand.NewSource(1), codecs).NumElements(1, 6)
	roundtrip.RoundTripTypesWithoutProtobuf(t, scheme, codecs, filler, nil)
}

// TestRoundTripExternal checks the same for clients, which know only the external kinds.
func TestRoundTripExternal(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	codecs := serializer.NewCodecFactory(scheme)
	fields := func(serializer.CodecFactory) []any { return []any{fillFields} }
	filler := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, fields), rand.NewSource(1), codecs)
	roundtrip.RoundTripExternalTypesWithoutProtobuf(t, scheme, codecs, filler, nil)
}

func TestInternalVersionIsTheSameType(t *testing.T) {
	scheme := newScheme()
	host := &v1alpha1.BareMetalHost{}
	internal := schema.GroupVersion{Group: v1alpha1.GroupName, Version: runtime.APIVersionInternal}
	got, err := scheme.ConvertToVersion(host, internal)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := got.(*v1alpha1.BareMetalHost); !ok {
		t.Errorf("the internal version is a %T", got)
	}
	if versions := scheme.PrioritizedVersionsForGroup(v1alpha1.GroupName); len(versions) != 1 || versions[0] != v1alpha1.SchemeGroupVersion {
		t.Errorf("versions are %v", versions)
	}
}
