// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"errors"
	"fmt"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// Ironic is what actions ask of an Ironic.
type Ironic interface {
	NodeReleaser
	PowerSwitcher
	ProvisionStateSetter
	NodeReporter
	MaintenanceSwitcher
	HardwareManager
	IndicatorManager
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
