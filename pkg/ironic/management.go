// SPDX-License-Identifier: Apache-2.0

package ironic

import (
	"errors"
	"strings"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic/redact"
)

// InterfaceVerdict is what Ironic says of one interface of a node's driver.
type InterfaceVerdict struct {
	Interface string
	// Result is nil for an interface that the driver does not have.
	Result *bool
	// Reason is why the interface cannot be used, in Ironic's words.
	Reason string
}

// IsSupported reports whether the driver has the interface, and it is enabled.
func (v InterfaceVerdict) IsSupported() bool {
	return v.Result != nil && (*v.Result || !saysUnsupported(v.Reason))
}

// HistoryEvent is an entry of the history of a node.
type HistoryEvent struct {
	UUID      string    `json:"uuid"`
	CreatedAt time.Time `json:"created_at"`
	Severity  string    `json:"severity"`
	EventType string    `json:"event_type"`
	Event     string    `json:"event"`
	Conductor string    `json:"conductor"`
}

// BootDevice is what a machine boots from.
type BootDevice struct {
	Device string // empty if the BMC does not tell
	// Persistent is nil if the BMC does not tell.
	Persistent *bool
}

// Indicator is a light of a machine.
type Indicator struct {
	// ID is the name and the component with "@" in between, as in requests.
	ID string `json:"name"`
	// Component is system, chassis, disk, power or nic.
	Component string   `json:"component"`
	ReadOnly  bool     `json:"readonly"`
	States    []string `json:"states"`
}

// Name is the ID without the component.
func (i Indicator) Name() string { return strings.TrimSuffix(i.ID, "@"+i.Component) }

// IsIndicatorNameless reports whether Ironic cannot list the indicators because one has no name. The
// names are the UUIDs that the BMC gives to system and chassis, which some leave out.
func IsIndicatorNameless(err error) bool {
	var api *APIError
	return errors.As(err, &api) && strings.HasPrefix(api.Message, "Missing indicator name")
}

// saysUnsupported reports whether Ironic's words are those about an interface that a driver does
// not have, or that does not have what was asked for.
func saysUnsupported(message string) bool {
	return strings.Contains(message, "does not support") && strings.Contains(message, "disabled or not implemented")
}

// MaskPasswords strikes out what is a password by its name.
func (e *HistoryEvent) MaskPasswords() { e.Event = redact.NamedPasswords(e.Event) }

// requestedBy begins the reason of a maintenance that a person has requested here. Ironic's own
// reasons do not begin like this.
const requestedBy = "Requested by "

// RequestedMaintenance returns the reason to give Ironic for the maintenance that a user requests.
func RequestedMaintenance(user, reason string) string { return requestedBy + user + ": " + reason }

// IsRequestedMaintenance reports whether the reason of a maintenance is one of RequestedMaintenance. Ironic keeps it if a step fails
// meanwhile, which is a fault that would have put the node into maintenance.
func IsRequestedMaintenance(reason string) bool { return strings.HasPrefix(reason, requestedBy) }
