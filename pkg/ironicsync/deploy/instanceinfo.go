// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"errors"
	"fmt"
	"strings"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// InstanceInfo returns all that Ironic's instance_info has to hold for the node to
// be deployed as spec wants. pullSecret is what PullSecret made of the Secret that
// the image names, or empty; it is in the result, which goes to Ironic and nowhere
// else.
func InstanceInfo(host *metal3.BareMetalHost, pullSecret string) (map[string]any, error) {
	want := wanted(&host.Spec)
	if want.isNothing() {
		return nil, errors.New("there is nothing to deploy: set spec.image or spec.customDeploy")
	}
	info := map[string]any{}
	if host.BootMode() == metal3.UEFISecureBoot {
		info["capabilities"] = map[string]any{"secure_boot": "true"}
	}
	hints, err := rootDeviceHints(host)
	if err != nil {
		return nil, err
	}
	if device := RootDevice(hints); device != nil {
		info["root_device"] = device
	}
	switch {
	case want.isLiveISO():
		info["boot_iso"] = want.image.URL // Ironic refuses it beside image_source
	case want.url() != "":
		if err := addImage(info, want, pullSecret); err != nil {
			return nil, err
		}
	}
	return info, nil
}

func addImage(info map[string]any, want workload, pullSecret string) error {
	image := want.image
	info["image_source"] = image.URL
	if image.DiskFormat != nil && *image.DiskFormat != "" {
		info["image_disk_format"] = string(*image.DiskFormat)
	}
	if IsOCI(image.URL) {
		// The registry has the checksum.
		if pullSecret != "" {
			info["image_pull_secret"] = pullSecret
		}
		return nil
	}
	if image.Checksum == "" {
		if want.method != "" {
			return nil // the procedure's own affair
		}
		return errors.New("spec.image.checksum is missing: only images of oci:// URLs and of format live-iso do without")
	}
	return addChecksum(info, image)
}

func addChecksum(info map[string]any, image *metal3.Image) error {
	// The ramdisk compares digits letter by letter, and knows no algorithm in front of them.
	algorithm, checksum, isDigest := image.Digest()
	if !isDigest {
		checksum = image.Checksum
	}
	switch image.ChecksumType {
	case "", metal3.AutoChecksum:
	case metal3.MD5, metal3.SHA256, metal3.SHA512:
		algorithm = image.ChecksumType
	default:
		return fmt.Errorf("spec.image.checksumType %q is unknown: use %s, %s, %s or %s",
			image.ChecksumType, metal3.AutoChecksum, metal3.MD5, metal3.SHA256, metal3.SHA512)
	}
	if algorithm == "" {
		// Ironic tells the algorithm by the length of the checksum. It refuses a hash
		// value without an algorithm, also for a custom deploy.
		info["image_checksum"] = checksum
		return nil
	}
	info["image_os_hash_algo"], info["image_os_hash_value"] = string(algorithm), checksum
	return nil
}

// ociScheme begins the URL of an image in an OCI registry, in just this spelling:
// Ironic takes no other.
const ociScheme = "oci://"

// IsOCI reports whether an image comes from an OCI registry.
func IsOCI(imageURL string) bool { return strings.HasPrefix(imageURL, ociScheme) }
