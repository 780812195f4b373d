package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/redact"
)

// CreateNode makes a node.
func (c *Client) CreateNode(ctx context.Context, create ironic.NodeCreate) (*ironic.Node, error) {
	r := request{
		op: "CreateNode", text: "create node " + firstOf(create.Name, create.UUID), method: http.MethodPost, path: "nodes",
		secrets: slices.Concat(redact.SecretsIn(create.DriverInfo), redact.SecretsIn(create.InstanceInfo), redact.TextsOf(create.NetworkData)),
	}
	r.build = func(v Version) (url.Values, any, error) {
		body := create
		if !v.atLeast(minorFirmwareInterface) {
			body.FirmwareInterface = ""
		}
		if !v.atLeast(minorDisablePowerOff) && body.DisablePowerOff != nil {
			if *body.DisablePowerOff {
				return nil, nil, needsVersion(r.text, "disable_power_off", minorDisablePowerOff, v)
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
func (c *Client) UpdateNode(ctx context.Context, idOrName string, patches []ironic.Patch) (*ironic.Node, error) {
	if idOrName == "" {
		return nil, errEmptyID
	}
	steps := make([]map[string]any, 0, len(patches))
	var query url.Values
	var secrets []string
	for _, p := range patches {
		step := map[string]any{"op": p.Op, "path": p.Path}
		if p.Op != ironic.PatchRemove {
			step["value"] = p.Value
		}
		steps = append(steps, step)
		if p.Path == "/driver" {
			query = url.Values{"reset_interfaces": {"True"}}
		}
		secrets = append(secrets, secretsOf(p)...)
	}
	return c.writeNode(ctx, request{
		op: "UpdateNode", text: "update node " + idOrName, method: http.MethodPatch, path: nodePath(idOrName),
		secrets: secrets,
		build: func(v Version) (url.Values, any, error) {
			if v.atLeast(minorParentNode) && !v.atLeast(minorPatchMended) {
				return query, append(slices.Clip(steps), ownPowerSupply), nil
			}
			return query, steps, nil
		},
	})
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

// ownPowerSupply goes with each patch. Ironic 29.0.5 makes a node its own
// parent with any PATCH (39.0 does not), and there is no way back through the
// API. A parent is switched together with its child, so each power action would
// fail with the node locked by itself, unless the child has a power supply of
// its own; without a parent the entry means nothing.
var ownPowerSupply = map[string]any{"op": ironic.PatchAdd, "path": "/driver_info/has_dedicated_power_supply", "value": true}

// minorPatchMended is the first microversion known to be without that.
const minorPatchMended = 115

func (c *Client) writeNode(ctx context.Context, r request) (*ironic.Node, error) {
	node := &ironic.Node{}
	r.into = node
	if err := c.do(ctx, r); err != nil {
		return nil, err
	}
	dropConcealed(&node.LastError, &node.Reservation)
	return node, nil
}

// DeleteNode removes a node. Beware: a node in maintenance is removed from any
// state, deployed ones included.
func (c *Client) DeleteNode(ctx context.Context, idOrName string) error {
	if idOrName == "" {
		return errEmptyID
	}
	return c.do(ctx, request{
		op: "DeleteNode", text: "delete node " + idOrName, method: http.MethodDelete, path: nodePath(idOrName),
	})
}

// needsVersion refuses a wish that this Ironic cannot fulfil.
func needsVersion(op, what string, minor int, v Version) error {
	return &ironic.APIError{Op: op, Status: http.StatusBadRequest,
		Message: fmt.Sprintf("%s needs Ironic API 1.%d, this Ironic offers %s", what, minor, v)}
}

func firstOf(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}
