// SPDX-License-Identifier: Apache-2.0

package registrar

import (
	"context"
	"fmt"
	"strings"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/weburl"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// HostImages knows the ramdisk images that are built for single hosts.
type HostImages interface {
	// Of returns what is known of the image of a host, whose network data has the given version; nil if
	// all hosts boot the images of the settings.
	Of(host *metal3.BareMetalHost, networkVersion string) *lifecycle.Image
}

// ImageOf returns what is known of the ramdisk image of a host; nil if all hosts boot the images of the
// settings.
func (r *Registrar) ImageOf(host *metal3.BareMetalHost) *lifecycle.Image {
	return r.requirements.imageOf(host)
}

func (r *requirements) imageOf(host *metal3.BareMetalHost) *lifecycle.Image {
	if r.images == nil {
		return nil
	}
	return r.images.Of(host, r.secrets.NetworkVersion(host))
}

// chooseRamdisk sets what the node boots for inspection, cleaning and deployment. A host with an image of
// its own that asks for none now, or whose image is not ready, keeps what its node has.
func (r *requirements) chooseRamdisk(ctx context.Context, host *metal3.BareMetalHost, access bmc.Access, wanted *wantedNode) error {
	image := r.imageOf(host)
	switch {
	case image == nil:
		wanted.ramdisk = deploy.DriverInfo(host, access, r.settings.Ramdisk)
	case image.Built == nil || !lifecycle.AsksForImage(host):
		wanted.ramdisk, wanted.keepsImage = deploy.DriverInfo(host, access, r.settings.Ramdisk.WithoutImages()), true
		if with := host.Status.Record.RegisteredWith; with != nil {
			wanted.image = with.Image
		}
	default:
		if err := r.checkHostImage(ctx, host, image.Built); err != nil {
			return err
		}
		wanted.ramdisk, wanted.image = deploy.DriverInfo(host, access, r.settings.Ramdisk.With(*image.Built)), image.Digest()
	}
	return nil
}

// checkHostImage returns why Ironic may not boot an image that somebody has written into the status of a
// PreprovisioningImage. The images of the settings are allowed anyway.
func (r *requirements) checkHostImage(ctx context.Context, host *metal3.BareMetalHost, built *deploy.HostImage) error {
	own := r.settings.Ramdisk.ImagesFor(deploy.Architecture(host))
	for _, field := range []struct{ name, url string }{{"imageUrl", built.URL}, {"kernelUrl", built.KernelURL}} {
		if field.url == "" || field.url == own.ISOURL || field.url == own.RamdiskURL || field.url == own.KernelURL {
			continue
		}
		_, err := weburl.Parse(field.url, weburl.Web)
		if err == nil {
			err = r.settings.Images.CheckURL(ctx, field.url)
		}
		if err != nil {
			return &problem{metal3.ImageNotBuiltReason, fmt.Sprintf("PreprovisioningImage %s: status.%s: %s", host.Name, field.name, err)}
		}
	}
	if strings.ContainsAny(built.KernelParams, "\r\n\x00") {
		return &problem{metal3.ImageNotBuiltReason, fmt.Sprintf("PreprovisioningImage %s: status.extraKernelParams has a line break", host.Name)}
	}
	return nil
}
