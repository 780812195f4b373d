// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/redact"
)

// nodeManagement is what Ironic calls node management: states, maintenance, consoles, and what BMCs are asked for.
type nodeManagement struct{ *connection }

// SetMaintenance puts a node into maintenance. Beware: Ironic then lets it be
// deleted in any state.
func (c nodeManagement) SetMaintenance(ctx context.Context, fence ironic.Fence, idOrName, reason string) error {
	return c.ask(ctx, fence, "SetMaintenance", "set maintenance", writes, http.MethodPut, idOrName,
		func(ctx context.Context, sc *gophercloud.ServiceClient, id string) error {
			return nodes.SetMaintenance(ctx, sc, id, nodes.MaintenanceOpts{Reason: reason}).ExtractErr()
		})
}

// ClearMaintenance takes a node out of maintenance, and clears its fault.
func (c nodeManagement) ClearMaintenance(ctx context.Context, fence ironic.Fence, idOrName string) error {
	return c.ask(ctx, fence, "ClearMaintenance", "clear maintenance", writes, http.MethodDelete, idOrName,
		func(ctx context.Context, sc *gophercloud.ServiceClient, id string) error {
			return nodes.UnsetMaintenance(ctx, sc, id).ExtractErr()
		})
}

// GetBootDevice asks the BMC what the machine boots from. Ironic locks the node meanwhile.
func (c nodeManagement) GetBootDevice(ctx context.Context, uuid string) (*ironic.BootDevice, error) {
	var answer struct {
		Device     *string `json:"boot_device"`
		Persistent *bool   `json:"persistent"`
	}
	err := c.ask(ctx, ironic.Fence{}, "GetBootDevice", "get boot device", actions, http.MethodGet, uuid,
		func(ctx context.Context, sc *gophercloud.ServiceClient, id string) error {
			// Either value may be null, which the Extract of gophercloud cannot tell.
			return nodes.GetBootDevice(ctx, sc, id).ExtractInto(&answer)
		})
	if err != nil {
		return nil, err
	}
	device := &ironic.BootDevice{Persistent: answer.Persistent}
	if answer.Device != nil {
		device.Device = *answer.Device
	}
	return device, nil
}

// GetSupportedBootDevices returns what the driver of the node can boot from. The BMC is not asked.
func (c nodeManagement) GetSupportedBootDevices(ctx context.Context, uuid string) (devices []string, err error) {
	err = c.ask(ctx, ironic.Fence{}, "GetSupportedBootDevices", "get supported boot devices", reads, http.MethodGet, uuid,
		func(ctx context.Context, sc *gophercloud.ServiceClient, id string) (err error) {
			devices, err = nodes.GetSupportedBootDevices(ctx, sc, id).Extract()
			return err
		})
	return devices, err
}

// SetBootDevice has the BMC set what the machine boots from, which must be one of the supported
// devices: for others, Ironic 29.0 answers with an internal error.
func (c nodeManagement) SetBootDevice(ctx context.Context, fence ironic.Fence, uuid, device string, persistent bool) error {
	return c.ask(ctx, fence, "SetBootDevice", "set boot device", actions, http.MethodPut, uuid,
		func(ctx context.Context, sc *gophercloud.ServiceClient, id string) error {
			return nodes.SetBootDevice(ctx, sc, id, nodes.BootDeviceOpts{BootDevice: device, Persistent: persistent}).ExtractErr()
		})
}

// InjectNMI has the BMC send a non-maskable interrupt.
func (c nodeManagement) InjectNMI(ctx context.Context, fence ironic.Fence, uuid string) error {
	return c.ask(ctx, fence, "InjectNMI", "inject NMI", actions, http.MethodPut, uuid,
		func(ctx context.Context, sc *gophercloud.ServiceClient, id string) error {
			return nodes.InjectNMI(ctx, sc, id).ExtractErr()
		})
}

// ask makes a request about a node by a function of gophercloud, which is given the ID in the
// form for URLs. fence and class are as in request.
func (c *connection) ask(ctx context.Context, fence ironic.Fence, op, text string, class class, method, idOrName string, call func(context.Context, *gophercloud.ServiceClient, string) error) error {
	return c.do(ctx, request{
		op: op, text: text + " of node " + idOrName, class: class, method: method, path: nodePath(idOrName), fence: fence,
		call: func(ctx context.Context, sc *gophercloud.ServiceClient) error {
			return call(ctx, sc, url.PathEscape(idOrName))
		},
	})
}

// ListIndicators asks the BMC for the lights of the machine.
func (c nodeManagement) ListIndicators(ctx context.Context, uuid string) ([]ironic.Indicator, error) {
	var answer struct {
		Indicators []ironic.Indicator `json:"indicators"`
	}
	err := c.do(ctx, request{
		op: "ListIndicators", text: "list indicators of node " + uuid, class: actions, method: http.MethodGet, path: nodePath(uuid, "management", "indicators"),
		into: &answer,
	})
	return answer.Indicators, err
}

// GetIndicator asks the BMC for the state of a light: on, off or blinking. Ironic locks the node
// meanwhile.
func (c nodeManagement) GetIndicator(ctx context.Context, uuid, id string) (state string, err error) {
	var answer struct {
		State string `json:"state"`
	}
	err = c.do(ctx, request{
		op: "GetIndicator", text: "get indicator " + id + " of node " + uuid, class: actions, method: http.MethodGet,
		path: nodePath(uuid, "management", "indicators", url.PathEscape(id)), into: &answer,
	})
	return strings.ToLower(answer.State), err
}

// SetIndicator has the BMC switch a light. The state must be one of the light's: for others,
// Ironic answers with an internal error.
func (c nodeManagement) SetIndicator(ctx context.Context, fence ironic.Fence, uuid, id, state string) error {
	return c.do(ctx, request{
		op: "SetIndicator", text: "set indicator " + id + " of node " + uuid, class: actions, method: http.MethodPut,
		path: nodePath(uuid, "management", "indicators", url.PathEscape(id)), fence: fence,
		build: func(ironic.Features) (url.Values, any, error) { return nil, map[string]string{"state": state}, nil },
	})
}

// Verdicts asks Ironic whether what it knows of a node suffices for each interface of the
// driver, without contacting the BMC. Ironic asks the image server for the image of the node.
func (c nodeManagement) Verdicts(ctx context.Context, uuid string) ([]ironic.InterfaceVerdict, error) {
	return c.validate(ctx, uuid, actions)
}

func (c nodeManagement) validate(ctx context.Context, uuid string, class class) ([]ironic.InterfaceVerdict, error) {
	var answer map[string]struct {
		Result *bool  `json:"result"`
		Reason string `json:"reason"`
	}
	err := c.do(ctx, request{
		op: "Validate", text: "validate node " + uuid, class: class, method: http.MethodGet, path: nodePath(uuid, "validate"), into: &answer,
	})
	if err != nil {
		return nil, err
	}
	verdicts := make([]ironic.InterfaceVerdict, 0, len(answer))
	for name, v := range answer {
		verdicts = append(verdicts, ironic.InterfaceVerdict{Interface: name, Result: v.Result, Reason: v.Reason})
	}
	reasons := make([]*string, 0, len(verdicts))
	for i := range verdicts {
		reasons = append(reasons, &verdicts[i].Reason)
	}
	redact.Texts(ctx, reasons)
	slices.SortFunc(verdicts, func(a, b ironic.InterfaceVerdict) int { return strings.Compare(a.Interface, b.Interface) })
	return verdicts, nil
}

// Validate returns what keeps Ironic from an operation of the given interfaces ("boot",
// "deploy"), in Ironic's words; nothing when all is well.
func (c nodeManagement) Validate(ctx context.Context, uuid string, interfaces ...string) ([]string, error) {
	verdicts, err := c.validate(ctx, uuid, deployments)
	var wrong []string
	for _, name := range interfaces {
		for _, v := range verdicts {
			if v.Interface == name && v.Result != nil && !*v.Result {
				wrong = append(wrong, name+": "+v.Reason)
			}
		}
	}
	return wrong, err
}
