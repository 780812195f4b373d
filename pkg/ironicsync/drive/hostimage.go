package drive

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
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

func (c *Controller) imageOf(host *metal3.BareMetalHost) *lifecycle.Image {
	if c.hostImages == nil {
		return nil
	}
	return c.hostImages.Of(host, c.secrets.NetworkVersion(host))
}

// chooseRamdisk sets what the node boots for inspection, cleaning and deployment. A host with an image of
// its own that asks for none now, or whose image is not ready, keeps what its node has.
func (c *Controller) chooseRamdisk(ctx context.Context, host *metal3.BareMetalHost, access bmc.Access, wanted *wantedNode) error {
	image := c.imageOf(host)
	switch {
	case image == nil:
		wanted.ramdisk = deploy.DriverInfo(host, access, c.settings.Ramdisk)
	case image.Built == nil || !lifecycle.AsksForImage(host):
		wanted.ramdisk, wanted.keepsImage = deploy.DriverInfo(host, access, c.settings.Ramdisk.WithoutImages()), true
		if with := host.Status.RegisteredWith; with != nil {
			wanted.image = with.Image
		}
	default:
		if err := c.checkHostImage(ctx, host, image.Built); err != nil {
			return err
		}
		wanted.ramdisk, wanted.image = deploy.DriverInfo(host, access, c.settings.Ramdisk.With(*image.Built)), image.Digest()
	}
	return nil
}

// unusableImage is a ramdisk image that Ironic must not be told.
type unusableImage struct{ message string }

func (e *unusableImage) Error() string { return e.message }

// checkHostImage returns why Ironic may not boot an image that somebody has written into the status of a
// PreprovisioningImage. The images of the settings are allowed anyway.
func (c *Controller) checkHostImage(ctx context.Context, host *metal3.BareMetalHost, built *deploy.HostImage) error {
	own := c.settings.Ramdisk.ImagesFor(deploy.Architecture(host))
	for _, field := range []struct{ name, url string }{{"imageUrl", built.URL}, {"kernelUrl", built.KernelURL}} {
		if field.url == "" || field.url == own.ISOURL || field.url == own.RamdiskURL || field.url == own.KernelURL {
			continue
		}
		parsed, err := url.Parse(field.url)
		if err == nil && parsed.Scheme != "http" && parsed.Scheme != "https" {
			err = fmt.Errorf("it is not an http or https URL")
		}
		if err == nil {
			err = c.settings.Images.CheckURL(ctx, field.url)
		}
		if err != nil {
			return &unusableImage{fmt.Sprintf("PreprovisioningImage %s: status.%s: %s", host.Name, field.name, err)}
		}
	}
	if strings.ContainsAny(built.KernelParams, "\r\n\x00") {
		return &unusableImage{fmt.Sprintf("PreprovisioningImage %s: status.extraKernelParams has a line break", host.Name)}
	}
	return nil
}

// awaitImage records what the host's image waits for, or that the host does not wait any more.
func (c *Controller) awaitImage(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, step lifecycle.Step) (outcome, error) {
	host, err := c.recorded(ctx, host, node, func(h *metal3.BareMetalHost) { lifecycle.SetAwaitedImage(h, step.Message, time.Now()) })
	if err != nil {
		return waitForEvent, err
	}
	return planAgainWith(host, node), nil
}
