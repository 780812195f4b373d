// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/randfill"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// encodedInTests is what the server keeps of lists with the GOMEMLIMIT of the manifests.
const encodedInTests = 1800 << 20 / 8

// serializers are the stock one and the one that remembers hosts, both as the server has them.
func serializers(t testing.TB) (stock, ours runtime.Serializer) {
	t.Helper()
	for _, info := range Codecs.SupportedMediaTypes() {
		if info.MediaType == runtime.ContentTypeJSON {
			return info.Serializer, newHostListEncoder(info.Serializer, encodedInTests)
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

// versions are a host as it is listed while it changes: twice unchanged; then its status, but not its hardware details,
// which are the same in memory; then these, or that there are any; and the status once more.
func versions(host *metal3.BareMetalHost) (all []runtime.Object) {
	version := 0
	add := func(change func(*metal3.BareMetalHost)) {
		next := *host
		change(&next)
		version++
		next.UID, next.ResourceVersion = "same", strconv.Itoa(version)
		host = &next
		all = append(all, &metal3.BareMetalHostList{Items: []metal3.BareMetalHost{next}})
	}
	add(func(*metal3.BareMetalHost) {})
	all = append(all, all[0])
	add(func(h *metal3.BareMetalHost) { h.Status.PoweredOn = !h.Status.PoweredOn })
	add(func(h *metal3.BareMetalHost) {
		h.Status.HardwareDetails = &metal3.HardwareDetails{Hostname: h.Name, CPU: metal3.CPU{Flags: []string{"<aes>"}}}
	})
	add(func(h *metal3.BareMetalHost) { h.Status.ErrorMessage = `"hardware":{}` })
	add(func(h *metal3.BareMetalHost) { h.Status.HardwareDetails = nil })
	add(func(h *metal3.BareMetalHost) { h.Status.ErrorCount++ })
	return all
}

// FuzzHostLists: whatever is in a host, it is as the stock serializer writes it.
func FuzzHostLists(f *testing.F) {
	for seed := range int64(20) {
		f.Add(seed, "text")
	}
	f.Add(int64(20), "\"hardware\":{\"systemVendor\":{},\u2028\xff<&>")
	f.Fuzz(func(t *testing.T, seed int64, text string) {
		stock, ours := serializers(t)
		host := &metal3.BareMetalHost{}
		randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).Funcs(
			func(fields *metav1.FieldsV1, _ randfill.Continue) {
				*fields = *metav1.NewFieldsV1(`{"f:status":{"f:hardware":{}}}`)
			},
			func(raw *runtime.RawExtension, _ randfill.Continue) { raw.Raw = []byte(`{"hardware":{"cpu":{}}}`) },
		).Fill(host)
		host.Name, host.Status.ErrorMessage = text, text
		for i, list := range versions(host) {
			if diff := cmp.Diff(encode(t, stock, list), encode(t, ours, list)); diff != "" {
				t.Errorf("version %d (- stock, + ours):\n%s", i, diff)
			}
		}
	})
}

// BenchmarkEncodeChangedHost encodes a list of a host whose status has changed since the last list.
func BenchmarkEncodeChangedHost(b *testing.B) {
	_, ours := serializers(b)
	data, err := os.ReadFile("../apis/metal3/v1alpha1/testdata/json/BareMetalHost.json")
	if err != nil {
		b.Fatal(err)
	}
	list := &metal3.BareMetalHostList{Items: make([]metal3.BareMetalHost, 1)}
	changing := &list.Items[0]
	if err := json.Unmarshal(data, changing); err != nil {
		b.Fatal(err)
	}
	hardware := changing.Status.HardwareDetails
	hardware.Storage, hardware.NIC = slices.Repeat(hardware.Storage[:1], 8), slices.Repeat(hardware.NIC[:1], 6)
	hardware.CPU.Flags = slices.Repeat([]string{"avx512_vpopcntdq"}, 150)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		changing.ResourceVersion = strconv.Itoa(i)
		if err := ours.Encode(list, io.Discard); err != nil {
			b.Fatal(err)
		}
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

// TestEncodedHostsAreBounded: a user who creates, lists and deletes large hosts, whose texts cannot be compressed, does
// not fill the memory.
func TestEncodedHostsAreBounded(t *testing.T) {
	const most, hosts, size = 4 << 20, 25, 60 << 10
	stock, _ := serializers(t)
	ours := newHostListEncoder(stock, most)
	before := heap()
	for round := range 40 { // 60 MB
		list := &metal3.BareMetalHostList{}
		for i := range hosts {
			list.Items = append(list.Items, host(fmt.Sprint(round, "-", i), "1", randomText(size)))
		}
		if err := ours.Encode(list, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	if held := heap() - before; held > 2*most {
		t.Errorf("%d bytes are held of hosts that were deleted, of which at most %d should be kept", held, most)
	}
	goruntime.KeepAlive(ours)
}

// randomText returns so many bytes of text that cannot be compressed.
func randomText(size int) string {
	random := make([]byte, size/2)
	rand.Read(random)
	return hex.EncodeToString(random)
}

// heap returns how many bytes are in use.
func heap() int64 {
	goruntime.GC()
	var stats goruntime.MemStats
	goruntime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// TestEncodedHostsAreCounted: whatever is kept, replaced and dropped, the count of bytes is right, and within the bound.
func TestEncodedHostsAreCounted(t *testing.T) {
	const most = 64 << 10
	kept := newEncodedHosts(most)
	for version := range 2000 {
		// 37 hosts, of 0 to 5 kB.
		rest, hardware := make([]byte, version%3000), make([]byte, version%4000)
		kept.keep(types.UID(strconv.Itoa(version%37)), encodedHost{rest: rest, hardware: encodedHardware{json: hardware}})
		var held int64
		for _, host := range kept.byUID {
			held += host.size()
		}
		if held != kept.bytes || held > most {
			t.Fatalf("after %d hosts, %d bytes are kept, %d are counted, and %d are allowed", version, held, kept.bytes, most)
		}
	}
	if len(kept.byUID) == 0 {
		t.Error("nothing is kept")
	}
}

// TestEncodedFleetIsKept: there is space for 10,000 hosts of 9 kB of JSON with the GOMEMLIMIT of the manifests, even if
// nothing of that can be compressed: here for a hundredth of them in a hundredth of the space.
func TestEncodedFleetIsKept(t *testing.T) {
	const hosts = 10_000 / 100
	stock, _ := serializers(t)
	ours := newHostListEncoder(stock, encodedInTests/100)
	list := &metal3.BareMetalHostList{}
	for i := range hosts {
		list.Items = append(list.Items, host(strconv.Itoa(i), "1", randomText(9<<10)))
	}
	encode(t, ours, list)
	if kept := len(ours.encoded.byUID); kept != hosts {
		t.Errorf("of %d ordinary hosts, %d are kept", hosts, kept)
	}
}

// TestDeletedHostsAreDropped: what is in the lists is kept, and the rest dropped after some minutes.
func TestDeletedHostsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, serializer := serializers(t)
		ours := serializer.(*hostListEncoder)
		list := func(items ...metal3.BareMetalHost) {
			encode(t, ours, &metal3.BareMetalHostList{Items: items})
		}
		list(host("deleted", "1", ""), host("kept", "1", ""))
		for i := range 20 {
			time.Sleep(encodedFor / 10)
			list(host("kept", "1", ""), host("changing", strconv.Itoa(i), ""))
		}
		if got := slices.Sorted(maps.Keys(ours.encoded.byUID)); !slices.Equal(got, []types.UID{"changing", "kept"}) {
			t.Errorf("kept are %q", got)
		}
	})
}
