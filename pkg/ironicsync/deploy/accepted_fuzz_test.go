// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
)

// FuzzAccepted: a host whose image validation accepts can be deployed, and Ironic is
// told just what the host says.
func FuzzAccepted(f *testing.F) {
	for _, image := range []string{
		imageURL, "https://[2001:db8::1]:8443/a?token=b#c", "ftp://a/b", "gopher://a", "HTTP://a/b", "oci://quay.io/org/image:tag", "oci://quay.io/org/image@sha256:0123",
		"OCI://quay.io/image", "oci://[::1]:5000/a", "oci://index.docker.io/a", "oci://u:p@h/a", "oci:/a", "oci://:443/a", "http://%zz", "file:///a", "",
	} {
		f.Add(image, "0123abcd", "sha256", "qcow2", "", "/dev/sda")
		f.Add(image, "", "", "live-iso", "", "/dev/disk/by-path/a")
		f.Add(image, "", "auto", "", "install", "")
	}
	f.Fuzz(func(t *testing.T, image, checksum, kind, format, method, device string) {
		// The decoder leaves nothing else in a text.
		for _, text := range []*string{&image, &checksum, &kind, &format, &method, &device} {
			*text = strings.ToValidUTF8(*text, "\uFFFD")
		}
		host := newHost(wantsImage(image, withChecksum(metal3.ChecksumType(kind), checksum)), func(h *metal3.BareMetalHost) {
			h.Spec.RootDeviceHints.DeviceName = device
			if format != "" {
				h.Spec.Image.DiskFormat = (*metal3.DiskFormat)(&format)
			}
			if method != "" {
				wantsMethod(method)(h)
			}
		})
		if errs := validation.ValidateBareMetalHost(host); len(errs) > 0 {
			return
		}
		info, err := InstanceInfo(host, "")
		if err != nil {
			t.Fatalf("accepted: %v", err)
		}
		var told map[string]any
		if text, err := json.Marshal(info); err != nil || json.Unmarshal(text, &told) != nil || !cmp.Equal(info, told) {
			t.Errorf("Ironic is told %v instead of %v: %v", told, info, err)
		}
		if info["image_source"] != image && info["boot_iso"] != image {
			t.Errorf("not of this image: %v", info)
		}
		_, value := info["image_os_hash_value"]
		_, sum := info["image_checksum"]
		if _, live := info["boot_iso"]; !live && checksum != "" && !value && !sum {
			t.Errorf("the checksum is lost: %v", info)
		}
		if !IsOCI(image) {
			if !value && !sum && !host.Spec.Image.IsLiveISO() {
				t.Errorf("accepted without a checksum: %v", info)
			}
			return
		}
		parsed, err := url.Parse(image)
		if err != nil {
			t.Fatalf("accepted: %v", err)
		}
		config, err := json.Marshal(map[string]any{"auths": map[string]any{parsed.Host: map[string]string{"username": "u", "password": "p"}}})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := PullSecret(image, configJSON, map[string][]byte{".dockerconfigjson": config}); err != nil || got != "u:p" {
			t.Errorf("accepted, and the credentials of %q are %q: %v", parsed.Host, got, err)
		}
	})
}

// FuzzRootDevice: each hint is in what Ironic is told, as it was given, and nothing else.
func FuzzRootDevice(f *testing.F) {
	f.Add("/dev/sda", "0:0:0:0", "Model X", "Vendor Y", "S1", "0x1", "0x12", "0x2", 100, uint8(0))
	f.Add("/dev/disk/by-path/pci-0", "", "<in> a", "s== b", " ", "\n", "é", "\x00", -1, uint8(1))
	f.Add("", "", "", "", "", "", "", "", 0, uint8(2))
	f.Fuzz(func(t *testing.T, name, hctl, model, vendor, serial, wwn, wwnExtension, wwnVendor string, size int, rotational uint8) {
		hints := &metal3.RootDeviceHints{
			DeviceName: name, HCTL: hctl, Model: model, Vendor: vendor, SerialNumber: serial, MinSizeGigabytes: max(size, 0),
			WWN: wwn, WWNWithExtension: wwnExtension, WWNVendorExtension: wwnVendor,
		}
		if rotational > 0 {
			yes := rotational == 1
			hints.Rotational = &yes
		}
		read := &metal3.RootDeviceHints{}
		for key, value := range RootDevice(hints) {
			operator, value, _ := strings.Cut(value.(string), " ")
			if key == "rotational" {
				yes := operator == "true"
				read.Rotational = &yes
				continue
			}
			if want := map[string]string{"model": "<in>", "vendor": "<in>", "size": ">="}[key]; operator != want && (want != "" || operator != "s==") {
				t.Errorf("%s is compared by %s", key, operator)
			}
			switch key {
			case "name", "by_path":
				read.DeviceName = value
			case "hctl":
				read.HCTL = value
			case "model":
				read.Model = value
			case "vendor":
				read.Vendor = value
			case "serial":
				read.SerialNumber = value
			case "wwn":
				read.WWN = value
			case "wwn_with_extension":
				read.WWNWithExtension = value
			case "wwn_vendor_extension":
				read.WWNVendorExtension = value
			case "size":
				if err := json.Unmarshal([]byte(value), &read.MinSizeGigabytes); err != nil {
					t.Errorf("size %s: %v", value, err)
				}
			default:
				t.Errorf("Ironic is told a hint %s", key)
			}
		}
		if diff := cmp.Diff(hints, read); diff != "" {
			t.Errorf("(-given +told):\n%s", diff)
		}
	})
}

// FuzzUserData: user data arrives as it was given, whatever it is, or is refused
// because it is no text.
func FuzzUserData(f *testing.F) {
	for _, seed := range []string{"", "#cloud-config\nhostname: a\n", `{"ignition":{"version":"3.2.0"}}`, "\x1f\x8b\x08", "\u2028<script>&", "a\x00b"} {
		f.Add([]byte(seed), "userData")
		f.Add([]byte(seed), "value")
	}
	f.Fuzz(func(t *testing.T, text []byte, key string) {
		host := newHost(func(h *metal3.BareMetalHost) { h.Spec.UserData = secretRef("user") })
		drive, err := ConfigDrive(host, ConfigSources{UserData: map[string][]byte{key: text}})
		if known := key == "userData" || key == "value"; err != nil {
			if known && utf8.Valid(text) || len(err.Error()) > 300 {
				t.Errorf("unexpected: %v", err)
			}
			return
		} else if !known || !utf8.Valid(text) {
			t.Fatalf("accepted from the key %q", key)
		}
		sent, err := json.Marshal(drive)
		if err != nil {
			t.Fatal(err)
		}
		var told struct {
			UserData string            `json:"user_data"`
			MetaData map[string]string `json:"meta_data"`
		}
		if err := json.Unmarshal(sent, &told); err != nil || told.UserData != string(text) {
			t.Errorf("%q has become %q: %v", text, told.UserData, err)
		}
		if told.MetaData["uuid"] != string(host.UID) || told.MetaData["local-hostname"] != host.Name {
			t.Errorf("metadata is %v", told.MetaData)
		}
	})
}
