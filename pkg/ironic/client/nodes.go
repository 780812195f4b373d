// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// ownership are fields that each list of fields needs. Ironic applies its policy to the fields that it
// returns: without them, a user of the project that owns a node is nobody to Ironic 29.0, which conceals
// last_error, reservation, driver_info and driver_internal_info from such a user.
const ownership = "owner,lessee,"

// statusFields are the fields of Node. "conductor" and "links" must not be in
// it: Ironic answers 500 to a LIST that asks for them.
const statusFields = ownership + "uuid,name,driver,power_state,target_power_state," +
	"provision_state,target_provision_state,provision_updated_at," +
	"last_error,maintenance,maintenance_reason,fault,reservation,instance_uuid,extra,driver_info,automated_clean," +
	"inspection_started_at,inspection_finished_at,clean_step,deploy_step,driver_internal_info,raid_config"

// queryOfStatus asks for the fields of Node; an unknown one is refused with 406.
func queryOfStatus(features ironic.Features) url.Values {
	fields := statusFields
	if features.ParentNodes {
		fields += ",parent_node"
	}
	if features.Servicing {
		fields += ",service_step"
	}
	if features.Health {
		fields += ",health"
	}
	return url.Values{"fields": {fields}}
}

func nodePath(idOrName string, more ...string) string {
	return "nodes/" + strings.Join(append([]string{url.PathEscape(idOrName)}, more...), "/")
}

// nodeReader reads what Ironic's database has of nodes.
type nodeReader struct {
	*connection
	damaged damaged
}

// GetNode reads one node by UUID or name. It takes no lock and does not contact
// the BMC.
func (c *nodeReader) GetNode(ctx context.Context, idOrName string) (*ironic.Node, error) {
	return c.getNode(ctx, idOrName, queryOfStatus)
}

// getNode reads one node, in the form that the query asks for.
func (c *nodeReader) getNode(ctx context.Context, idOrName string, query func(ironic.Features) url.Values) (*ironic.Node, error) {
	node := &nodeAnswer{}
	err := c.do(ctx, request{
		op: "GetNode", text: "get node " + idOrName, class: reads, method: http.MethodGet, path: nodePath(idOrName),
		build: func(features ironic.Features) (url.Values, any, error) { return query(features), nil, nil },
		into:  node,
	})
	if err != nil {
		return nil, err
	}
	c.damaged.forget(node.UUID)
	return &node.Node, nil
}

// GetRegistration reads what Ironic was told of a node.
func (c *nodeReader) GetRegistration(ctx context.Context, uuid string) (*ironic.Registration, error) {
	registration := &ironic.Registration{}
	err := c.do(ctx, request{
		op: "GetRegistration", text: "get registration of node " + uuid, class: reads, method: http.MethodGet, path: nodePath(uuid),
		build: func(features ironic.Features) (url.Values, any, error) {
			fields := ownership + "driver_info,extra,properties,automated_clean,inspect_interface,deploy_interface,boot_interface,raid_interface,network_interface,instance_info,instance_uuid,network_data,conductor_group"
			if features.DisablePowerOff {
				fields += ",disable_power_off"
			}
			return url.Values{"fields": {fields}}, nil, nil
		},
		into: registration,
	})
	if err != nil {
		return nil, err
	}
	return registration, nil
}

// nodeAnswer is the answer to a read or a write of one node.
type nodeAnswer struct{ ironic.Node }

func (a *nodeAnswer) received(date time.Time) {
	a.AnsweredAt = date
	a.DropConcealed()
}

// GetInventory reads what the last inspection found; IsNotFound when there was
// none. It can lag behind the end of an inspection for a moment.
func (c *nodeReader) GetInventory(ctx context.Context, uuid string) (*ironic.Inventory, error) {
	inventory := &ironic.Inventory{}
	err := c.do(ctx, request{
		op: "GetInventory", text: "get inventory of node " + uuid, class: reads, method: http.MethodGet,
		path: nodePath(uuid, "inventory"), into: inventory,
	})
	if err != nil {
		return nil, err
	}
	return inventory, nil
}

// ListBIOSSettings returns the settings of a node's BIOS, as Ironic has stored them: it reads them
// from the BMC when it verifies, cleans or services the node. The list is empty if the driver
// cannot read them.
func (c *nodeReader) ListBIOSSettings(ctx context.Context, uuid string) ([]ironic.BIOSSetting, error) {
	var answer struct {
		Settings []ironic.BIOSSetting `json:"bios"`
	}
	err := c.do(ctx, request{
		op: "ListBIOSSettings", text: "list BIOS settings of node " + uuid, class: reads, method: http.MethodGet, path: nodePath(uuid, "bios"),
		build: func(ironic.Features) (url.Values, any, error) { return url.Values{"detail": {"True"}}, nil, nil },
		into:  &answer,
	})
	return answer.Settings, err
}

// ListFirmware returns the firmware of a node, as Ironic has stored it: it reads the versions from
// the BMC when it verifies, cleans or services the node. It needs Features.Firmware.
func (c *nodeReader) ListFirmware(ctx context.Context, uuid string) ([]ironic.FirmwareComponent, error) {
	var answer struct {
		Components []ironic.FirmwareComponent `json:"firmware"`
	}
	err := c.do(ctx, request{
		op: "ListFirmware", text: "list firmware of node " + uuid, class: reads, method: http.MethodGet, path: nodePath(uuid, "firmware"), into: &answer,
	})
	return answer.Components, err
}
