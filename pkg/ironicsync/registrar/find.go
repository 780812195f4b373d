// SPDX-License-Identifier: Apache-2.0

package registrar

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// FindNode looks for a node that is the host's already: by our name for it, by the bare name that older
// nodes have, by a port with the boot MAC address, by its BMC. If there is none, the UUID of the node to
// be created is chosen. It is recorded before the creation, so that a node whose creation got no answer
// is found again and never created twice. FindNode returns the host as it is then.
func (r *Registrar) FindNode(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error) {
	var id string
	for _, find := range []func(context.Context, *metal3.BareMetalHost) (string, error){r.findByName, r.findByPort, r.findByBMC} {
		found, err := find(ctx, host)
		if err != nil {
			return nil, err
		}
		if found != "" {
			id = found
			break
		}
	}
	if id == "" {
		id = uuid.NewString()
	}
	return r.Recorder.Record(ctx, host, func(h *metal3.BareMetalHost) {
		h.Status.Provisioning.ID, h.Status.Record.Ironic = id, r.Name
		h.Status.OperationHistory.Register = metal3.OperationMetric{Start: lifecycle.WholeSeconds(r.Clock.Now())}
	})
}

// namesOfURLs cannot be names of nodes: Ironic's API has other resources at /v1/nodes/NAME, and answers 400 or 405.
var namesOfURLs = []string{"detail", "maintenance", "management", "states", "validate"}

func (r *Registrar) findByName(ctx context.Context, host *metal3.BareMetalHost) (id string, err error) {
	names := []string{lifecycle.NodeName(host)}
	if !strings.Contains(host.Name, "~") && !slices.Contains(namesOfURLs, host.Name) {
		names = append(names, host.Name)
	}
	for _, name := range names {
		node, err := r.Ironic.GetNode(ctx, name)
		if err == nil && (name == lifecycle.NodeName(host) || r.Claims.canAdopt(host, node)) {
			return node.UUID, nil
		}
		if err != nil && !ironic.IsNotFound(err) {
			return "", err
		}
	}
	return "", nil
}

func (r *Registrar) findByPort(ctx context.Context, host *metal3.BareMetalHost) (id string, err error) {
	if host.Spec.BootMAC() == "" {
		return "", nil
	}
	ports, err := r.Ironic.ListPorts(ctx, ironic.PortFilter{Address: host.Spec.BootMAC()})
	if err != nil || len(ports) == 0 {
		return "", err
	}
	node, err := r.Ironic.GetNode(ctx, ports[0].NodeUUID)
	if err != nil {
		return "", err
	}
	if node.Name == "" && r.Claims.canAdopt(host, node) { // an operator has created it, and no host has it
		return node.UUID, nil
	}
	return "", nil
}

func (r *Registrar) findByBMC(ctx context.Context, host *metal3.BareMetalHost) (id string, err error) {
	key := lifecycle.BMCKey(host)
	nodes, asOf := r.Claims.nodes.NodesWithBMC(key)
	if asOf.IsZero() { // that none is known is no proof that there is none
		if err := r.Claims.observeNodes(ctx); err != nil {
			return "", err
		}
		nodes, _ = r.Claims.nodes.NodesWithBMC(key)
	}
	for _, node := range nodes {
		if node.Name == "" && lifecycle.KeyOfNode(&node) == key && r.Claims.canAdopt(host, &node) {
			id = node.UUID
		}
	}
	return id, nil
}
