// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"errors"
	"fmt"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// Ironic is what actions ask of an Ironic.
type Ironic interface {
	GetNode(ctx context.Context, idOrName string) (*ironic.Node, error)
	UpdateNode(ctx context.Context, fence ironic.Fence, idOrName string, patches []ironic.Patch) (*ironic.Node, error)
	// SwitchPower asks Ironic for a power state. If the target is a soft one that the driver
	// does not support, the corresponding hard one is used. Then used differs from target, and
	// softRefusal is Ironic's refusal of the soft one.
	SwitchPower(ctx context.Context, fence ironic.Fence, idOrName string, target ironic.PowerTarget) (used ironic.PowerTarget, softRefusal string, err error)
	SetProvisionState(ctx context.Context, fence ironic.Fence, idOrName string, target ironic.ProvisionTarget, options ironic.ProvisionOptions) error
	SetMaintenance(ctx context.Context, fence ironic.Fence, idOrName, reason string) error
	// ClearMaintenance also clears the fault of the node.
	ClearMaintenance(ctx context.Context, fence ironic.Fence, idOrName string) error
	// Verdicts reports which interfaces of the driver Ironic could use, ordered by name.
	Verdicts(ctx context.Context, uuid string) ([]ironic.InterfaceVerdict, error)
	// History returns what Ironic has recorded of a node, oldest first.
	History(ctx context.Context, uuid string) ([]ironic.HistoryEvent, error)

	// The following ask the BMC, and answer when it has, unless said otherwise.

	GetBootDevice(ctx context.Context, uuid string) (*ironic.BootDevice, error)
	// GetSupportedBootDevices does not ask the BMC.
	GetSupportedBootDevices(ctx context.Context, uuid string) ([]string, error)
	SetBootDevice(ctx context.Context, fence ironic.Fence, uuid, device string, persistent bool) error
	InjectNMI(ctx context.Context, fence ironic.Fence, uuid string) error
	ListIndicators(ctx context.Context, uuid string) ([]ironic.Indicator, error)
	GetIndicator(ctx context.Context, uuid, id string) (state string, err error)
	SetIndicator(ctx context.Context, fence ironic.Fence, uuid, id, state string) error
}

// IronicOf returns the Ironic in which a host has its node, which is recorded in the host's status. The error says why that
// Ironic cannot be asked. No other one must be asked instead: it does not have the node, or has another machine under the
// same name.
type IronicOf func(host *metal3.BareMetalHost) (Ironic, error)

// ironicName is how messages call the Ironic of a host.
func ironicName(host *metal3.BareMetalHost) string {
	if name := host.Status.Record.Ironic; name != "" {
		return fmt.Sprintf("the Ironic of IronicInstance %q", name)
	}
	return "Ironic"
}

var (
	errReplaced = errors.New("it was deleted meanwhile, and another host has its name")
	errMoved    = errors.New("its node is in another Ironic now; look at the host, and try again")
)

// checkSame returns a Conflict if the host, as it is now, is not the one that an action has begun with, or has its node in
// another Ironic. The action goes on asking the Ironic in which it has found the node.
func checkSame(host, now *metal3.BareMetalHost) error {
	switch {
	case now.UID != host.UID:
		return conflict(host, errReplaced)
	case now.Status.Record.Ironic != host.Status.Record.Ironic:
		return conflict(host, errMoved)
	}
	return nil
}
