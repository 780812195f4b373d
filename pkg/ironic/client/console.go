// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// GetConsole reports whether the node has a console, and whether it is enabled. It takes no lock
// and does not contact the BMC.
func (c nodeManagement) GetConsole(ctx context.Context, uuid string) (*ironic.Console, error) {
	console := &ironic.Console{}
	err := c.do(ctx, request{
		op: "GetConsole", text: "get the console of node " + uuid, class: reads, method: http.MethodGet, path: nodePath(uuid),
		build: func(ironic.Features) (url.Values, any, error) {
			return url.Values{"fields": {ownership + "console_interface,console_enabled,reservation"}}, nil, nil
		},
		into: console,
	})
	ironic.DropConcealed(&console.Reservation)
	return console, err
}

// GetConsoleInfo returns how to connect to an enabled console; nil if it is not enabled. Beware:
// with ipmitool-socat, Ironic ends the session of whoever is connected, and waits for the BMC.
func (c nodeManagement) GetConsoleInfo(ctx context.Context, uuid string) (*ironic.ConsoleInfo, error) {
	var answer struct {
		Info *ironic.ConsoleInfo `json:"console_info"`
	}
	err := c.do(ctx, request{
		op: "GetConsoleInfo", text: "get the address of the console of node " + uuid, class: actions, method: http.MethodGet, path: nodePath(uuid, "states/console"),
		into: &answer,
	})
	return answer.Info, err
}

// SetConsole asks for the console to be enabled or disabled. Success says that Ironic has begun:
// the outcome shows in GetConsole.
func (c nodeManagement) SetConsole(ctx context.Context, fence ironic.Fence, uuid string, enabled bool) error {
	body := struct {
		Enabled bool `json:"enabled"`
	}{enabled}
	text := "disable the console"
	if enabled {
		text = "enable the console"
	}
	return c.put(ctx, fence, "SetConsole", text, writes, uuid, "states/console", body)
}
