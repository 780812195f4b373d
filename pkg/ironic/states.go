package ironic

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// ProvisionOptions is what goes with some provision verbs.
type ProvisionOptions struct {
	// ConfigDrive goes with active and rebuild: an object with user_data,
	// meta_data and network_data, or a base64 string.
	ConfigDrive any `json:"configdrive,omitempty"`
	// CleanSteps are required for clean.
	CleanSteps []StepRequest `json:"clean_steps,omitempty"`
	// DeploySteps go with active and rebuild.
	DeploySteps []StepRequest `json:"deploy_steps,omitempty"`
	// ServiceSteps are required for service (API 1.87).
	ServiceSteps []StepRequest `json:"service_steps,omitempty"`
	// DisableRamdisk goes with clean: no ramdisk is booted.
	DisableRamdisk bool `json:"disable_ramdisk,omitempty"`
}

// StepRequest is a clean, deploy or service step to be executed.
type StepRequest struct {
	Interface string         `json:"interface"`
	Step      string         `json:"step"`
	Args      map[string]any `json:"args,omitzero"` // Ironic wants it in deploy steps, if only empty
	// Priority is required for deploy steps.
	Priority *int `json:"priority,omitempty"`
}

// SetProvisionState asks for a change of the provision state. Success says that
// Ironic has begun: the outcome shows in the node.
func (c *Client) SetProvisionState(ctx context.Context, idOrName string, target ProvisionTarget, options ProvisionOptions) error {
	body := struct {
		Target ProvisionTarget `json:"target"`
		ProvisionOptions
	}{target, options}
	return c.put(ctx, "SetProvisionState", "set provision state "+string(target), idOrName, "states/provision", body, contentsOf(options.ConfigDrive)...)
}

// SetPowerState asks for a change of power. Success says that Ironic has begun:
// the outcome shows in the node. Timeout is how long Ironic may wait for the
// machine; 0 means Ironic's own default.
func (c *Client) SetPowerState(ctx context.Context, idOrName string, target PowerTarget, timeout time.Duration) error {
	body := struct {
		Target  PowerTarget `json:"target"`
		Timeout int         `json:"timeout,omitempty"`
	}{target, 0}
	if timeout > 0 {
		body.Timeout = max(int(timeout.Round(time.Second)/time.Second), 1) // Ironic wants whole seconds, at least 1.
	}
	return c.put(ctx, "SetPowerState", "set power state "+string(target), idOrName, "states/power", body)
}

// SetMaintenance puts a node into maintenance. Beware: Ironic then lets it be
// deleted in any state.
func (c *Client) SetMaintenance(ctx context.Context, idOrName, reason string) error {
	body := struct {
		Reason string `json:"reason"`
	}{reason}
	return c.put(ctx, "SetMaintenance", "set maintenance", idOrName, "maintenance", body)
}

// ClearMaintenance takes a node out of maintenance, and clears its fault.
func (c *Client) ClearMaintenance(ctx context.Context, idOrName string) error {
	if idOrName == "" {
		return errEmptyID
	}
	return c.do(ctx, request{
		op: "ClearMaintenance", text: "clear maintenance of node " + idOrName,
		method: http.MethodDelete, path: nodePath(idOrName, "maintenance"),
	})
}

func (c *Client) put(ctx context.Context, op, text, idOrName, path string, body any, secrets ...string) error {
	if idOrName == "" {
		return errEmptyID
	}
	return c.do(ctx, request{
		op: op, text: text + " of node " + idOrName, method: http.MethodPut, path: nodePath(idOrName, path),
		secrets: secrets,
		build:   func(Version) (url.Values, any, error) { return nil, body, nil },
	})
}
