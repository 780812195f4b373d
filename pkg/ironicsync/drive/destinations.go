package drive

import (
	"context"
	"fmt"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

// checkBMC returns why Ironic may not connect to the host's BMC, or nil.
func (c *Controller) checkBMC(ctx context.Context, access bmc.Access) error {
	scheme := access.Scheme
	if access.IsPlainHTTP() {
		scheme += "+http"
	}
	if err := c.settings.BMCs.Check(ctx, scheme, access.Host()); err != nil {
		return fmt.Errorf("spec.bmc.address: %w", err)
	}
	return nil
}

// checkImage returns why Ironic may not fetch the image that the host is to run, or nil.
func (c *Controller) checkImage(ctx context.Context, host *metal3.BareMetalHost) error {
	image := host.Spec.Image
	if image == nil {
		return nil
	}
	if err := c.settings.Images.CheckURL(ctx, image.URL); err != nil {
		return &blocked{"spec.image.url: " + err.Error()}
	}
	if err := c.settings.Images.CheckURL(ctx, image.Checksum); err != nil {
		return &blocked{"spec.image.checksum: " + err.Error()}
	}
	return nil
}

// checkUpdates returns why the BMC may not fetch the firmware of a clean, or nil.
func (c *Controller) checkUpdates(ctx context.Context, clean *settings.Clean) error {
	for _, update := range clean.FirmwareUpdates {
		if err := c.settings.Images.CheckURL(ctx, update.URL); err != nil {
			return &blocked{fmt.Sprintf("HostFirmwareComponents, update of %s: %s", update.Component, err)}
		}
	}
	return nil
}
