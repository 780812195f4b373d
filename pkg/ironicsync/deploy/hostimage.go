// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"fmt"
	"hash/fnv"
	"strings"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// HostImage is a ramdisk that was built for one host.
type HostImage struct {
	Format metal3.ImageFormat
	// URL is that of the ISO or of the ramdisk. A ramdisk also has a kernel, and may need parameters for it.
	URL, KernelURL, KernelParams string
}

// Digest identifies the image. It is the same in every process.
func (i HostImage) Digest() string {
	digest := fnv.New32a()
	_, _ = fmt.Fprintf(digest, "%q %q %q %q", i.Format, i.URL, i.KernelURL, i.KernelParams)
	return fmt.Sprintf("%08x", digest.Sum32())
}

// With returns the settings for a host that boots an image of its own.
func (r Ramdisk) With(image HostImage) Ramdisk {
	r = r.WithoutImages()
	if image.Format == metal3.ImageFormatISO {
		r.Images.ISOURL = image.URL // its kernel has the parameters that it needs
		return r
	}
	r.Images.KernelURL, r.Images.RamdiskURL = image.KernelURL, image.URL
	r.KernelParams = strings.TrimSpace(r.KernelParams + " " + image.KernelParams)
	return r
}

// WithoutImages returns the settings for a host whose image is not known.
func (r Ramdisk) WithoutImages() Ramdisk {
	r.Images, r.ByArch = Images{}, nil
	return r
}

// HasImages reports whether there is an image for any architecture.
func (r Ramdisk) HasImages() bool {
	for _, images := range r.ByArch {
		if images.isBootable() {
			return true
		}
	}
	return r.Images.isBootable()
}

// isBootable reports whether there is an ISO, or both a kernel and a ramdisk.
func (i Images) isBootable() bool { return i.ISOURL != "" || i.KernelURL != "" && i.RamdiskURL != "" }
