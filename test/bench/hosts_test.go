// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func hostName(i int) string { return fmt.Sprintf("host-%05d", i) }

// newHost is host i as a user would create it. It is paused: what it takes to
// register it is not measured here, and a paused host is read as any other.
func newHost(i int) *metal3.BareMetalHost {
	return &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{
			Name:        hostName(i),
			Labels:      map[string]string{"rack": fmt.Sprint(i / 40)},
			Annotations: map[string]string{metal3.PausedAnnotation: "bench"},
		},
		Spec: metal3.BareMetalHostSpec{
			Online: true, BootMACAddress: macAddress(i, 0),
			BMC: metal3.BMCDetails{Address: "ipmi://" + bmcAddress(i), CredentialsName: "bmc"},
		},
	}
}

// bmcAddress is that of the BMC of host i.
func bmcAddress(i int) string { return fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255) }

// inspected is what can be written of host i, which has the given node, before anything is recorded of it: among it the
// hardware of a two-socket server, some 9 kB of JSON.
func inspected(i int, node string) metal3.BareMetalHostStatus {
	return metal3.BareMetalHostStatus{
		OperationalStatus: metal3.OperationalStatusOK,
		HardwareDetails:   hardware(i),
		Provisioning:      metal3.ProvisionStatus{ID: node},
	}
}

func hardware(i int) *metal3.HardwareDetails {
	details := &metal3.HardwareDetails{
		Hostname: hostName(i), RAMMebibytes: 512 << 10,
		SystemVendor: metal3.HardwareSystemVendor{Manufacturer: "Contoso Inc.", ProductName: "PowerServer R750 (SKU=090E;ModelName=PowerServer R750)", SerialNumber: fmt.Sprintf("CN%08d", i)},
		Firmware:     metal3.Firmware{BIOS: metal3.BIOS{Vendor: "Contoso Inc.", Version: "1.14.1", Date: "06/08/2024"}},
		CPU:          metal3.CPU{Arch: "x86_64", Model: "Intel(R) Xeon(R) Gold 6338N CPU @ 2.20GHz", ClockMegahertz: 3500, Count: 128, Flags: cpuFlags},
	}
	for n := range 6 {
		nic := metal3.NIC{
			Name: fmt.Sprintf("ens%df%d", 1+n/2, n%2), Model: "0x8086 0x159b", MAC: macAddress(i, n),
			PCIAddress: fmt.Sprintf("0000:%02x:00.%d", 0x31+n/2, n%2), PXE: n == 0,
		}
		if n < 4 { // the others have no cable
			nic.SpeedGbps, nic.IP, nic.VLANID = 25, fmt.Sprintf("10.%d.%d.%d", 16+n+4*(i>>16), i>>8&255, i&255), 100
			nic.VLANs = []metal3.VLAN{{ID: 100, Name: "provisioning"}, {ID: 200, Name: "tenants"}}
			nic.LLDP = &metal3.LLDP{SwitchID: macAddress(i/40, n), PortID: fmt.Sprintf("Ethernet1/%d", 1+i%40), SwitchSystemName: fmt.Sprintf("leaf-%d-%d", i/40, n%2)}
		}
		details.NIC = append(details.NIC, nic)
	}
	for n := range 8 {
		path := fmt.Sprintf("/dev/disk/by-path/pci-0000:%02x:00.0-nvme-1", 0x65+n)
		wwn := fmt.Sprintf("eui.36%06x%08x", n, i)
		details.Storage = append(details.Storage, metal3.Storage{
			Name: path, AlternateNames: []string{fmt.Sprintf("/dev/nvme%dn1", n), path}, Type: metal3.NVME, SizeBytes: 3840755982336,
			Model: "Contoso Ent NVMe v2 AGN RI U.2 3.84TB", SerialNumber: fmt.Sprintf("S6CU%04d%06d", n, i), WWN: wwn, WWNWithExtension: wwn,
		})
	}
	return details
}

func macAddress(i, n int) string {
	return fmt.Sprintf("52:54:%02x:%02x:%02x:%02x", n, i>>16, i>>8&255, i&255)
}

// cpuFlags are those of a server processor of 2021.
var cpuFlags = strings.Fields(`3dnowprefetch abm acpi adx aes aperfmperf apic arat arch_capabilities arch_perfmon art
	avx avx2 avx512_bitalg avx512_vbmi2 avx512_vnni avx512_vpopcntdq avx512bw avx512cd avx512dq avx512f avx512ifma
	avx512vbmi avx512vl bmi1 bmi2 bts cat_l3 clflush clflushopt clwb cmov constant_tsc cpuid cqm cqm_llc cqm_mbm_local
	cqm_mbm_total cqm_occup_llc cx16 cx8 dca de ds_cpl dtes64 dtherm dts epb ept ept_ad erms est f16c flexpriority
	flush_l1d fma fpu fsgsbase fsrm fxsr gfni hle ht ibpb ibrs ibrs_enhanced ida intel_ppin intel_pt invpcid
	invpcid_single la57 lahf_lm lm mba mca mce md_clear mmx monitor movbe msr mtrr nonstop_tsc nopl nx ospke pae pat
	pbe pcid pclmulqdq pconfig pdcm pdpe1gb pebs pge pku pln pni popcnt pse pse36 pts rdpid rdrand rdseed rdt_a rdtscp
	rep_good rtm sdbg sep sgx sha_ni smap smep split_lock_detect ss ssbd sse sse2 sse4_1 sse4_2 ssse3 stibp syscall
	tm tm2 tme tpr_shadow tsc tsc_adjust tsc_deadline_timer umip vaes vme vmx vnmi vpclmulqdq vpid wbnoinvd x2apic
	xgetbv1 xsave xsavec xsaveopt xsaves xtopology xtpr`)
