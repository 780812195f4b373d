// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/redact"
)

// nodeWriter creates, changes and deletes nodes.
type nodeWriter struct{ *connection }

// CreateNode makes a node.
func (c nodeWriter) CreateNode(ctx context.Context, fence ironic.Fence, create ironic.NodeCreate) (*ironic.Node, error) {
	r := request{
		op: "CreateNode", text: "create node " + cmp.Or(create.Name, create.UUID), class: writes, method: http.MethodPost, path: "nodes", fence: fence,
		secrets: slices.Concat(redact.SecretsIn(create.DriverInfo), redact.SecretsIn(create.InstanceInfo), redact.TextsOf(create.NetworkData)),
	}
	r.build = func(features ironic.Features) (url.Values, any, error) {
		body := create
		if !features.Firmware {
			body.FirmwareInterface = ""
		}
		if !features.DisablePowerOff && body.DisablePowerOff != nil {
			if *body.DisablePowerOff {
				return nil, nil, tooOld(r.text, "disable_power_off", ironic.DisablePowerOffSince, features)
			}
			body.DisablePowerOff = nil
		}
		return nil, body, nil
	}
	return c.writeNode(ctx, r)
}

// UpdateNode changes a node and returns it as it is then. Changing the driver
// sets the interfaces back to the new driver's defaults, except those that are
// in the same patch.
func (c nodeWriter) UpdateNode(ctx context.Context, fence ironic.Fence, idOrName string, patches []ironic.Patch) (*ironic.Node, error) {
	steps := jsonPatch(patches)
	var query url.Values
	var secrets []string
	for _, p := range patches {
		if p.Path == "/driver" {
			query = url.Values{"reset_interfaces": {"True"}}
		}
		secrets = append(secrets, secretsOf(p)...)
	}
	return c.writeNode(ctx, request{
		op: "UpdateNode", text: "update node " + idOrName, class: writes, method: http.MethodPatch, path: nodePath(idOrName), fence: fence,
		secrets: secrets,
		build: func(features ironic.Features) (url.Values, any, error) {
			if features.Quirks.PatchMakesOwnParent {
				return query, append(slices.Clip(steps), ownPowerSupply), nil
			}
			return query, steps, nil
		},
	})
}

// jsonPatch returns patches as they are sent.
func jsonPatch(patches []ironic.Patch) []map[string]any {
	steps := make([]map[string]any, 0, len(patches))
	for _, p := range patches {
		step := map[string]any{"op": p.Op, "path": p.Path}
		if p.Op != ironic.PatchRemove {
			step["value"] = p.Value
		}
		steps = append(steps, step)
	}
	return steps
}

// secretsOf returns what must not be shown of a step of a patch.
func secretsOf(p ironic.Patch) []string {
	part, key, _ := strings.Cut(strings.TrimPrefix(p.Path, "/"), "/")
	switch info, whole := p.Value.(map[string]any); {
	case part == "network_data":
		return redact.TextsOf(p.Value)
	case whole:
		return redact.SecretsIn(info)
	default:
		return redact.SecretsIn(map[string]any{key: p.Value})
	}
}

// ownPowerSupply goes with each patch where Quirks.PatchMakesOwnParent is set.
var ownPowerSupply = map[string]any{"op": ironic.PatchAdd, "path": "/driver_info/" + ironic.PowerSupplyKey, "value": true}

func (c nodeWriter) writeNode(ctx context.Context, r request) (*ironic.Node, error) {
	node := &ironic.Node{}
	r.into = node
	if err := c.do(ctx, r); err != nil {
		return nil, err
	}
	node.DropConcealed()
	return node, nil
}

// DeleteNode removes a node. Beware: a node in maintenance is removed from any
// state, deployed ones included.
func (c nodeWriter) DeleteNode(ctx context.Context, fence ironic.Fence, idOrName string) error {
	return c.do(ctx, request{
		op: "DeleteNode", text: "delete node " + idOrName, class: writes, method: http.MethodDelete, path: nodePath(idOrName), fence: fence,
	})
}

// tooOld refuses what this Ironic cannot do. since is what has brought it.
func tooOld(op, what, since string, features ironic.Features) error {
	return &ironic.APIError{Op: op, Status: http.StatusBadRequest,
		Message: fmt.Sprintf("%s needs Ironic %s, this Ironic offers %s", what, since, features.APIVersion)}
}
