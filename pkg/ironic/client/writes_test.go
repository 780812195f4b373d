// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// What is sent for each write, as Ironic's API reference has it.
func TestWrites(t *testing.T) {
	const id = "11111111-0000-4000-8000-000000000001"
	yes, no := true, false
	for name, test := range map[string]struct {
		minor  int // newest when 0
		do     func(context.Context, *Client) error
		method string
		path   string
		query  string
		body   string
		status int
		answer string
	}{
		"power on": {
			do: func(ctx context.Context, c *Client) error {
				_, _, err := c.SwitchPower(ctx, ironic.NoFence, id, ironic.TargetPowerOn)
				return err
			},
			method: "PUT", path: "/v1/nodes/" + id + "/states/power", body: `{"target":"power on"}`, status: 202,
		},
		"manage": {
			do: func(ctx context.Context, c *Client) error {
				return c.SetProvisionState(ctx, ironic.NoFence, "metal3~a", ironic.TargetManage, ironic.ProvisionOptions{})
			},
			method: "PUT", path: "/v1/nodes/metal3~a/states/provision", body: `{"target":"manage"}`, status: 202,
		},
		"clean": {
			do: func(ctx context.Context, c *Client) error {
				return c.SetProvisionState(ctx, ironic.NoFence, id, "clean", ironic.ProvisionOptions{
					CleanSteps: []ironic.StepRequest{{Interface: "raid", Step: "delete_configuration"}},
				})
			},
			method: "PUT", path: "/v1/nodes/" + id + "/states/provision", status: 202,
			body: `{"target":"clean","clean_steps":[{"interface":"raid","step":"delete_configuration"}]}`,
		},
		"deploy": {
			do: func(ctx context.Context, c *Client) error {
				return c.SetProvisionState(ctx, ironic.NoFence, id, "active", ironic.ProvisionOptions{
					ConfigDrive: map[string]any{"user_data": "#cloud-config"},
				})
			},
			method: "PUT", path: "/v1/nodes/" + id + "/states/provision", status: 202,
			body: `{"target":"active","configdrive":{"user_data":"#cloud-config"}}`,
		},
		"maintenance": {
			do: func(ctx context.Context, c *Client) error {
				return c.SetMaintenance(ctx, ironic.NoFence, id, "because")
			},
			method: "PUT", path: "/v1/nodes/" + id + "/maintenance", body: `{"reason":"because"}`, status: 202,
		},
		"out of maintenance": {
			do:     func(ctx context.Context, c *Client) error { return c.ClearMaintenance(ctx, ironic.NoFence, id) },
			method: "DELETE", path: "/v1/nodes/" + id + "/maintenance", status: 202,
		},
		"delete": {
			do:     func(ctx context.Context, c *Client) error { return c.DeleteNode(ctx, ironic.NoFence, id) },
			method: "DELETE", path: "/v1/nodes/" + id, status: 204,
		},
		"update": {
			do: func(ctx context.Context, c *Client) error {
				n, err := c.UpdateNode(ctx, ironic.NoFence, id, []ironic.Patch{
					{Op: ironic.PatchAdd, Path: "/name", Value: "metal3~b"},
					{Op: ironic.PatchAdd, Path: "/automated_clean", Value: nil},
					{Op: ironic.PatchRemove, Path: "/extra/x", Value: "not sent"},
				})
				if err == nil && n.Name != "metal3~b" {
					t.Errorf("returned %+v", n)
				}
				return err
			},
			method: "PATCH", path: "/v1/nodes/" + id, status: 200, answer: `{"name":"metal3~b"}`,
			body: `[{"op": "add","path":"/name","value":"metal3~b"},{"op":"add","path":"/automated_clean","value":null},{"op":"remove","path":"/extra/x"}]`,
		},
		"update of a node that Ironic makes its own parent": {
			minor: 96,
			do: func(ctx context.Context, c *Client) error {
				_, err := c.UpdateNode(ctx, ironic.NoFence, id, []ironic.Patch{{Op: ironic.PatchAdd, Path: "/driver_info", Value: map[string]any{"ipmi_address": "bmc"}}})
				return err
			},
			method: "PATCH", path: "/v1/nodes/" + id, status: 200, answer: `{}`,
			body: `[{"op": "add","path":"/driver_info","value":{"ipmi_address":"bmc"}},{"op":"add","path":"/driver_info/has_dedicated_power_supply","value":true}]`,
		},
		"update with an old Ironic": {
			minor: 82,
			do: func(ctx context.Context, c *Client) error {
				_, err := c.UpdateNode(ctx, ironic.NoFence, id, []ironic.Patch{{Op: ironic.PatchAdd, Path: "/driver_info", Value: map[string]any{"ipmi_address": "bmc"}}})
				return err
			},
			method: "PATCH", path: "/v1/nodes/" + id, status: 200, answer: `{}`,
			body: `[{"op": "add","path":"/driver_info","value":{"ipmi_address":"bmc"}}]`,
		},
		"another driver": {
			do: func(ctx context.Context, c *Client) error {
				_, err := c.UpdateNode(ctx, ironic.NoFence, id, []ironic.Patch{{Op: ironic.PatchAdd, Path: "/driver", Value: "redfish"}})
				return err
			},
			method: "PATCH", path: "/v1/nodes/" + id, query: "reset_interfaces=True", status: 200, answer: `{}`,
			body: `[{"op": "add","path":"/driver","value":"redfish"}]`,
		},
		"create": {
			do: func(ctx context.Context, c *Client) error {
				_, err := c.CreateNode(ctx, ironic.NoFence, ironic.NodeCreate{
					UUID: id, Name: "metal3~a", Driver: "redfish", DriverInfo: map[string]any{"redfish_address": "https://bmc"},
					FirmwareInterface: "redfish", AutomatedClean: &no, DisablePowerOff: &yes,
				})
				return err
			},
			method: "POST", path: "/v1/nodes", status: 201, answer: `{"uuid":"` + id + `"}`,
			body: `{"uuid":"` + id + `","name":"metal3~a","driver":"redfish","driver_info":{"redfish_address":"https://bmc"},` +
				`"firmware_interface":"redfish","automated_clean":false,"disable_power_off":true}`,
		},
		"create with an old Ironic": {
			minor: 82,
			do: func(ctx context.Context, c *Client) error {
				_, err := c.CreateNode(ctx, ironic.NoFence, ironic.NodeCreate{
					UUID: id, Driver: "redfish", FirmwareInterface: "redfish", DisablePowerOff: &no,
				})
				return err
			},
			method: "POST", path: "/v1/nodes", status: 201, answer: `{"uuid":"` + id + `"}`,
			body: `{"uuid":"` + id + `","driver":"redfish"}`,
		},
		"create port": {
			do: func(ctx context.Context, c *Client) error {
				p, err := c.CreatePort(ctx, ironic.NoFence, id, "52:54:00:AA:00:01", true)
				if err == nil && p.UUID != "p" {
					t.Errorf("returned %+v", p)
				}
				return err
			},
			method: "POST", path: "/v1/ports", status: 201, answer: `{"uuid":"p"}`,
			body: `{"node_uuid":"` + id + `","address":"52:54:00:aa:00:01","pxe_enabled":true}`,
		},
		"ports of a node": {
			do: func(ctx context.Context, c *Client) error {
				ports, err := c.ListPorts(ctx, ironic.PortFilter{Node: "metal3~a"})
				if diff := cmp.Diff([]ironic.Port{{UUID: "p", NodeUUID: id, Address: "52:54:00:aa:00:01"}}, ports); err == nil && diff != "" {
					t.Errorf("-want +got\n%s", diff)
				}
				return err
			},
			method: "GET", path: "/v1/ports", query: "fields=uuid%2Cnode_uuid%2Caddress&limit=1000&node=metal3~a", status: 200,
			answer: `{"ports":[{"uuid":"p","node_uuid":"` + id + `","address":"52:54:00:aa:00:01","links":[]}]}`,
		},
		"switch ports of a node": {
			do: func(ctx context.Context, c *Client) error {
				ports, err := c.ListSwitchPorts(ctx, id)
				want := []ironic.SwitchPort{{UUID: "p", Address: "52:54:00:aa:00:01", Extra: map[string]any{"a": "b"}, Link: map[string]any{"port_id": "1"}, PXEEnabled: true}}
				if diff := cmp.Diff(want, ports); err == nil && diff != "" {
					t.Errorf("-want +got\n%s", diff)
				}
				return err
			},
			method: "GET", path: "/v1/ports", query: "fields=uuid%2Caddress%2Cextra%2Clocal_link_connection%2Cpxe_enabled&limit=1000&node=" + id, status: 200,
			answer: `{"ports":[{"uuid":"p","address":"52:54:00:aa:00:01","extra":{"a":"b"},"local_link_connection":{"port_id":"1"},"pxe_enabled":true}]}`,
		},
		"update port": {
			do: func(ctx context.Context, c *Client) error {
				return c.UpdatePort(ctx, ironic.NoFence, "p", []ironic.Patch{{Op: ironic.PatchAdd, Path: "/extra/a", Value: 1}, {Op: ironic.PatchRemove, Path: "/extra/b"}})
			},
			method: "PATCH", path: "/v1/ports/p", status: 200, answer: `{}`,
			body: `[{"op":"add","path":"/extra/a","value":1},{"op":"remove","path":"/extra/b"}]`,
		},
		"port of an address": {
			do: func(ctx context.Context, c *Client) error {
				_, err := c.ListPorts(ctx, ironic.PortFilter{Address: "52:54:00:AA:00:01"})
				return err
			},
			method: "GET", path: "/v1/ports", query: "address=52%3A54%3A00%3Aaa%3A00%3A01&fields=uuid%2Cnode_uuid%2Caddress&limit=1000",
			status: 200, answer: `{"ports":[]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if test.minor == 0 {
				test.minor = newestMinor
			}
			f := newFake(t, test.minor, answer(test.status, test.answer))
			if err := test.do(t.Context(), f.client()); err != nil {
				t.Fatal(err)
			}
			got := f.last()
			if got.Method != test.method || got.Path != test.path || got.Query != test.query {
				t.Errorf("asked %s %s?%s, want %s %s?%s", got.Method, got.Path, got.Query, test.method, test.path, test.query)
			}
			if diff := cmp.Diff(decoded(t, test.body), decoded(t, got.Body)); diff != "" {
				t.Errorf("body: -want +got\n%s", diff)
			}
		})
	}
}

func TestDisablePowerOffNeedsNewIronic(t *testing.T) {
	yes := true
	f := newFake(t, 94, answer(201, "{}"))
	_, err := f.client().CreateNode(t.Context(), ironic.NoFence, ironic.NodeCreate{Name: "a", DisablePowerOff: &yes})
	if want := "create node a: disable_power_off needs Ironic API 1.95, this Ironic offers 1.94 (HTTP 400)"; !ironic.IsBadRequest(err) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if len(f.requests()) > 0 {
		t.Error("created it all the same")
	}
}

func decoded(t *testing.T, body string) any {
	t.Helper()
	if body == "" {
		return nil
	}
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return v
}

// TestFence checks that what changes something is not sent if its fence refuses it or was forgotten, and
// that reads are.
func TestFence(t *testing.T) {
	f := newFake(t, 94, answer(202, ""))
	c := f.client()
	leads := true
	fence := ironic.Fence{Term: func() bool { return leads }}
	if err := c.SetMaintenance(t.Context(), fence, "metal3~a", "because"); err != nil {
		t.Fatal(err)
	}
	leads = false
	if err := c.SetMaintenance(t.Context(), fence, "metal3~a", "because"); !errors.Is(err, ironic.ErrNotLeading) || ironic.IsUnavailable(err) {
		t.Errorf("when another replica may lead: got %v", err)
	}
	if err := c.SetMaintenance(t.Context(), ironic.Fence{}, "metal3~a", "because"); err == nil || ironic.IsUnavailable(err) {
		t.Errorf("without a fence: got %v", err)
	}
	writes := slices.DeleteFunc(f.requests(), func(r seenRequest) bool { return r.Method == http.MethodGet })
	if len(writes) != 1 {
		t.Errorf("sent: %+v", writes)
	}
}
