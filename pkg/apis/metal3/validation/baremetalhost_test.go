// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

type mutation func(*v1alpha1.BareMetalHost)

// newHost returns a valid host with the most important fields set, changed by mutations.
func newHost(mutations ...mutation) *v1alpha1.BareMetalHost {
	host := &v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "worker-0", ResourceVersion: "1"},
		Spec: v1alpha1.BareMetalHostSpec{
			Online: true,
			BMC: v1alpha1.BMCDetails{
				Address:         "redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1",
				CredentialsName: "worker-0-bmc",
			},
			BootMACAddress: "00:ab:4f:d8:9e:fa",
			Image:          &v1alpha1.Image{URL: "https://example.org/image.qcow2", Checksum: "https://example.org/sums"},
			UserData:       &corev1.SecretReference{Name: "user-data"},
		},
	}
	for _, mutate := range mutations {
		mutate(host)
	}
	return host
}

// named has as many characters in the host's namespace and name.
func named(namespace, name int) mutation {
	return func(h *v1alpha1.BareMetalHost) {
		h.Namespace, h.Name = strings.Repeat("n", namespace), strings.Repeat("h", name)
	}
}

func address(value string) mutation {
	return func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = value }
}

func annotation(key, value string) mutation {
	return func(h *v1alpha1.BareMetalHost) { metav1.SetMetaDataAnnotation(&h.ObjectMeta, key, value) }
}

func image(image v1alpha1.Image) mutation {
	return func(h *v1alpha1.BareMetalHost) { h.Spec.Image = &image }
}

func hints(hints v1alpha1.RootDeviceHints) mutation {
	return func(h *v1alpha1.BareMetalHost) { h.Spec.RootDeviceHints = &hints }
}

func hardwareRAID(volumes ...v1alpha1.HardwareRAIDVolume) mutation {
	return func(h *v1alpha1.BareMetalHost) {
		h.Spec.RAID = &v1alpha1.RAIDConfig{HardwareRAIDVolumes: volumes}
	}
}

func softwareRAID(volumes ...v1alpha1.SoftwareRAIDVolume) mutation {
	return func(h *v1alpha1.BareMetalHost) {
		h.Spec.RAID = &v1alpha1.RAIDConfig{SoftwareRAIDVolumes: volumes}
	}
}

func interfaces(interfaces ...v1alpha1.NetworkInterface) mutation {
	return func(h *v1alpha1.BareMetalHost) { h.Spec.NetworkInterfaces = interfaces }
}

func noMAC(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = "" }

func status(state v1alpha1.ProvisioningState, operational v1alpha1.OperationalStatus) mutation {
	return func(h *v1alpha1.BareMetalHost) {
		h.Status.Provisioning.State = state
		h.Status.OperationalStatus = operational
	}
}

// expect compares errors with lines of the form "path: type: part of the message".
func expect(t *testing.T, errs field.ErrorList, want ...string) {
	t.Helper()
	var got []string
	for _, err := range errs {
		got = append(got, err.Error())
	}
	if len(got) != len(want) {
		t.Errorf("want %d errors %q, got %d: %q", len(want), want, len(got), got)
		return
	}
	for i := range got {
		path, message, _ := strings.Cut(want[i], ": ")
		if errs[i].Field != path || !strings.Contains(got[i], message) {
			t.Errorf("want %q, got %q", want[i], got[i])
		}
	}
}

func TestValidateBareMetalHost(t *testing.T) {
	const (
		mac      = "spec.bootMACAddress"
		bootMode = "spec.bootMode"
		rootHint = "spec.rootDeviceHints.deviceName"
		url      = "spec.image.url"
		checksum = "spec.image.checksum"
		nics     = "spec.networkInterfaces"
	)
	hardware := v1alpha1.HardwareRAIDVolume{Level: "1"}
	oneDisk := hints(v1alpha1.RootDeviceHints{DeviceName: "/dev/sda"})
	tests := map[string]struct {
		mutations []mutation
		want      []string
	}{
		"valid": {},
		"nothing set": {mutations: []mutation{func(h *v1alpha1.BareMetalHost) {
			h.Spec = v1alpha1.BareMetalHostSpec{}
		}}},

		// Enumerations and patterns of the schema.
		"boot modes": {mutations: []mutation{func(h *v1alpha1.BareMetalHost) { h.Spec.BootMode = "legacy" }}},
		"unknown boot mode": {
			mutations: []mutation{func(h *v1alpha1.BareMetalHost) { h.Spec.BootMode = "bios" }},
			want:      []string{bootMode + `: supported values: "UEFI", "UEFISecureBoot", "legacy"`},
		},
		"unknown cleaning mode": {
			mutations: []mutation{func(h *v1alpha1.BareMetalHost) { h.Spec.AutomatedCleaningMode = "full" }},
			want:      []string{`spec.automatedCleaningMode: supported values: "metadata", "disabled"`},
		},
		"unknown inspection mode": {
			mutations: []mutation{func(h *v1alpha1.BareMetalHost) { h.Spec.InspectionMode = "slow" }},
			want:      []string{`spec.inspectionMode: supported values: "disabled", "agent", "fast"`},
		},
		"taint": {mutations: []mutation{func(h *v1alpha1.BareMetalHost) {
			h.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}
		}}},
		"empty taint": {
			mutations: []mutation{func(h *v1alpha1.BareMetalHost) { h.Spec.Taints = []corev1.Taint{{}} }},
			want:      []string{"spec.taints[0].key: Required", "spec.taints[0].effect: Required"},
		},
		"custom deploy": {mutations: []mutation{func(h *v1alpha1.BareMetalHost) {
			h.Spec.CustomDeploy = &v1alpha1.CustomDeploy{Method: "install_coreos"}
		}}},
		"custom deploy without method": {
			mutations: []mutation{func(h *v1alpha1.BareMetalHost) { h.Spec.CustomDeploy = &v1alpha1.CustomDeploy{} }},
			want:      []string{"spec.customDeploy.method: Required"},
		},

		// 1. BMC address.
		"address with host name":    {mutations: []mutation{address("redfish://bmc.example.org")}},
		"address with unknown type": {mutations: []mutation{address("foo://192.0.2.1")}, want: []string{`spec.bmc.address: unknown type "foo"; use one of ipmi://`}},
		"address with bad host":     {mutations: []mutation{address("ipmi://bad_host_")}, want: []string{"spec.bmc.address: neither an IP address nor a DNS name"}},

		"address with two schemes": {mutations: []mutation{address("redfish://https://192.0.2.1")}, want: []string{"spec.bmc.address: write redfish://192.0.2.1"}},
		"two mistakes with one address": {
			mutations: []mutation{address("ipmi://192.0.2.1?a=b"), func(h *v1alpha1.BareMetalHost) { h.Spec.InspectionMode = "fast" }},
			want:      []string{"spec.bmc.address: leave out a", "spec.inspectionMode: use agent or disabled"},
		},

		// 2. firmware.
		"firmware": {
			mutations: []mutation{func(h *v1alpha1.BareMetalHost) { h.Spec.Firmware = &v1alpha1.FirmwareConfig{} }},
			want:      []string{"spec.firmware: HostFirmwareSettings"},
		},

		// 3. Secrets of other namespaces.
		"own namespace": {mutations: []mutation{func(h *v1alpha1.BareMetalHost) { h.Spec.UserData.Namespace = "metal3" }}},
		"other namespaces": {
			mutations: []mutation{func(h *v1alpha1.BareMetalHost) {
				other := &corev1.SecretReference{Name: "a", Namespace: "other"}
				h.Spec.UserData, h.Spec.NetworkData, h.Spec.MetaData = other, other, other
			}},
			want: []string{
				"spec.userData.namespace: Forbidden: must be empty or the namespace of the object itself, metal3",
				"spec.networkData.namespace: Forbidden",
				"spec.metaData.namespace: Forbidden",
			},
		},

		// 5. Boot MAC address.
		"upper case MAC":    {mutations: []mutation{func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = "00:AB:4F:D8:9E:FA" }}},
		"MAC with a suffix": {mutations: []mutation{func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress += ":00" }}, want: []string{mac + ": must be a MAC address"}},
		"MAC with dashes":   {mutations: []mutation{func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = "00-ab-4f-d8-9e-fa" }}, want: []string{mac + ": must be a MAC address"}},
		"no MAC":            {mutations: []mutation{noMAC}},
		"libvirt":           {mutations: []mutation{address("libvirt://192.0.2.1:6230")}},
		"libvirt without MAC": {
			mutations: []mutation{noMAC, address("libvirt://192.0.2.1:6230")},
			want:      []string{mac + ": Required value: is required with libvirt://"},
		},
		"inspection disabled without MAC": {
			mutations: []mutation{noMAC, func(h *v1alpha1.BareMetalHost) { h.Spec.InspectionMode = "disabled" }},
			want:      []string{mac + ": Required value: is required if inspection is disabled"},
		},
		"inspection disabled by annotation without MAC": {
			mutations: []mutation{noMAC, annotation("inspect.metal3.io", "disabled")},
			want:      []string{mac + ": Required value: is required if inspection is disabled"},
		},

		// 6. Secure boot.
		"secure boot": {mutations: []mutation{func(h *v1alpha1.BareMetalHost) { h.Spec.BootMode = "UEFISecureBoot" }}},
		"secure boot with ipmi": {
			mutations: []mutation{address("ipmi://192.0.2.1"), func(h *v1alpha1.BareMetalHost) { h.Spec.BootMode = "UEFISecureBoot" }},
			want:      []string{bootMode + ": ipmi:// does not support secure boot"},
		},

		// 7. Name.
		"name with dots": {mutations: []mutation{func(h *v1alpha1.BareMetalHost) { h.Name = "worker-0.rack-1" }}},
		"name of a UUID": {
			mutations: []mutation{func(h *v1alpha1.BareMetalHost) { h.Name = "a4a53134-1690-45c6-93ee-b96c31dbfc54" }},
			want:      []string{"metadata.name: must not look like a UUID"},
		},
		"name of a UUID without dashes": {
			mutations: []mutation{func(h *v1alpha1.BareMetalHost) { h.Name = "a4a53134169045c693eeb96c31dbfc54" }},
			want:      []string{"metadata.name: must not look like a UUID"},
		},
		"name longer than a UUID":         {mutations: []mutation{func(h *v1alpha1.BareMetalHost) { h.Name = "a4a53134169045c693eeb96c31dbfc541" }}},
		"name as long as Ironic takes it": {mutations: []mutation{named(30, 224)}},
		"name too long for Ironic": {
			mutations: []mutation{named(30, 225)},
			want:      []string{"metadata.name: must have at most 224 characters in namespace"},
		},
		"name with a tilde": {
			mutations: []mutation{func(h *v1alpha1.BareMetalHost) { h.Name = "a~b" }},
			want:      []string{"metadata.name: RFC 1123"},
		},

		// 8. Root device hints.
		"device name":       {mutations: []mutation{oneDisk}},
		"by-path":           {mutations: []mutation{hints(v1alpha1.RootDeviceHints{DeviceName: "/dev/disk/by-path/pci-0000:01:00.0"})}},
		"by-id":             {mutations: []mutation{hints(v1alpha1.RootDeviceHints{DeviceName: "/dev/disk/by-id/wwn-1"})}, want: []string{rootHint + ": /dev/disk/by-path/NAME"}},
		"bare device name":  {mutations: []mutation{hints(v1alpha1.RootDeviceHints{DeviceName: "sda"})}, want: []string{rootHint + ": must be /dev/NAME"}},
		"empty device name": {mutations: []mutation{hints(v1alpha1.RootDeviceHints{DeviceName: "/dev/"})}, want: []string{rootHint + ": must be /dev/NAME"}},
		"hints of Ironic": {
			mutations: []mutation{hints(v1alpha1.RootDeviceHints{Model: "<in> PM9A3", Vendor: "<or> a <or> b", SerialNumber: "s== S1", WWN: "== 0x5", HCTL: "<range-in> [ 1 2 ]"})},
			want: []string{
				"spec.rootDeviceHints.hctl: leave out <range-in>",
				"spec.rootDeviceHints.model: must not begin with an operator of Ironic: leave out <in>", "spec.rootDeviceHints.vendor: leave out <or>",
				"spec.rootDeviceHints.serialNumber: leave out s==", "spec.rootDeviceHints.wwn: leave out ==",
			},
		},
		"hints like operators": {mutations: []mutation{hints(v1alpha1.RootDeviceHints{Model: "s3700 <in>", SerialNumber: "S=1", HCTL: "0:0:0:0"})}},
		"negative size":        {mutations: []mutation{hints(v1alpha1.RootDeviceHints{MinSizeGigabytes: -1})}, want: []string{"spec.rootDeviceHints.minSizeGigabytes: must be 0 or more"}},

		// 9. Image.
		"image without URL":       {mutations: []mutation{image(v1alpha1.Image{Checksum: "a"})}, want: []string{url + ": Required value: must be a URL"}},
		"image with bad URL":      {mutations: []mutation{image(v1alpha1.Image{URL: "http://[", Checksum: "a"})}, want: []string{url + ": http, https, oci"}},
		"image without host":      {mutations: []mutation{image(v1alpha1.Image{URL: "image.qcow2", Checksum: "a"})}, want: []string{url + ": http, https, oci"}},
		"image in a file":         {mutations: []mutation{image(v1alpha1.Image{URL: "file:///image", Checksum: "a"})}, want: []string{url + ": http, https, oci"}},
		"image over gopher":       {mutations: []mutation{image(v1alpha1.Image{URL: "gopher://a/b", Checksum: "a"})}, want: []string{url + ": http, https, oci"}},
		"image without checksum":  {mutations: []mutation{image(v1alpha1.Image{URL: "http://a/b"})}, want: []string{checksum + ": Required"}},
		"live-iso":                {mutations: []mutation{image(v1alpha1.Image{URL: "http://a/b", DiskFormat: ptr.To(v1alpha1.LiveISO)})}},
		"live-iso with checksum":  {mutations: []mutation{image(v1alpha1.Image{URL: "http://a/b", Checksum: "a", DiskFormat: ptr.To(v1alpha1.LiveISO)})}},
		"oci":                     {mutations: []mutation{image(v1alpha1.Image{URL: "oci://a/b:c"})}},
		"oci with checksum":       {mutations: []mutation{image(v1alpha1.Image{URL: "oci://a/b", Checksum: "a"})}, want: []string{checksum + ": Forbidden"}},
		"checksum type":           {mutations: []mutation{image(v1alpha1.Image{URL: "http://a/b", Checksum: "a", ChecksumType: "auto"})}},
		"sha256":                  {mutations: []mutation{image(v1alpha1.Image{URL: "http://a/b", Checksum: strings.Repeat("aB", 32), ChecksumType: "sha256"})}},
		"sha256 before it":        {mutations: []mutation{image(v1alpha1.Image{URL: "http://a/b", Checksum: "sha256:" + strings.Repeat("aB", 32)})}},
		"sha1 before it":          {mutations: []mutation{image(v1alpha1.Image{URL: "http://a/b", Checksum: "SHA1:" + strings.Repeat("a", 40)})}},
		"sha1 that is not told":   {mutations: []mutation{image(v1alpha1.Image{URL: "http://a/b", Checksum: strings.Repeat("a", 40)})}, want: []string{checksum + ": has 40 digits, by which Ironic knows no algorithm"}},
		"a digit lost":            {mutations: []mutation{image(v1alpha1.Image{URL: "http://a/b", Checksum: strings.Repeat("a", 63), ChecksumType: "sha256"})}, want: []string{checksum + ": has 63 digits, but checksums of sha256 have 64"}},
		"two algorithms":          {mutations: []mutation{image(v1alpha1.Image{URL: "http://a/b", Checksum: "md5:" + strings.Repeat("a", 32), ChecksumType: "sha256"})}, want: []string{checksum + ": is of md5, but checksumType is sha256"}},
		"the line of a file":      {mutations: []mutation{image(v1alpha1.Image{URL: "http://a/b", Checksum: strings.Repeat("a", 64) + "  b"})}, want: []string{checksum + ": must be the digits alone"}},
		"checksum in quotes":      {mutations: []mutation{image(v1alpha1.Image{URL: "http://a/b", Checksum: `"` + strings.Repeat("a", 64) + `"`})}, want: []string{checksum + ": must be the digits alone"}},
		"checksum at HTTPS":       {mutations: []mutation{image(v1alpha1.Image{URL: "HTTPS://a/b", Checksum: "HTTPS://a/SHA256SUMS"})}, want: []string{checksum + ": must begin with http:// or https:// in lower case"}},
		"checksum at https":       {mutations: []mutation{image(v1alpha1.Image{URL: "http://a/b", Checksum: "https://a/SHA256 SUMS", ChecksumType: "sha256"})}},
		"unknown checksum type":   {mutations: []mutation{image(v1alpha1.Image{URL: "http://a/b", Checksum: "a", ChecksumType: "sha1"})}, want: []string{`spec.image.checksumType: "auto", "md5", "sha256", "sha512"`}},
		"unknown format":          {mutations: []mutation{image(v1alpha1.Image{URL: "http://a/b", Checksum: "a", DiskFormat: ptr.To(v1alpha1.DiskFormat("img"))})}, want: []string{`spec.image.format: "raw", "qcow2", "vdi", "vmdk", "live-iso"`}},
		"password in a wrong URL": {mutations: []mutation{image(v1alpha1.Image{URL: "file://user:secret@a/b", Checksum: "a"})}, want: []string{url + `: "***@a/b"`}},

		// 11. Fast inspection.
		"fast inspection": {mutations: []mutation{func(h *v1alpha1.BareMetalHost) { h.Spec.InspectionMode = "fast" }}},
		"fast inspection with ipmi": {
			mutations: []mutation{address("ipmi://192.0.2.1"), func(h *v1alpha1.BareMetalHost) { h.Spec.InspectionMode = "fast" }},
			want:      []string{"spec.inspectionMode: use agent or disabled"},
		},

		// 12. disablePowerOff.
		"never off":          {mutations: []mutation{func(h *v1alpha1.BareMetalHost) { h.Spec.DisablePowerOff = true }}},
		"never off, but off": {mutations: []mutation{func(h *v1alpha1.BareMetalHost) { h.Spec.DisablePowerOff, h.Spec.Online = true, false }}, want: []string{"spec.disablePowerOff: requires online: true"}},

		// 13. Network interfaces.
		"interfaces": {mutations: []mutation{interfaces(
			v1alpha1.NetworkInterface{Name: "eno1"},
			v1alpha1.NetworkInterface{
				MACAddress:            "00:ab:4f:d8:9e:fa",
				HostNetworkAttachment: &v1alpha1.HostNetworkAttachmentRef{Name: "a"},
				SwitchPort:            &v1alpha1.SwitchPortIdentifier{SwitchID: "00:ab:4f:d8:9e:fa", PortID: "1/1"},
			},
		)}},
		"interface without name":  {mutations: []mutation{interfaces(v1alpha1.NetworkInterface{})}, want: []string{nics + "[0]: exactly one of name and macAddress"}},
		"interface with both":     {mutations: []mutation{interfaces(v1alpha1.NetworkInterface{Name: "a", MACAddress: "00:ab:4f:d8:9e:fa"})}, want: []string{nics + "[0]: exactly one of name and macAddress"}},
		"interfaces twice":        {mutations: []mutation{interfaces(v1alpha1.NetworkInterface{Name: "eno1"}, v1alpha1.NetworkInterface{Name: "ENO1"})}, want: []string{nics + "[1].name: Duplicate"}},
		"MAC addresses twice":     {mutations: []mutation{interfaces(v1alpha1.NetworkInterface{MACAddress: "00:ab:4f:d8:9e:fa"}, v1alpha1.NetworkInterface{MACAddress: "00:AB:4f:d8:9e:fa"})}, want: []string{nics + "[1].macAddress: Duplicate"}},
		"interface with bad name": {mutations: []mutation{interfaces(v1alpha1.NetworkInterface{Name: "a b"})}, want: []string{nics + "[0].name: letters, digits"}},
		"interface with bad MAC":  {mutations: []mutation{interfaces(v1alpha1.NetworkInterface{MACAddress: "00:ab"})}, want: []string{nics + "[0].macAddress: must be a MAC address"}},
		"attachment with long name": {
			mutations: []mutation{interfaces(v1alpha1.NetworkInterface{Name: "a", HostNetworkAttachment: &v1alpha1.HostNetworkAttachmentRef{
				Name: strings.Repeat("a", 254), Namespace: strings.Repeat("a", 64),
			}})},
			want: []string{nics + "[0].hostNetworkAttachment.name: 253", nics + "[0].hostNetworkAttachment.namespace: 63"},
		},
		"empty switch port": {
			mutations: []mutation{interfaces(v1alpha1.NetworkInterface{Name: "a", SwitchPort: &v1alpha1.SwitchPortIdentifier{}})},
			want:      []string{nics + "[0].switchPort.switchID: must be a MAC address", nics + "[0].switchPort.portID: Required"},
		},

		// 4. RAID. See also TestValidateRAID.
		"hardware RAID": {mutations: []mutation{hardwareRAID(hardware)}},
		"hardware RAID with ipmi": {
			mutations: []mutation{address("ipmi://192.0.2.1"), hardwareRAID(hardware)},
			want:      []string{"spec.raid.hardwareRAIDVolumes: ipmi:// does not support hardware RAID"},
		},
		"no hardware RAID with ipmi": {mutations: []mutation{address("ipmi://192.0.2.1"), hardwareRAID()}},
		"software RAID with ipmi":    {mutations: []mutation{address("ipmi://192.0.2.1"), softwareRAID(v1alpha1.SoftwareRAIDVolume{Level: "1"})}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			expect(t, ValidateBareMetalHost(newHost(test.mutations...)), test.want...)
		})
	}
}
