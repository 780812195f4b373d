package drive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
)

// findNode looks for a node that is the host's already: by our name for it, by
// the bare name that older nodes have, by a port with the boot MAC address, by its BMC. If
// there is none, the UUID of the node to be is chosen and recorded, so that a
// creation whose answer got lost is found again and never made twice.
func (c *Controller) findNode(ctx context.Context, host *metal3.BareMetalHost, _ *ironic.Node, _ lifecycle.Step) (outcome, error) {
	id := ""
	names := []string{lifecycle.NodeName(host)}
	if !strings.Contains(host.Name, "~") {
		names = append(names, host.Name)
	}
	for _, name := range names {
		node, err := c.ironic.GetNode(ctx, name)
		if err == nil && (name == lifecycle.NodeName(host) || c.mayTake(host, node)) {
			id = node.UUID
			break
		}
		if err != nil && !ironic.IsNotFound(err) {
			return waitForEvent, err
		}
	}
	if id == "" && host.Spec.BootMACAddress != "" {
		ports, err := c.ironic.ListPorts(ctx, ironic.PortFilter{Address: host.Spec.BootMACAddress})
		if err != nil {
			return waitForEvent, err
		}
		if len(ports) > 0 {
			node, err := c.ironic.GetNode(ctx, ports[0].NodeUUID)
			if err != nil {
				return waitForEvent, err
			}
			if node.Name == "" && c.mayTake(host, node) { // an operator has made it, and no host has it
				id = node.UUID
			}
		}
	}
	if key := lifecycle.BMCKey(host); id == "" {
		for _, node := range c.refresher.NodesWithBMC(key) {
			if node.Name == "" && lifecycle.KeyOfNode(&node) == key && c.mayTake(host, &node) {
				id = node.UUID
			}
		}
	}
	if id == "" {
		id = uuid.NewString()
	}
	host, err := c.recorded(ctx, host, nil, func(h *metal3.BareMetalHost) {
		h.Status.Provisioning.ID = id
		h.Status.OperationHistory.Register = metal3.OperationMetric{Start: lifecycle.WholeSeconds(time.Now())}
	})
	if err != nil {
		return waitForEvent, err
	}
	return planAgainWith(host, nil), nil
}

// powerSupplyKey in driver_info keeps Ironic 29.0.5 from locking a node that is its own
// parent a second time to switch it on, which fails. Our PATCHes bring it along; a node
// that somebody else has patched gets it when that has failed.
const powerSupplyKey = "has_dedicated_power_supply"

// kernelParamsKey in driver_info are the parameters of the ramdisk's kernel.
const kernelParamsKey = "kernel_append_params"

func isMadeFor(host *metal3.BareMetalHost, node *ironic.Registration) bool {
	return node.Extra[ironic.HostMark] == string(host.UID)
}

// marksOf is what the extra of a host's node says of whose it is.
func (c *Controller) marksOf(host *metal3.BareMetalHost) map[string]any {
	marks := map[string]any{ironic.HostMark: string(host.UID)}
	if c.settings.Cluster != "" {
		marks[ironic.ClusterMark] = c.settings.Cluster
	}
	return marks
}

// createNode creates the host's node and has it verified. What Ironic answers is the node, so it
// need not be read, nor compared with what is wanted. After a crash, register does the rest.
// markPatches are what marks a node as the host's. They go along with other patches: for a
// mark alone, Ironic 29.0.5 would make the node its own parent.
func markPatches(marks map[string]any, current *ironic.Registration) []ironic.Patch {
	var patches []ironic.Patch
	for _, key := range slices.Sorted(maps.Keys(marks)) {
		if current.Extra[key] != marks[key] {
			patches = append(patches, ironic.Patch{Op: ironic.PatchAdd, Path: "/extra/" + key, Value: marks[key]})
		}
	}
	return patches
}

// isMarkedOtherwise tells whether the node bears other marks than the host's: those of a host
// that is gone, or of a cluster that a person has taken the node over from.
func isMarkedOtherwise(marks map[string]any, current *ironic.Registration) bool {
	for key, mark := range marks {
		if is := current.Extra[key]; is != nil && is != mark {
			return true
		}
	}
	return false
}

func (c *Controller) createNode(ctx context.Context, host *metal3.BareMetalHost) error {
	access, credentials, err := c.accessTo(ctx, host)
	if err != nil || access == nil {
		return err
	}
	wanted, err := c.wantedOf(ctx, host, *access)
	if err == nil {
		err = c.readNetwork(ctx, host, wanted)
	}
	if err != nil {
		return c.refused(ctx, host, err)
	}
	create := ironic.NodeCreate{
		UUID:                host.Status.Provisioning.ID,
		Name:                lifecycle.NodeName(host),
		Driver:              access.Driver,
		DriverInfo:          wanted.driverInfo(credentials),
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
		Extra:               c.marksOf(host),
		AutomatedClean:      &wanted.automatedClean,
		NetworkData:         wanted.networkData,
	}
	if host.Spec.DisablePowerOff {
		create.DisablePowerOff = wanted.disablePowerOff
	}
	if deployed := asDeployed(host); deployed != nil {
		// It is to be adopted, which goes by what was deployed.
		if info, err := deploy.InstanceInfo(deployed, ""); err == nil {
			create.InstanceUUID, create.InstanceInfo = lifecycle.InstanceUUID(host), info
		}
	}
	if host.Spec.Architecture != "" {
		create.Properties["cpu_arch"] = host.Spec.Architecture
	}
	if wanted.keepsImage {
		wanted.image = "" // this node has none
	}
	node, err := c.ironic.CreateNode(ctx, create)
	if ironic.IsDuplicate(err) {
		return c.foundDuplicate(ctx, host)
	} else if err != nil {
		return c.refused(ctx, host, err)
	}
	err = c.recordWhileTrue(ctx, host, sameSpec(host), func(h *metal3.BareMetalHost) { lifecycle.SetTriedCredentials(h, credentials.Version) })
	if err != nil {
		return err
	}
	created := host
	if host, err = c.hosts.Get(ctx, host.Namespace, host.Name); err != nil {
		return live.IgnoreNotFound(err)
	}
	if host.UID != created.UID || !sameSpec(created)(host) {
		return nil // it is planned anew
	}
	return c.verify(ctx, host, node, wanted, credentials, nil)
}

// accessTo is how Ironic reaches the host's BMC. When that cannot be known, the
// reason is recorded, and the access is nil.
func (c *Controller) accessTo(ctx context.Context, host *metal3.BareMetalHost) (*bmc.Access, secrets.Credentials, error) {
	access, err := bmc.Parse(host.Spec.BMC.Address, host.Spec.BMC.DisableCertificateVerification)
	if err != nil {
		return nil, secrets.Credentials{}, c.report(ctx, host, metal3.InvalidAddressReason, err.Error())
	}
	if err := c.checkBMC(ctx, access); err != nil {
		return nil, secrets.Credentials{}, c.report(ctx, host, metal3.AddressNotAllowedReason, err.Error())
	}
	credentials, err := c.secrets.Claim(ctx, host)
	incomplete := new(secrets.IncompleteError)
	switch {
	case apierrors.IsNotFound(err):
		return nil, secrets.Credentials{}, nil // gone since we looked: its event plans again
	case errors.As(err, &incomplete):
		return nil, secrets.Credentials{}, c.report(ctx, host, metal3.SecretIncompleteReason, incomplete.Error())
	case err != nil:
		return nil, secrets.Credentials{}, fmt.Errorf("claiming Secret %s/%s: %w", host.Namespace, host.Spec.BMC.CredentialsName, err)
	}
	return &access, credentials, nil
}

// concealedNode is the problem of a node that exists, and that Ironic does not have when it is asked for it.
// With Keystone, users with project scope see only the nodes of their project.
const concealedNode = "Ironic has a node of this host already, but conceals it from the server: the node is not of the Keystone project for which the server has its credentials"

// foundDuplicate handles a node that exists already. Either an earlier request of ours
// created it and its answer got lost, or somebody has created a node of the host's name
// since findNode; that one is taken over.
func (c *Controller) foundDuplicate(ctx context.Context, host *metal3.BareMetalHost) error {
	node, err := c.ironic.GetNode(ctx, lifecycle.NodeName(host))
	if ironic.IsNotFound(err) {
		node, err = c.ironic.GetNode(ctx, host.Status.Provisioning.ID)
	}
	if ironic.IsNotFound(err) {
		return c.report(ctx, host, metal3.IronicRefusedReason, concealedNode)
	}
	if err != nil {
		return err
	}
	if node.IsAnothers(host.Namespace, host.Name) {
		// The host was created with the status of another one, or got it since.
		klog.FromContext(ctx).Info("The node is that of another host, and the host gets one of its own", "node", node.UUID, "name", node.Name)
		return c.record(ctx, host, nil, func(h *metal3.BareMetalHost) { h.Status.Provisioning.ID = uuid.NewString() })
	}
	if node.UUID == host.Status.Provisioning.ID {
		return c.observe(ctx, host)
	}
	return c.record(ctx, host, nil, func(h *metal3.BareMetalHost) { h.Status.Provisioning.ID = node.UUID })
}

// register tells Ironic how to reach the BMC and which MAC addresses the host has, and
// has a node in enroll verified. It is recorded only afterwards, so that after a crash in
// between it is all done again.
func (c *Controller) register(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) error {
	access, credentials, err := c.accessTo(ctx, host)
	if err != nil || access == nil {
		return err
	}
	wanted, err := c.wantedOf(ctx, host, *access)
	if err == nil && lifecycle.IsIdle(node) {
		err = c.readNetwork(ctx, host, wanted)
	}
	if err != nil {
		return c.refused(ctx, host, err)
	}
	remade, err := c.updateRegistration(ctx, host, node, wanted, credentials)
	if err != nil {
		return c.refused(ctx, host, err)
	}
	if remade {
		return c.observe(ctx, host)
	}
	var ports []ironic.Port
	if len(wantedPorts(host)) > 0 {
		if ports, err = c.ironic.ListPorts(ctx, ironic.PortFilter{Node: node.UUID}); err != nil {
			return c.refused(ctx, host, err)
		}
	}
	return c.verify(ctx, host, node, wanted, credentials, ports)
}

// verify completes the registration of a node that Ironic knows, with these ports: it creates
// the missing ports, has a node in enroll verified, and records that the host is registered.
func (c *Controller) verify(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, wanted *wantedNode, credentials secrets.Credentials, ports []ironic.Port) error {
	if err := c.ensurePorts(ctx, host, node.UUID, ports); err != nil {
		if conflict := new(portConflict); errors.As(err, &conflict) {
			return c.report(ctx, host, metal3.PortConflictReason, conflict.Error())
		}
		return c.refused(ctx, host, err)
	}
	if node.ProvisionState == ironic.Enroll {
		if err := c.ironic.SetProvisionState(ctx, node.UUID, ironic.TargetManage, ironic.ProvisionOptions{}); err != nil {
			return c.refused(ctx, host, err)
		}
	}
	return c.registered(ctx, host, credentials.Version, metal3.RegisteredWith{
		SettingsDigest:     c.settingsDigest,
		NetworkDataVersion: wanted.networkVersion,
		Image:              wanted.image,
		DueWhenIdle:        !lifecycle.IsIdle(node),
		PowerSupply:        node.IsOwnParent(),
		BMC:                lifecycle.BMCKey(host).String(),
	})
}

// updateRegistration patches what differs in the node's registration, and only
// then: a PATCH makes Ironic 29.0.5 take the node for its own parent, and keep it
// out of the power synchronisation for ever. A node of ours that was never
// verified, or never used after that, has nothing to lose: it is deleted, to be made again (remade).
func (c *Controller) updateRegistration(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, wanted *wantedNode, credentials secrets.Credentials) (remade bool, err error) {
	registration, err := c.ironic.GetRegistration(ctx, node.UUID)
	if err != nil {
		return false, err
	}
	ours := isMadeFor(host, registration)
	again := func(reason string) (bool, error) {
		klog.FromContext(ctx).Info("The node is made again", "node", node.UUID, "reason", reason)
		return true, ignoreNoNode(c.ironic.DeleteNode(ctx, node.UUID))
	}
	if ours && node.ProvisionState == ironic.Enroll && (node.Driver != wanted.access.Driver || registration.BootInterface != wanted.access.BootInterface) {
		return again("another driver or way to boot is wanted")
	}
	tried := host.Status.TriedCredentials
	known := tried.Reference != nil && tried.Reference.Name == host.Spec.BMC.CredentialsName && !lifecycle.IsNewerVersion(credentials.Since, tried.Version)
	info := wanted.driverInfo(credentials)
	if params, has := registration.DriverInfo[kernelParamsKey]; has && wanted.keepsImage {
		info[kernelParamsKey] = params // they may be those of the image
	}
	patches := driverInfoPatches(registration.DriverInfo, info, known)
	patches = append(patches, wanted.patches(host, node, registration)...)
	if node.IsOwnParent() && len(patches) == 0 && registration.DriverInfo[powerSupplyKey] == nil {
		patches = append(patches, ironic.Patch{Op: ironic.PatchAdd, Path: "/driver_info/" + powerSupplyKey, Value: true})
	}
	if len(patches) > 0 || isMarkedOtherwise(c.marksOf(host), registration) {
		patches = append(patches, markPatches(c.marksOf(host), registration)...)
	}
	if len(patches) == 0 {
		return false, nil
	}
	updated, err := c.ironic.UpdateNode(ctx, node.UUID, patches)
	if err != nil {
		return false, err
	}
	klog.FromContext(ctx).V(2).Info("Node updated", "node", node.UUID, "paths", pathsOf(patches)) // never with values: some are passwords
	if !updated.IsOwnParent() {
		return false, nil
	}
	neverUsed := node.ProvisionState == ironic.Enroll ||
		node.ProvisionState == ironic.Manageable && host.Status.Provisioning.State == metal3.StateRegistering && host.Status.RegisteredWith == nil
	if ours && neverUsed {
		return again("Ironic has made it its own parent")
	}
	klog.FromContext(ctx).Info("Ironic has made the node its own parent and no longer synchronises its power", "node", node.UUID)
	return false, nil
}

func pathsOf(patches []ironic.Patch) (paths []string) {
	for _, p := range patches {
		paths = append(paths, p.Path)
	}
	return paths
}

// registered records that Ironic is in step with the spec and the Secret, releases the
// Secret that was used before, and observes the node.
func (c *Controller) registered(ctx context.Context, host *metal3.BareMetalHost, secretVersion string, with metal3.RegisteredWith) error {
	err := c.recordWhileTrue(ctx, host, sameSpec(host), func(h *metal3.BareMetalHost) {
		lifecycle.SetTriedCredentials(h, secretVersion)
		lifecycle.SetRegistered(h, with, time.Now())
	})
	if err != nil {
		return err
	}
	if previous := host.Status.TriedCredentials.Reference; previous != nil && previous.Name != host.Spec.BMC.CredentialsName {
		if err := c.secrets.Release(ctx, host, previous.Name); err != nil {
			return fmt.Errorf("releasing Secret %s/%s: %w", host.Namespace, previous.Name, err)
		}
	}
	return c.observe(ctx, host)
}

// portConflict is a MAC address of a host that Ironic knows as another node's.
type portConflict struct{ mac, host, other string }

func (e *portConflict) Error() string {
	return fmt.Sprintf("MAC address %s of host %s is that of %s already: delete the host whose spec.bootMACAddress is wrong and create it with the right one, or delete the other one's port in Ironic", e.mac, e.host, e.other)
}

// wantedPorts returns the MAC addresses that the node needs ports for, and whether the host
// boots from them: the one that the spec names, and those that an earlier inspection found,
// which Ironic does not know any more when it has lost the node.
func wantedPorts(host *metal3.BareMetalHost) map[string]bool {
	wanted := map[string]bool{}
	if hardware := host.Status.HardwareDetails; hardware != nil {
		for _, nic := range hardware.NIC {
			if nic.MAC != "" {
				wanted[strings.ToLower(nic.MAC)] = nic.PXE
			}
		}
	}
	if host.Spec.BootMACAddress != "" {
		wanted[strings.ToLower(host.Spec.BootMACAddress)] = true
	}
	return wanted
}

// ensurePorts creates those ports that the node needs and does not have yet. A MAC address that
// an inspection found may belong to another node: the USB network cards of some BMCs have the
// same one in every machine.
func (c *Controller) ensurePorts(ctx context.Context, host *metal3.BareMetalHost, nodeUUID string, existing []ironic.Port) error {
	wanted := wantedPorts(host)
	for _, port := range existing {
		delete(wanted, port.Address)
	}
	for _, mac := range slices.Sorted(maps.Keys(wanted)) {
		err := c.createPort(ctx, host, nodeUUID, mac, wanted[mac])
		if conflict := new(portConflict); errors.As(err, &conflict) && !strings.EqualFold(mac, host.Spec.BootMACAddress) {
			klog.FromContext(ctx).Info("A network card has the MAC address of another node's port, and gets none", "mac", mac, "other", conflict.other)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) createPort(ctx context.Context, host *metal3.BareMetalHost, nodeUUID, mac string, boots bool) error {
	_, err := c.ironic.CreatePort(ctx, nodeUUID, mac, boots)
	if !ironic.IsDuplicate(err) {
		return err
	}
	ports, err := c.ironic.ListPorts(ctx, ironic.PortFilter{Address: mac})
	if err != nil {
		return err
	}
	if len(ports) == 0 || ports[0].NodeUUID == nodeUUID {
		return nil
	}
	return &portConflict{mac: mac, host: host.Namespace + "/" + host.Name, other: c.whoseNode(ctx, host, ports[0].NodeUUID)}
}

// whoseNode names a node to the user of host, who may not be allowed to read other
// namespaces, and knows no nodes but those of hosts. The log names it to operators.
func (c *Controller) whoseNode(ctx context.Context, host *metal3.BareMetalHost, uuid string) string {
	klog.FromContext(ctx).Info("Another node has the MAC address", "other", uuid)
	hosts, err := c.informer.GetIndexer().ByIndex(byNodeUUID, uuid)
	if err != nil || len(hosts) == 0 {
		return "a node in Ironic that no host has"
	}
	if other := hosts[0].(*metal3.BareMetalHost); other.Namespace == host.Namespace {
		return fmt.Sprintf("host %s/%s", other.Namespace, other.Name)
	}
	return "a host in another namespace"
}
