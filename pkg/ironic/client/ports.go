// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// ports are the network interfaces of nodes.
type ports struct{ *connection }

// ListPorts reads the ports that match, in pages.
func (c ports) ListPorts(ctx context.Context, filter ironic.PortFilter) ([]ironic.Port, error) {
	var ports []ironic.Port
	for restarts := 0; ; {
		marker := ""
		if len(ports) > 0 {
			marker = ports[len(ports)-1].UUID
		}
		var page struct {
			Ports []ironic.Port `json:"ports"`
			Next  string        `json:"next"`
		}
		err := c.do(ctx, request{
			op: "ListPorts", text: "list ports", class: reads, method: http.MethodGet, path: "ports",
			build: func(ironic.Features) (url.Values, any, error) {
				query := url.Values{"fields": {"uuid,node_uuid,address"}}
				if filter.Node != "" {
					query.Set("node", filter.Node)
				}
				if filter.Address != "" {
					query.Set("address", strings.ToLower(filter.Address))
				}
				query.Set("limit", strconv.Itoa(listPage))
				if marker != "" {
					query.Set("marker", marker)
				}
				return query, nil, nil
			},
			into: &page,
		})
		if marker != "" && ironic.IsNotFound(err) && restarts < listRestarts {
			restarts++
			ports = nil
			continue
		}
		if err != nil {
			return nil, err
		}
		ports = append(ports, page.Ports...)
		if !more(len(page.Ports), listPage, page.Next) {
			return ports, nil
		}
	}
}

// CreatePort makes a port of a node. A MAC address that any port has already is
// refused as a duplicate.
func (c ports) CreatePort(ctx context.Context, fence ironic.Fence, nodeUUID, mac string, pxeEnabled bool) (*ironic.Port, error) {
	body := struct {
		NodeUUID   string `json:"node_uuid"`
		Address    string `json:"address"`
		PXEEnabled bool   `json:"pxe_enabled"`
	}{nodeUUID, strings.ToLower(mac), pxeEnabled}
	port := &ironic.Port{}
	err := c.do(ctx, request{
		op: "CreatePort", text: "create port " + body.Address + " of node " + nodeUUID, class: writes, method: http.MethodPost, path: "ports", fence: fence,
		build: func(ironic.Features) (url.Values, any, error) { return nil, body, nil },
		into:  port,
	})
	if err != nil {
		return nil, err
	}
	return port, nil
}

// ListSwitchPorts reads the ports of a node with what they are connected to. A node has few ports, so they
// are not read in pages.
func (c ports) ListSwitchPorts(ctx context.Context, nodeUUID string) ([]ironic.SwitchPort, error) {
	if nodeUUID == "" {
		return nil, errEmptyID
	}
	var page struct {
		Ports []ironic.SwitchPort `json:"ports"`
	}
	err := c.do(ctx, request{
		op: "ListSwitchPorts", text: "list ports of node " + nodeUUID, class: reads, method: http.MethodGet, path: "ports",
		build: func(ironic.Features) (url.Values, any, error) {
			return url.Values{"node": {nodeUUID}, "fields": {"uuid,address,extra,local_link_connection,pxe_enabled"}, "limit": {strconv.Itoa(listPage)}}, nil, nil
		},
		into: &page,
	})
	return page.Ports, err
}

// UpdatePort changes a port.
func (c ports) UpdatePort(ctx context.Context, fence ironic.Fence, uuid string, patches []ironic.Patch) error {
	return c.do(ctx, request{
		op: "UpdatePort", text: "update port " + uuid, class: writes, method: http.MethodPatch, path: "ports/" + url.PathEscape(uuid), fence: fence,
		build: func(ironic.Features) (url.Values, any, error) { return nil, jsonPatch(patches), nil },
	})
}
