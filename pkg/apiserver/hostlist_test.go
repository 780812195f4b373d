package apiserver

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// serializers are the stock one and the one that remembers hosts, both as the server has them.
func serializers(t testing.TB) (stock, ours runtime.Serializer) {
	t.Helper()
	for _, info := range Codecs.SupportedMediaTypes() {
		if info.MediaType == runtime.ContentTypeJSON {
			return info.Serializer, newHostListEncoder(info.Serializer)
		}
	}
	t.Fatal("no JSON")
	return nil, nil
}

func encode(t testing.TB, s runtime.Serializer, obj runtime.Object) string {
	t.Helper()
	var out bytes.Buffer
	if err := s.Encode(obj, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func host(uid, resourceVersion, message string) metal3.BareMetalHost {
	return metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Name: "host", Namespace: "metal3", UID: types.UID(uid), ResourceVersion: resourceVersion},
		Status:     metal3.BareMetalHostStatus{ErrorMessage: message},
	}
}

// The lists follow each other: what is remembered of one is used for the next.
func TestHostListsAreAsTheStockSerializerWritesThem(t *testing.T) {
	stock, ours := serializers(t)
	continued := int64(3)
	tests := []struct {
		name string
		list runtime.Object
	}{
		{"none", &metal3.BareMetalHostList{Items: []metal3.BareMetalHost{}}},
		{"not even an empty list", &metal3.BareMetalHostList{}},
		{"one", &metal3.BareMetalHostList{Items: []metal3.BareMetalHost{host("a", "1", "")}}},
		{"two, with what JSON escapes", &metal3.BareMetalHostList{
			TypeMeta: metav1.TypeMeta{APIVersion: "metal3.io/v1alpha1", Kind: "BareMetalHostList"},
			ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: `"]}`, RemainingItemCount: &continued},
			Items:    []metal3.BareMetalHost{host("a", "1", ""), host("b", "2", "<\"\u2028\xff]}\n>")},
		}},
		{"one changed, one older, one new", &metal3.BareMetalHostList{
			Items: []metal3.BareMetalHost{host("b", "8", "changed"), host("a", "0", "older"), host("c", "9", "new")},
		}},
		{"the first again", &metal3.BareMetalHostList{Items: []metal3.BareMetalHost{host("a", "1", "")}}},
		{"more than a buffer", &metal3.BareMetalHostList{Items: []metal3.BareMetalHost{host("d", "1", strings.Repeat("x", 200_000)), host("a", "1", "")}}},
		{"another kind of the same name and version", &metal3.HardwareDataList{
			Items: []metal3.HardwareData{{ObjectMeta: metav1.ObjectMeta{UID: "a", ResourceVersion: "1"}}},
		}},
		{"one that is no list", &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{UID: "a", ResourceVersion: "1", Name: "dry run"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(encode(t, stock, test.list), encode(t, ours, test.list)); diff != "" {
				t.Errorf("(- stock, + ours):\n%s", diff)
			}
		})
	}
}

func TestHostIsEncodedOnceForEachVersion(t *testing.T) {
	_, ours := serializers(t)
	list := &metal3.BareMetalHostList{}
	for _, uid := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
		list.Items = append(list.Items, host(uid, "1", strings.Repeat("long ", 2000)))
	}
	var out bytes.Buffer
	out.Grow(1 << 20)
	encode := func() {
		out.Reset()
		if err := ours.Encode(list, &out); err != nil {
			t.Fatal(err)
		}
	}
	encode()
	whole := testing.AllocsPerRun(10, encode)
	list.Items = list.Items[:1]
	if one := testing.AllocsPerRun(10, encode); whole > one+2*26 {
		t.Errorf("a list of 26 hosts that are known costs %v allocations, one of a single host %v", whole, one)
	}
}
