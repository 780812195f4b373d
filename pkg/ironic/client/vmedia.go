// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// virtualMedia are images in the virtual drives of machines.
type virtualMedia struct{ *connection }

// GetVirtualMedia asks the BMC for the virtual drives of the machine. It needs
// Features.VirtualMedia. Ironic 29.0 locks the node meanwhile.
func (c virtualMedia) GetVirtualMedia(ctx context.Context, uuid string) ([]ironic.VirtualMedia, error) {
	var found []ironic.VirtualMedia
	err := c.do(ctx, request{
		op: "GetVirtualMedia", text: "get virtual media of node " + uuid, class: drives, method: http.MethodGet, path: nodePath(uuid, "vmedia"),
		into: &found,
	})
	return found, err
}

// AttachVirtualMedia has an image put into a virtual CD drive. Success says that Ironic has begun:
// the node is locked until the image is attached, or until last_error says why it is not.
func (c virtualMedia) AttachVirtualMedia(ctx context.Context, fence ironic.Fence, uuid, imageURL string) error {
	return c.do(ctx, request{
		op: "AttachVirtualMedia", text: "attach virtual media to node " + uuid, class: drives, method: http.MethodPost, path: nodePath(uuid, "vmedia"), fence: fence,
		build: func(ironic.Features) (url.Values, any, error) {
			return nil, map[string]string{"device_type": "cdrom", "image_url": imageURL}, nil
		},
	})
}

// DetachVirtualMedia has all virtual CDs ejected. Success says that Ironic has begun.
func (c virtualMedia) DetachVirtualMedia(ctx context.Context, fence ironic.Fence, uuid string) error {
	return c.do(ctx, request{
		op: "DetachVirtualMedia", text: "detach virtual media from node " + uuid, class: drives, method: http.MethodDelete, path: nodePath(uuid, "vmedia"), fence: fence,
		build: func(ironic.Features) (url.Values, any, error) { return url.Values{"device_types": {"cdrom"}}, nil, nil },
	})
}
