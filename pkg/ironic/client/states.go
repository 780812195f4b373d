// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/redact"
)

// SetProvisionState asks for a change of the provision state. Success says that
// Ironic has begun: the outcome shows in the node.
func (c nodeManagement) SetProvisionState(ctx context.Context, fence ironic.Fence, idOrName string, target ironic.ProvisionTarget, options ironic.ProvisionOptions) error {
	body := struct {
		Target ironic.ProvisionTarget `json:"target"`
		ironic.ProvisionOptions
	}{target, options}
	class := writes
	if target == ironic.TargetActive || target == ironic.TargetRebuild {
		class = deployments // Ironic looks for the image before it answers
	}
	return c.put(ctx, fence, "SetProvisionState", "set provision state "+string(target), class, idOrName, "states/provision", body, redact.TextsOf(options.ConfigDrive)...)
}

// SetTargetRAID sets the volumes that the clean step raid.create_configuration makes. The BMC is
// not contacted.
func (c nodeManagement) SetTargetRAID(ctx context.Context, fence ironic.Fence, idOrName string, disks []ironic.LogicalDisk) error {
	return c.put(ctx, fence, "SetTargetRAID", "set target RAID configuration", writes, idOrName, "states/raid", map[string]any{"logical_disks": disks})
}

func (c *connection) put(ctx context.Context, fence ironic.Fence, op, text string, class class, idOrName, path string, body any, secrets ...string) error {
	return c.do(ctx, request{
		op: op, text: text + " of node " + idOrName, class: class, method: http.MethodPut, path: nodePath(idOrName, path), fence: fence,
		secrets: secrets,
		build:   func(ironic.Features) (url.Values, any, error) { return nil, body, nil },
	})
}
