// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// storedHost is a host with a UID as it is in etcd. What is not shared of it is its hostname.
func storedHost(t *testing.T, uid, hostname string, poweredOn bool) []byte {
	t.Helper()
	host := &metal3.BareMetalHost{}
	host.APIVersion, host.Kind = metal3.SchemeGroupVersion.String(), "BareMetalHost"
	host.UID = types.UID(uid)
	host.Status.PoweredOn = poweredOn
	host.Status.HardwareDetails = &metal3.HardwareDetails{
		Hostname: hostname, CPU: metal3.CPU{Flags: []string{"aes", "avx", "sse"}},
		NIC: []metal3.NIC{{Name: "eth0"}}, Storage: []metal3.Storage{{Name: "/dev/sda"}},
	}
	host.Status.Conditions = []metav1.Condition{{Type: metal3.ReadyCondition, Status: metav1.ConditionTrue, Reason: "Reason" + uid}}
	host.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}}
	return encodeHost(t, newHostCodec(), host)
}

func decodeHost(t testing.TB, codec apiruntime.Codec, data []byte) *metal3.BareMetalHost {
	t.Helper()
	host := &metal3.BareMetalHost{}
	if _, _, err := codec.Decode(data, nil, host); err != nil {
		t.Fatal(err)
	}
	return host
}

// TestHardwareIsShared: the versions of a host share what has not changed, and each has what was
// stored for it.
func TestHardwareIsShared(t *testing.T) {
	codec := newHostCodec()
	first := decodeHost(t, codec, storedHost(t, "shared-a", "a", false))
	second := decodeHost(t, codec, storedHost(t, "shared-a", "a", true))
	if first.Status.HardwareDetails != second.Status.HardwareDetails {
		t.Error("two versions of a host have hardware details of their own")
	}
	if !second.Status.PoweredOn || first.Status.PoweredOn {
		t.Error("more than the hardware details is shared")
	}
	other := decodeHost(t, codec, storedHost(t, "shared-b", "b", false))
	if other.Status.HardwareDetails == first.Status.HardwareDetails || other.Status.HardwareDetails.Hostname != "b" {
		t.Errorf("another host has %+v", other.Status.HardwareDetails)
	}
	if unsafe.SliceData(other.Status.HardwareDetails.CPU.Flags) != unsafe.SliceData(first.Status.HardwareDetails.CPU.Flags) {
		t.Error("hosts with the same processor have lists of its features of their own")
	}
	if unsafe.StringData(other.Status.Conditions[0].Type) != unsafe.StringData(first.Status.Conditions[0].Type) ||
		other.ManagedFields[0].FieldsV1 != first.ManagedFields[0].FieldsV1 {
		t.Error("hosts have types of conditions and managed fields of their own")
	}
	if got := other.Status.Conditions[0]; got.Reason != "Reasonshared-b" || got.Status != metav1.ConditionTrue || other.ManagedFields[0].Manager != "kubectl" {
		t.Errorf("another host has %+v and %+v", got, other.ManagedFields)
	}
	changed := decodeHost(t, codec, storedHost(t, "shared-a", "inspected again", false))
	if got := changed.Status.HardwareDetails.Hostname; got != "inspected again" || first.Status.HardwareDetails.Hostname != "a" {
		t.Errorf("after an inspection: %q, and before it: %q", got, first.Status.HardwareDetails.Hostname)
	}
}

// TestDecodeIntoSharedHardware: what was decoded earlier is not changed when its host is used to
// decode another version into.
func TestDecodeIntoSharedHardware(t *testing.T) {
	codec := newHostCodec()
	first := decodeHost(t, codec, storedHost(t, "into", "a", false))
	second := decodeHost(t, codec, storedHost(t, "into-2", "a", false)) // has the same managed fields
	before, reused := []*metal3.BareMetalHost{first.DeepCopy(), second.DeepCopy()}, *first
	data := bytes.ReplaceAll(storedHost(t, "into", "b", false), []byte("f:spec"), []byte("f:other"))
	data = bytes.ReplaceAll(data, []byte("Reasoninto"), []byte("Otherwise")) // of a condition
	if _, _, err := codec.Decode(data, nil, &reused); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, []*metal3.BareMetalHost{first, second}); diff != "" {
		t.Errorf("what was decoded earlier has changed (-before +after):\n%s", diff)
	}
}

// TestHardwareIsForgotten: the table does not keep hosts in memory, nor grow for ever.
func TestHardwareIsForgotten(t *testing.T) {
	table := newHardwareTable()
	for i := range 1000 {
		host := &metal3.BareMetalHost{}
		host.UID = types.UID(fmt.Sprint(i))
		host.Status.HardwareDetails = &metal3.HardwareDetails{CPU: metal3.CPU{Flags: []string{fmt.Sprint(i)}}}
		table.unpack(host)
	}
	if n := table.flags.Len(); n > maxFlagLists {
		t.Errorf("%d lists of processor features are kept", n)
	}
	hosts := func() int {
		table.mu.Lock()
		defer table.mu.Unlock()
		return len(table.byHost)
	}
	for range 100 {
		if runtime.GC(); hosts() == 0 {
			return
		}
		runtime.Gosched() // cleanups run in a goroutine of their own
	}
	t.Errorf("%d hosts are remembered after they have gone", hosts())
}

// TestInternPoolIsBounded: neither many texts and managed fields nor large ones are kept.
func TestInternPoolIsBounded(t *testing.T) {
	pool := newInternPool()
	share := func(text string) *metav1.FieldsV1 {
		host := &metal3.BareMetalHost{}
		host.Namespace = text
		host.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(fmt.Sprintf(`{"f:%s":{}}`, text))}}
		pool.share(host)
		return host.ManagedFields[0].FieldsV1
	}
	large := strings.Repeat("x", maxInternedSize+1)
	if first, again := share(large), share(large); first == again || pool.texts.Len() != 0 {
		t.Errorf("%d texts and %d managed fields are kept, and they are too large", pool.texts.Len(), pool.fields.Len())
	}
	for i := range 2 * maxInternedTexts {
		share(fmt.Sprint(i))
	}
	if texts, fields := pool.texts.Len(), pool.fields.Len(); texts != maxInternedTexts || fields != maxInternedFields {
		t.Errorf("%d texts and %d managed fields are kept", texts, fields)
	}
}
