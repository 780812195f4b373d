// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func TestInstanceInfo(t *testing.T) {
	const ociURL = "oci://quay.io/org/image@sha256:abcd"
	secureBoot := func(h *metal3.BareMetalHost) { h.Spec.BootMode = metal3.UEFISecureBoot }
	hinted := func(h *metal3.BareMetalHost) { h.Spec.RootDeviceHints.SerialNumber = "S-1" }
	tests := map[string]struct {
		options    []hostOption
		pullSecret string
		want       map[string]any
	}{
		"checksum of no type": {
			options: []hostOption{wantsImage(imageURL)},
			want:    map[string]any{"image_source": imageURL, "image_checksum": "abc"},
		},
		"checksum of type auto": {
			options: []hostOption{wantsImage(imageURL, withChecksum(metal3.AutoChecksum, "abc"))},
			want:    map[string]any{"image_source": imageURL, "image_checksum": "abc"},
		},
		"md5": {
			options: []hostOption{wantsImage(imageURL, withChecksum(metal3.MD5, "abc"))},
			want:    map[string]any{"image_source": imageURL, "image_os_hash_algo": "md5", "image_os_hash_value": "abc"},
		},
		"an algorithm before the digits": {
			options: []hostOption{wantsImage(imageURL, withChecksum("", "SHA256:ABC"))},
			want:    map[string]any{"image_source": imageURL, "image_os_hash_algo": "sha256", "image_os_hash_value": "abc"},
		},
		"an algorithm before the digits, and its type": {
			options: []hostOption{wantsImage(imageURL, withChecksum(metal3.SHA512, "sha512:abc"))},
			want:    map[string]any{"image_source": imageURL, "image_os_hash_algo": "sha512", "image_os_hash_value": "abc"},
		},
		"digits in upper case": {
			options: []hostOption{wantsImage(imageURL, withChecksum("", "ABC"))},
			want:    map[string]any{"image_source": imageURL, "image_checksum": "abc"},
		},
		"a URL in upper case": {
			options: []hostOption{wantsImage(imageURL, withChecksum("", "http://images.example.com/SHA256SUMS"))},
			want:    map[string]any{"image_source": imageURL, "image_checksum": "http://images.example.com/SHA256SUMS"},
		},
		"sha256": {
			options: []hostOption{wantsImage(imageURL, withChecksum(metal3.SHA256, "http://images.example.com/sums"))},
			want:    map[string]any{"image_source": imageURL, "image_os_hash_algo": "sha256", "image_os_hash_value": "http://images.example.com/sums"},
		},
		"sha512": {
			options: []hostOption{wantsImage(imageURL, withChecksum(metal3.SHA512, "abc"), withFormat(metal3.QCOW2))},
			want:    map[string]any{"image_source": imageURL, "image_disk_format": "qcow2", "image_os_hash_algo": "sha512", "image_os_hash_value": "abc"},
		},
		"pull secret of no use": {
			options: []hostOption{wantsImage(imageURL)}, pullSecret: "u:p",
			want: map[string]any{"image_source": imageURL, "image_checksum": "abc"},
		},
		"OCI": {
			options: []hostOption{wantsImage(ociURL, withChecksum("", ""))},
			want:    map[string]any{"image_source": ociURL},
		},
		"OCI with a pull secret and a checksum that admission would refuse": {
			options: []hostOption{wantsImage(ociURL, withChecksum(metal3.SHA256, "abc"), withFormat(metal3.Raw))}, pullSecret: "u:p",
			want: map[string]any{"image_source": ociURL, "image_pull_secret": "u:p", "image_disk_format": "raw"},
		},
		"live ISO": {
			options: []hostOption{wantsImage(imageURL, withFormat(metal3.LiveISO), withChecksum(metal3.SHA256, "abc"))}, pullSecret: "u:p",
			want: map[string]any{"boot_iso": imageURL},
		},
		"live ISO from a registry, without checksum": {
			options: []hostOption{wantsImage(ociURL, withFormat(metal3.LiveISO), withChecksum("", ""))}, pullSecret: "u:p",
			want: map[string]any{"boot_iso": ociURL},
		},
		"custom deploy alone": {options: []hostOption{wantsMethod("a")}, want: map[string]any{}},
		"custom deploy, image without URL": {
			options: []hostOption{wantsMethod("a"), wantsImage("", withFormat(metal3.LiveISO))}, want: map[string]any{},
		},
		"custom deploy with image": {
			options: []hostOption{wantsMethod("a"), wantsImage(imageURL, withFormat(metal3.Raw))},
			want:    map[string]any{"image_source": imageURL, "image_checksum": "abc", "image_disk_format": "raw"},
		},
		"custom deploy with image and checksum of type auto": {
			options: []hostOption{wantsMethod("a"), wantsImage(imageURL, withChecksum(metal3.AutoChecksum, "abc"))},
			want:    map[string]any{"image_source": imageURL, "image_checksum": "abc"},
		},
		"custom deploy with image and sha256": {
			options: []hostOption{wantsMethod("a"), wantsImage(imageURL, withChecksum(metal3.SHA256, "abc"))},
			want:    map[string]any{"image_source": imageURL, "image_os_hash_algo": "sha256", "image_os_hash_value": "abc"},
		},
		"custom deploy with image, no checksum": {
			options: []hostOption{wantsMethod("a"), wantsImage(imageURL, withChecksum(metal3.SHA256, ""))},
			want:    map[string]any{"image_source": imageURL},
		},
		"custom deploy with OCI image": {
			options: []hostOption{wantsMethod("a"), wantsImage(ociURL, withChecksum(metal3.SHA256, "abc"))}, pullSecret: "u:p",
			want: map[string]any{"image_source": ociURL, "image_pull_secret": "u:p"},
		},
		"secure boot and a root device": {
			options: []hostOption{wantsImage(imageURL), secureBoot, hinted},
			want: map[string]any{
				"image_source": imageURL, "image_checksum": "abc",
				"capabilities": map[string]any{"secure_boot": "true"}, "root_device": map[string]any{"serial": "s== S-1"},
			},
		},
		"secure boot and a live ISO": {
			options: []hostOption{wantsImage(imageURL, withFormat(metal3.LiveISO)), secureBoot},
			want:    map[string]any{"boot_iso": imageURL, "capabilities": map[string]any{"secure_boot": "true"}},
		},
		"root device of the profile": {
			options: []hostOption{wantsImage(imageURL), withProfile("", "dell-raid", "")},
			want:    map[string]any{"image_source": imageURL, "image_checksum": "abc", "root_device": map[string]any{"hctl": "s== 0:2:0:0"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := InstanceInfo(newHost(test.options...), test.pullSecret)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if patches := InstanceInfoPatches(mustJSON(t, got), got, false); len(patches) > 0 {
				t.Errorf("what Ironic gives back differs: %v", patches)
			}
		})
	}
}

func TestInstanceInfoErrors(t *testing.T) {
	tests := map[string]struct {
		options []hostOption
		want    string
	}{
		"nothing to deploy":     {want: "spec.image or spec.customDeploy"},
		"no checksum":           {options: []hostOption{wantsImage(imageURL, withChecksum(metal3.SHA256, ""))}, want: "spec.image.checksum is missing"},
		"unknown checksum type": {options: []hostOption{wantsImage(imageURL, withChecksum("crc32", "abc"))}, want: `spec.image.checksumType "crc32" is unknown: use auto, md5, sha256 or sha512`},
		"unknown profile":       {options: []hostOption{wantsImage(imageURL), withProfile("", "nope", "")}, want: `no hardware profile "nope"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			info, err := InstanceInfo(newHost(test.options...), "")
			if err == nil {
				t.Fatalf("no error, but %v", info)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %q does not contain %q", err, test.want)
			}
		})
	}
}

// FuzzInstanceInfo: whatever an image says, nothing panics, the checksum is told in
// one way only, a live ISO and an image exclude each other, and what Ironic gives
// back masked is not sent again and again.
func FuzzInstanceInfo(f *testing.F) {
	f.Add(imageURL, "abc", "sha256", "qcow2", "", "")
	f.Add("oci://quay.io/org/image", "", "", "", "user:password", "")
	f.Add(imageURL+"?token=abc", "http://x/?password=1", "auto", "live-iso", "", "install")
	f.Add("", "******", "md5", "raw", "******", "x")
	f.Fuzz(func(t *testing.T, url, checksum, kind, format, pullSecret, method string) {
		host := newHost(wantsImage(url, withChecksum(metal3.ChecksumType(kind), checksum), withFormat(metal3.DiskFormat(format))), wantsMethod(method))
		info, err := InstanceInfo(host, pullSecret)
		if err != nil {
			if checksum != "" && len(checksum) > 12 && strings.Contains(err.Error(), checksum) {
				t.Errorf("error quotes the checksum: %v", err)
			}
			return
		}
		_, hash := info["image_os_hash_value"]
		algo, hasAlgo := info["image_os_hash_algo"]
		_, sum := info["image_checksum"]
		if hash != hasAlgo || hash && sum || hasAlgo && algo == "" {
			t.Errorf("checksum told as %v", info)
		}
		_, live := info["boot_iso"]
		_, image := info["image_source"]
		if live && image {
			t.Errorf("both a live ISO and an image: %v", info)
		}
		current := map[string]any{"image_url": "******", "image_type": "whole-disk"}
		for key, value := range info {
			current[key] = value
		}
		if _, ok := current[pullSecretKey]; ok {
			current[pullSecretKey] = mask
		}
		if patches := InstanceInfoPatches(current, info, false); len(patches) > 0 {
			t.Errorf("patches without a difference: %v", patches)
		}
	})
}
