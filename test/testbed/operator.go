// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Operator uses Ironic's own API directly, as an operator with the `openstack baremetal` command
// would. It works with a real and with a simulated Ironic.
type Operator struct {
	// Endpoint is the URL of Ironic without /v1.
	Endpoint string
	// User and Password, if they are set, are used for HTTP basic authentication.
	User, Password string
	// Token, if it is set, returns a token of Keystone.
	Token func(context.Context) (string, error)
	// Microversion is the value of X-OpenStack-Ironic-API-Version. The default is 1.82, the oldest
	// version that metal3-apiserver supports.
	Microversion string
}

// Node has the fields of a node that tests use.
type Node struct {
	UUID                 string         `json:"uuid"`
	Name                 string         `json:"name"`
	Owner                string         `json:"owner"`
	Driver               string         `json:"driver"`
	DriverInfo           map[string]any `json:"driver_info"`
	DriverInternalInfo   map[string]any `json:"driver_internal_info"`
	Extra                map[string]any `json:"extra"`
	Properties           map[string]any `json:"properties"`
	PowerState           string         `json:"power_state"`
	TargetPowerState     string         `json:"target_power_state"`
	ProvisionState       string         `json:"provision_state"`
	TargetProvisionState string         `json:"target_provision_state"`
	LastError            string         `json:"last_error"`
	Maintenance          bool           `json:"maintenance"`
	MaintenanceReason    string         `json:"maintenance_reason"`
	Fault                string         `json:"fault"`
	Reservation          string         `json:"reservation"`
	InstanceInfo         map[string]any `json:"instance_info"`
	InstanceUUID         string         `json:"instance_uuid"`
	InspectionFinishedAt *time.Time     `json:"inspection_finished_at"`
	ProvisionUpdatedAt   *time.Time     `json:"provision_updated_at"`
	AutomatedClean       *bool          `json:"automated_clean"`
}

// Patch is one operation of a JSON patch: op is add, replace or remove.
type Patch struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// CreateNode creates a node with fields such as {"name": ..., "driver": "fake-hardware"}.
func (o *Operator) CreateNode(ctx context.Context, fields map[string]any) (Node, error) {
	var n Node
	return n, o.Do(ctx, http.MethodPost, "/v1/nodes", fields, &n)
}

// Node returns a node by its UUID or name.
func (o *Operator) Node(ctx context.Context, id string) (Node, error) {
	var n Node
	return n, o.Do(ctx, http.MethodGet, nodePath(id), nil, &n)
}

// Nodes lists all nodes.
func (o *Operator) Nodes(ctx context.Context) ([]Node, error) {
	var all []Node
	marker := ""
	for {
		var page struct {
			Nodes []Node `json:"nodes"`
			Next  string `json:"next"`
		}
		if err := o.Do(ctx, http.MethodGet, "/v1/nodes?detail=True&limit=1000"+marker, nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Nodes...)
		if page.Next == "" || len(page.Nodes) == 0 {
			return all, nil
		}
		marker = "&marker=" + page.Nodes[len(page.Nodes)-1].UUID
	}
}

// PatchNode changes fields of a node.
func (o *Operator) PatchNode(ctx context.Context, id string, patches ...Patch) error {
	return o.Do(ctx, http.MethodPatch, nodePath(id), patches, nil)
}

// DeleteNode removes a node.
func (o *Operator) DeleteNode(ctx context.Context, id string) error {
	return o.Do(ctx, http.MethodDelete, nodePath(id), nil, nil)
}

// Provision requests a provision state change: manage, provide, inspect, active, deleted, ...
func (o *Operator) Provision(ctx context.Context, id, target string) error {
	return o.Do(ctx, http.MethodPut, nodePath(id)+"/states/provision", map[string]any{"target": target}, nil)
}

// Power requests a power state: "power on", "power off", "rebooting", "soft power off", ...
func (o *Operator) Power(ctx context.Context, id, target string) error {
	return o.Do(ctx, http.MethodPut, nodePath(id)+"/states/power", map[string]any{"target": target}, nil)
}

// SetMaintenance puts a node into maintenance with a reason, or takes it out of maintenance.
func (o *Operator) SetMaintenance(ctx context.Context, id string, on bool, reason string) error {
	if !on {
		return o.Do(ctx, http.MethodDelete, nodePath(id)+"/maintenance", nil, nil)
	}
	return o.Do(ctx, http.MethodPut, nodePath(id)+"/maintenance", map[string]any{"reason": reason}, nil)
}

// WaitNode polls a node until wanted returns true, and returns the node as it was last read.
func (o *Operator) WaitNode(ctx context.Context, id string, wanted func(Node) bool) (Node, error) {
	var n Node
	err := poll(ctx, func(ctx context.Context) error {
		var err error
		if n, err = o.Node(ctx, id); err != nil {
			return err
		}
		if !wanted(n) {
			return fmt.Errorf("node %s is not in the expected state: %+v", id, n)
		}
		return nil
	})
	return n, err
}

func nodePath(id string) string { return "/v1/nodes/" + url.PathEscape(id) }

// StatusError is an answer of Ironic with a status other than 2xx.
type StatusError struct {
	Method, Path string
	Code         int
	Body         string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("Ironic answers %s %s with %d: %s", e.Method, e.Path, e.Code, e.Body)
}

// IsNotFound reports whether Ironic answered 404.
func IsNotFound(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && status.Code == http.StatusNotFound
}

// Do sends a request with a JSON body and decodes the answer into out. Both can be nil. If the node
// is locked, the request is repeated until ctx ends, as by the command line client.
func (o *Operator) Do(ctx context.Context, method, path string, body, out any) error {
	for {
		err := o.once(ctx, method, path, body, out)
		var status *StatusError
		if !errors.As(err, &status) || status.Code != http.StatusConflict || !strings.Contains(status.Body, "is locked by host") {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (o *Operator) once(ctx context.Context, method, path string, body, out any) error {
	header := map[string]string{"X-OpenStack-Ironic-API-Version": cmp.Or(o.Microversion, "1.82")}
	if o.User != "" {
		header["Authorization"] = "Basic " + base64.StdEncoding.EncodeToString([]byte(o.User+":"+o.Password))
	}
	if o.Token != nil {
		token, err := o.Token(ctx)
		if err != nil {
			return err
		}
		header["X-Auth-Token"] = token
	}
	response, answer, err := exchange(ctx, http.DefaultClient, method, o.Endpoint+path, header, body)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return &StatusError{Method: method, Path: path, Code: response.StatusCode, Body: string(answer)}
	}
	return decode(answer, out)
}
