// SPDX-License-Identifier: Apache-2.0

package registrar

import (
	"context"

	"github.com/google/uuid"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/recorder"
)

// CreateNode creates the host's node and requests its verification. What Ironic answers is the node, so it
// need not be read, nor compared with what is wanted. After a crash, Register does the rest. changed reports
// whether the node is to be observed; it is false if the host was left as it is, or shows why its node
// cannot be created.
func (r *Registrar) CreateNode(ctx context.Context, fence ironic.Fence, host *metal3.BareMetalHost) (changed bool, err error) {
	reg, err := r.prepare(ctx, fence, host, nil)
	if err != nil {
		return false, r.report(ctx, host, err)
	}
	if reg.wanted.keepsImage {
		reg.wanted.image = "" // a new node has none
	}
	node, err := r.Ironic.CreateNode(ctx, fence, r.nodeToCreate(ctx, reg))
	if ironic.IsDuplicate(err) {
		return r.foundDuplicate(ctx, host)
	} else if err != nil {
		return false, r.report(ctx, host, err)
	}
	_, err = r.Recorder.RecordWhileTrue(ctx, host, recorder.HasSpecOf(host), func(h *metal3.BareMetalHost) {
		lifecycle.SetTriedCredentials(h, reg.credentials.Version, r.Clock.Now())
	})
	if err != nil {
		return false, err
	}
	current, err := r.Hosts.Get(ctx, host.Namespace, host.Name)
	if err != nil {
		return false, live.IgnoreNotFound(err)
	}
	if current.UID != host.UID || !recorder.HasSpecOf(host)(current) {
		return false, nil // the next step is planned with what is true now
	}
	reg.host = current
	return r.verify(ctx, reg, node, nil)
}

// nodeToCreate is the host's node as Ironic is to create it.
func (r *Registrar) nodeToCreate(ctx context.Context, reg registration) ironic.NodeCreate {
	host, wanted := reg.host, reg.wanted
	access := wanted.access
	create := ironic.NodeCreate{
		UUID:                host.Status.Provisioning.ID,
		Name:                lifecycle.NodeName(host),
		Driver:              access.Driver,
		DriverInfo:          wanted.driverInfo(reg.credentials),
		BIOSInterface:       access.BIOSInterface,
		BootInterface:       access.BootInterface,
		DeployInterface:     deploy.DeployInterface(host),
		FirmwareInterface:   access.FirmwareInterface,
		InspectInterface:    wanted.inspectInterface,
		ManagementInterface: access.ManagementInterface,
		PowerInterface:      access.PowerInterface,
		RAIDInterface:       access.RAIDInterface,
		VendorInterface:     access.VendorInterface,
		Properties:          map[string]any{"capabilities": deploy.Capabilities("", host.Spec.BootMode)},
		Extra:               r.marksOf(host),
		AutomatedClean:      &wanted.automatedClean,
		NetworkData:         wanted.networkData,
		ConductorGroup:      wanted.conductorGroup,
	}
	if host.Spec.DisablePowerOff {
		create.DisablePowerOff = wanted.disablePowerOff
	}
	if deployed := deploy.AsDeployed(host); deployed != nil && r.settings.Images.CheckImage(ctx, deployed.Spec.Image) == nil {
		// It is to be adopted, which goes by what was deployed. What is not allowed, the adoption reports.
		if info, err := deploy.InstanceInfo(deployed, ""); err == nil {
			create.InstanceInfo = info
		}
	}
	switch d := host.Status.Record.Deployment; {
	case d != nil && host.Status.Provisioning.State.RunsSomething():
		create.InstanceUUID = d.InstanceUUID // also of what another user of Ironic has deployed
	case d == nil && (host.Status.Provisioning.State.RunsSomething() || host.Spec.ExternallyProvisioned):
		create.InstanceUUID = lifecycle.AdoptedInstanceUUID(host)
	}
	if arch := deploy.WantedArchitecture(host); arch != "" {
		create.Properties["cpu_arch"] = arch
	}
	return create
}

// concealedNode is the problem of a node that exists, and that Ironic does not have when it is asked for it.
// With Keystone, users with project scope see only the nodes of their project.
const concealedNode = "Ironic has a node of this host already, but conceals it from the server: the node belongs to another Keystone project than the server's credentials"

// foundDuplicate handles a node that exists already. Either an earlier request of ours created it and its
// answer got lost, or somebody has created a node of the host's name since FindNode; that one is taken
// over.
func (r *Registrar) foundDuplicate(ctx context.Context, host *metal3.BareMetalHost) (changed bool, err error) {
	node, err := r.Ironic.GetNode(ctx, lifecycle.NodeName(host))
	if ironic.IsNotFound(err) {
		node, err = r.Ironic.GetNode(ctx, host.Status.Provisioning.ID)
	}
	if ironic.IsNotFound(err) {
		return false, r.Recorder.Report(ctx, host, metal3.IronicRefusedReason, concealedNode)
	}
	if err != nil {
		return false, err
	}
	id := node.UUID
	switch {
	case node.IsAnothers(host.Namespace, host.Name):
		// The host was created with the status of another one, or got it since.
		klog.FromContext(ctx).Info("The node is that of another host, and the host gets one of its own", "node", node.UUID, "name", node.Name)
		id = uuid.NewString()
	case node.UUID == host.Status.Provisioning.ID:
		return true, nil
	}
	_, err = r.Recorder.Record(ctx, host, func(h *metal3.BareMetalHost) {
		h.Status.Provisioning.ID = id
		h.Status.TriedCredentials.Version = "" // of that Secret, this node was told nothing
	})
	return false, err
}
