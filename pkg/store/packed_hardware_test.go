// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

func newHostCodec() apiruntime.Codec { return Compact(storetest.Codec()) }

func encodeHost(t testing.TB, codec apiruntime.Codec, host *metal3.BareMetalHost) []byte {
	t.Helper()
	var stored bytes.Buffer
	if err := codec.Encode(host, &stored); err != nil {
		t.Fatal(err)
	}
	return stored.Bytes()
}

// fullHardware is that of a server with two sockets, some 6 kB of JSON.
func fullHardware() *metal3.HardwareDetails {
	details := &metal3.HardwareDetails{
		Hostname: "worker-17", RAMMebibytes: 512 << 10,
		SystemVendor: metal3.HardwareSystemVendor{Manufacturer: "Contoso Inc.", ProductName: "PowerServer R750 (SKU=090E;ModelName=PowerServer R750)", SerialNumber: "CN00000017"},
		Firmware:     metal3.Firmware{BIOS: metal3.BIOS{Vendor: "Contoso Inc.", Version: "1.14.1", Date: "06/08/2024"}},
		CPU:          metal3.CPU{Arch: "x86_64", Model: "Intel(R) Xeon(R) Platinum 8358 CPU @ 2.60GHz", ClockMegahertz: 3400, Count: 128, Flags: processorFeatures},
	}
	for n := range 6 {
		details.NIC = append(details.NIC, metal3.NIC{
			Name: fmt.Sprintf("ens%df%d", 1+n/2, n%2), Model: "0x8086 0x159b", MAC: fmt.Sprintf("b4:96:91:00:17:%02x", n), SpeedGbps: 25,
			IP: fmt.Sprintf("10.%d.0.17", 16+n), VLANID: 100, VLANs: []metal3.VLAN{{ID: 100, Name: "provisioning"}, {ID: 200, Name: "tenants"}},
			LLDP:       &metal3.LLDP{SwitchID: fmt.Sprintf("00:1c:73:00:00:%02x", n), PortID: "Ethernet1/17", SwitchSystemName: fmt.Sprintf("leaf-4-%d", n%2)},
			PCIAddress: fmt.Sprintf("0000:%02x:00.%d", 0x31+n/2, n%2), PXE: n == 0,
		})
	}
	for n := range 8 {
		path := fmt.Sprintf("/dev/disk/by-path/pci-0000:%02x:00.0-nvme-1", 0x65+n)
		wwn := fmt.Sprintf("eui.36%06x00000017", n)
		details.Storage = append(details.Storage, metal3.Storage{
			Name: path, AlternateNames: []string{fmt.Sprintf("/dev/nvme%dn1", n), path}, Type: metal3.NVME, SizeBytes: 3840755982336,
			Model: "Contoso Ent NVMe v2 AGN RI U.2 3.84TB", SerialNumber: fmt.Sprintf("S6CU%04d000017", n), WWN: wwn, WWNWithExtension: wwn,
		})
	}
	return details
}

// processorFeatures are those of a server processor of 2021, as Linux 5.14 names them.
var processorFeatures = strings.Fields(`3dnowprefetch abm acpi adx aes aperfmperf apic arat arch_capabilities arch_perfmon art
	avx avx2 avx512_bitalg avx512_vbmi2 avx512_vnni avx512_vpopcntdq avx512bw avx512cd avx512dq avx512f avx512ifma
	avx512vbmi avx512vl bmi1 bmi2 bts cat_l3 clflush clflushopt clwb cmov constant_tsc cpuid cqm cqm_llc cqm_mbm_local
	cqm_mbm_total cqm_occup_llc cx16 cx8 dca de ds_cpl dtes64 dtherm dts epb ept ept_ad erms est f16c flexpriority
	fma fpu fsgsbase fsrm fxsr gfni hle ht ibpb ibrs ibrs_enhanced ida intel_ppin intel_pt invpcid lahf_lm lm mba mca
	mce md_clear mmx monitor movbe msr mtrr nonstop_tsc nopl nx ospke pae pat pbe pcid pclmulqdq pconfig pdcm pdpe1gb
	pebs pge pku pln pni popcnt pse pse36 pts rdpid rdrand rdseed rdt_a rdtscp rep_good rtm sdbg sep sgx sha_ni smap
	smep split_lock_detect ss ssbd sse sse2 sse4_1 sse4_2 ssse3 stibp syscall tm tm2 tme tpr_shadow tsc tsc_adjust
	tsc_deadline_timer umip vaes vme vmx vnmi vpclmulqdq vpid wbnoinvd x2apic xgetbv1 xsave xsavec xsaveopt xsaves
	xtopology xtpr`)

// fullHost is a host as CAPM3 provisions it, with full hardware details.
func fullHost() *metal3.BareMetalHost {
	host := &metal3.BareMetalHost{}
	host.APIVersion, host.Kind = metal3.SchemeGroupVersion.String(), "BareMetalHost"
	host.Namespace, host.Name, host.UID = "metal3", "worker-17", "5b8a4bb9-9c52-4c55-b2a1-3b7cc3c4f3a1"
	host.Labels = map[string]string{"rack": "4", "cluster.x-k8s.io/cluster-name": "tenant"}
	host.Finalizers = []string{"baremetalhost.metal3.io"}
	host.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "metal3.io/v1alpha1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:rack":{}}},"f:spec":{"f:bmc":{"f:address":{},"f:credentialsName":{}},"f:bootMACAddress":{},"f:online":{}}}`),
	}}
	host.Spec = metal3.BareMetalHostSpec{
		Online: true, BootMACAddress: "b4:96:91:00:17:00", AutomatedCleaningMode: metal3.CleaningModeMetadata,
		BMC:   metal3.BMCDetails{Address: "redfish-virtualmedia://10.0.4.17/redfish/v1/Systems/System.Embedded.1", CredentialsName: "worker-17-bmc"},
		Image: &metal3.Image{URL: "http://images.example/ubuntu-24.04.qcow2", Checksum: "http://images.example/ubuntu-24.04.qcow2.sha256"},
	}
	host.Status.HardwareDetails = fullHardware()
	host.Status.Record.Epoch = metal3.RecordEpoch
	for _, condition := range []string{"Registered", "Manageable", "AvailableForProvisioning", "Provisioned", "Ready", "Progressing", "Healthy", "IronicReachable"} {
		host.Status.Conditions = append(host.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: condition, ObservedGeneration: 4, LastTransitionTime: metav1.Unix(1_700_000_000, 0)})
	}
	return host
}

// TestHardwareIsPacked: what is written when the power of a host changes is small, and reads as what was written.
func TestHardwareIsPacked(t *testing.T) {
	codec := newHostCodec()
	host := fullHost()
	before := host.DeepCopy()
	first := encodeHost(t, codec, host)
	if diff := cmp.Diff(before, host); diff != "" {
		t.Errorf("storing a host has changed it (-before +after):\n%s", diff)
	}
	plain := encodeHost(t, storetest.Codec(), host)
	t.Logf("%d bytes, and %d in plain JSON", len(first), len(plain))
	if len(first) > 4000 || len(plain) < 8000 {
		t.Errorf("%d bytes are stored, want at most 4000; in plain JSON, they are %d", len(first), len(plain))
	}
	read := decodeHost(t, codec, first)
	if diff := cmp.Diff(host, read); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
	if again := encodeHost(t, codec, read); !bytes.Equal(first, again) {
		t.Errorf("writing what was read is no update:\n%s\n%s", first, again)
	}
	if again := encodeHost(t, newHostCodec(), read.DeepCopy()); !bytes.Equal(first, again) {
		t.Errorf("another replica stores the same in another way:\n%s\n%s", first, again)
	}
	if disks := read.Status.HardwareDetails.Storage; unsafe.StringData(disks[0].Model) != unsafe.StringData(disks[1].Model) || unsafe.StringData(disks[0].Name) != unsafe.StringData(disks[0].AlternateNames[1]) {
		t.Error("disks of the same model have texts of their own, or a disk has its path twice")
	}
	read.Status.PoweredOn = true
	switched := decodeHost(t, codec, encodeHost(t, codec, read.DeepCopy()))
	if !switched.Status.PoweredOn || switched.Status.HardwareDetails != read.Status.HardwareDetails {
		t.Error("the hardware details were decoded again, and they have not changed")
	}
	inspected := switched.DeepCopy()
	inspected.Status.HardwareDetails.RAMMebibytes = 1
	if got := decodeHost(t, codec, encodeHost(t, codec, inspected)); got.Status.HardwareDetails.RAMMebibytes != 1 || read.Status.HardwareDetails.RAMMebibytes == 1 {
		t.Error("the hardware details have changed, and that is not stored, or has changed what was read before")
	}
	inspected.Status.HardwareDetails = nil
	if got := decodeHost(t, codec, encodeHost(t, codec, inspected)); got.Status.HardwareDetails != nil || got.Status.Record.Hardware != nil {
		t.Errorf("the hardware details were removed, and are still there: %+v", got.Status)
	}
}

// TestMachineIsKnownUnpacked: what a version that cannot unpack hardware details reads of a host tells its machine from others.
func TestMachineIsKnownUnpacked(t *testing.T) {
	host := fullHost()
	stored := encodeHost(t, newHostCodec(), host)
	read := decodeHost(t, storetest.Codec(), stored).Status.HardwareDetails
	if read == nil || read.SystemVendor != host.Status.HardwareDetails.SystemVendor || len(read.NIC) != len(host.Status.HardwareDetails.NIC) {
		t.Fatalf("it reads %+v", read)
	}
	for i := range read.NIC {
		if read.NIC[i].MAC != host.Status.HardwareDetails.NIC[i].MAC {
			t.Errorf("network interface %d: %+v", i, read.NIC[i])
		}
	}
}

// TestPackedHardwareStaysReadable: what this version has packed is read by all later ones, which must not change the dictionary.
func TestPackedHardwareStaysReadable(t *testing.T) {
	text, err := os.ReadFile("testdata/packed-hardware-1.txt")
	if err != nil {
		t.Fatal(err)
	}
	packed, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := unpackHardware(packed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fullHardware(), got); diff != "" {
		t.Errorf("(-packed +unpacked):\n%s", diff)
	}
}

// TestUnreadableHardwareIsKept: hardware details that cannot be unpacked, because they are damaged or packed by a later
// version with another dictionary, make no read fail, and are written back as they are until there are others.
func TestUnreadableHardwareIsKept(t *testing.T) {
	codec := newHostCodec()
	host := fullHost()
	stored := bytes.Replace(encodeHost(t, codec, host), []byte(`"hardware":"KLUv/`), []byte(`"hardware":"AAAA/`), 1)
	read := decodeHost(t, codec, stored)
	if got := read.Status.HardwareDetails; got == nil || got.SystemVendor.SerialNumber != "CN00000017" || got.CPU.Arch != "" {
		t.Errorf("it is read as %+v", got)
	}
	if again := encodeHost(t, codec, read.DeepCopy()); !bytes.Equal(stored, again) {
		t.Errorf("it is written back as %s", again)
	}
	read.Status.HardwareDetails = fullHardware() // it was inspected again
	got := decodeHost(t, codec, encodeHost(t, codec, read))
	if diff := cmp.Diff(host, got); diff != "" {
		t.Errorf("(-inspected +read):\n%s", diff)
	}
}

// FuzzPackHardware: hardware details are read as they would be if they were stored in plain JSON.
func FuzzPackHardware(f *testing.F) {
	f.Add([]byte{}, "sda", "x")
	f.Add([]byte("\x00\x01\x02 any bytes, of which the hardware details are made"), "/dev/\xff<&>\u2028", `"\`)
	f.Fuzz(func(t *testing.T, data []byte, name, flag string) {
		var details metal3.HardwareDetails
		randfill.NewFromGoFuzz(data).NilChance(0.3).NumElements(0, 3).Fill(&details)
		details.Storage = append(details.Storage, metal3.Storage{Name: name})
		details.CPU.Flags = append(details.CPU.Flags, flag)
		text, err := json.Marshal(details)
		if err != nil {
			t.Skip(err) // infinity has no JSON
		}
		want := &metal3.HardwareDetails{}
		if err := json.Unmarshal(text, want); err != nil {
			t.Fatal(err)
		}
		packed, err := packHardware(&details)
		if err != nil {
			t.Fatal(err)
		}
		got, err := unpackHardware(packed)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-plain +packed):\n%s", diff)
		}
	})
}

// BenchmarkDecodeHost decodes a host of which an earlier version is in memory.
func BenchmarkDecodeHost(b *testing.B) {
	codec := newHostCodec()
	host := fullHost()
	packed, plain := encodeHost(b, codec, host), encodeHost(b, storetest.Codec(), host)
	host.Status.HardwareDetails = nil
	for name, data := range map[string][]byte{"packed": packed, "plain": plain, "without hardware": encodeHost(b, codec, host)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			earlier := &metal3.BareMetalHost{}
			if _, _, err := codec.Decode(data, nil, earlier); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, _, err := codec.Decode(data, nil, &metal3.BareMetalHost{}); err != nil {
					b.Fatal(err)
				}
			}
			runtime.KeepAlive(earlier)
		})
	}
}
