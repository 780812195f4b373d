// SPDX-License-Identifier: Apache-2.0

package registrar

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
)

// Destination is the Ironic to which a host is to be moved.
type Destination interface {
	Features(ctx context.Context) (ironic.Features, error)
	GetNode(ctx context.Context, idOrName string) (*ironic.Node, error)
	ListPorts(ctx context.Context, filter ironic.PortFilter) ([]ironic.Port, error)
	ListDrivers(ctx context.Context) ([]string, error)
}

// WhyNotTaken tells the user of a host why another Ironic cannot take it, as that Ironic says now; empty if it can. nodes are
// those of that Ironic. What would keep the host from being registered and adopted there has to be found before its node is
// removed from the Ironic where it is. An error means that the other Ironic cannot be asked.
func WhyNotTaken(ctx context.Context, to Destination, nodes Nodes, host *metal3.BareMetalHost) (why string, err error) {
	features, err := to.Features(ctx)
	if err != nil {
		return "", err
	}
	if host.Spec.DisablePowerOff && !features.DisablePowerOff {
		return "it does not know spec.disablePowerOff, which needs " + ironic.DisablePowerOffSince, nil
	}
	access, err := bmc.Parse(host.Spec.BMC.Address, host.Spec.BMC.DisableCertificateVerification)
	if err != nil {
		return "spec.bmc.address: " + err.Error(), nil
	}
	drivers, err := to.ListDrivers(ctx)
	if err != nil {
		return "", err
	}
	if !slices.Contains(drivers, access.Driver) {
		return fmt.Sprintf("none of its conductors has the driver %q, which the BMC of the host needs", access.Driver), nil
	}
	for _, id := range []string{host.Status.Provisioning.ID, lifecycle.NodeName(host)} {
		if _, err := to.GetNode(ctx, id); err == nil {
			return fmt.Sprintf("it has a node %q already: delete it there, if it is not in use", id), nil
		} else if !ironic.IsNotFound(err) {
			return "", err
		}
	}
	if has, err := hasNodeWithBMC(ctx, to, nodes, lifecycle.BMCKey(host)); has || err != nil {
		return "it has a node with the BMC of the host already: delete it there, if it is not in use", err
	}
	for _, mac := range lifecycle.MachineMACs(host) {
		ports, err := to.ListPorts(ctx, ironic.PortFilter{Address: mac})
		if err != nil {
			return "", err
		}
		if len(ports) > 0 {
			return fmt.Sprintf("it has a port with the MAC address %s of the host's machine already, of another node: delete it there, if it is not in use", mac), nil
		}
	}
	return "", nil
}

// hasNodeWithBMC reports whether an Ironic has a node, in whichever state, whose BMC may be the one with the key.
func hasNodeWithBMC(ctx context.Context, in Destination, nodes Nodes, key bmc.Key) (bool, error) {
	partial := new(live.PartialError) // some status was not recorded; the nodes were read
	if err := nodes.Poll(ctx); err != nil && !errors.As(err, &partial) {
		return false, err
	}
	found, _ := nodes.NodesWithBMC(key)
	for _, node := range found { // one that was deleted may be known for a while
		if _, err := in.GetNode(ctx, node.UUID); !ironic.IsNotFound(err) {
			return err == nil, err
		}
	}
	return false, nil
}
