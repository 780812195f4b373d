// SPDX-License-Identifier: Apache-2.0

package registrar

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/recorder"
)

// Register tells Ironic how to reach the BMC and which MAC addresses the host has, and requests the
// verification of a node in enroll. It is recorded only afterwards, so that after a crash in between all
// of it is done again. changed reports whether the node is to be observed; it is false if the host was left
// as it is, or shows why it cannot be registered.
func (r *Registrar) Register(ctx context.Context, fence ironic.Fence, host *metal3.BareMetalHost, node *ironic.Node) (changed bool, err error) {
	reg, err := r.prepare(ctx, fence, host, node)
	if err != nil {
		return false, r.report(ctx, host, err)
	}
	deleted, err := r.update(ctx, reg, node)
	if err != nil {
		return false, r.report(ctx, host, err)
	}
	if deleted {
		return true, nil
	}
	var ports []ironic.Port
	if len(wantedPorts(host)) > 0 {
		if ports, err = r.Ironic.ListPorts(ctx, ironic.PortFilter{Node: node.UUID}); err != nil {
			return false, r.report(ctx, host, err)
		}
	}
	return r.verify(ctx, reg, node, ports)
}

// verify completes the registration of a node that Ironic knows, with these ports: it creates the missing
// ports, requests the verification of a node in enroll, and records that the host is registered.
func (r *Registrar) verify(ctx context.Context, reg registration, node *ironic.Node, ports []ironic.Port) (changed bool, err error) {
	missing, err := r.ensurePorts(ctx, reg, node.UUID, ports)
	if err != nil {
		return false, r.report(ctx, reg.host, err)
	}
	if node.ProvisionState == ironic.Enroll {
		if err := r.Ironic.SetProvisionState(ctx, reg.fence, node.UUID, ironic.TargetManage, ironic.ProvisionOptions{}); err != nil {
			return false, r.report(ctx, reg.host, err)
		}
	}
	return true, r.recordRegistered(ctx, reg, reg.missing(missing), metal3.RegisteredWith{
		SettingsDigest:     digestFor(r.digest, reg.wanted.conductorGroup, reg.wanted.isSpellingMinded && reg.wanted.access.IsRespelt()),
		NetworkDataVersion: reg.wanted.networkVersion,
		Image:              reg.wanted.image,
		DueWhenIdle:        !lifecycle.IsIdle(node.ProvisionState),
		PowerSupply:        node.IsOwnParent(),
		BMC:                lifecycle.BMCKey(reg.host).String(),
	})
}

// update patches what differs in the node's registration, and only then: a PATCH makes Ironic 29.0.5 take
// the node for its own parent, and keep it out of the power synchronisation for ever. A node of ours that
// was never verified, or never used after that, has nothing to lose: it is deleted, and created again by
// a later step. So is one that was verified with another BMC.
func (r *Registrar) update(ctx context.Context, reg registration, node *ironic.Node) (deleted bool, err error) {
	current, err := r.Ironic.GetRegistration(ctx, node.UUID)
	if err != nil {
		return false, err
	}
	// A node that somebody has reserved is not ours to delete.
	isOurs := isMadeFor(reg.host, current) && (node.InstanceUUID == "" || lifecycle.IsOwnInstance(reg.host, node.UUID, node.InstanceUUID))
	access := reg.wanted.access
	isUnusedState := node.ProvisionState == ironic.Enroll || node.ProvisionState == ironic.Manageable && lifecycle.IsEnrolling(reg.host)
	if isOurs && isUnusedState && (node.Driver != access.Driver || current.BootInterface != access.BootInterface) {
		return true, r.deleteToRecreate(ctx, reg, node, "another driver or boot interface is wanted")
	}
	if isOurs && node.ProvisionState != ironic.Enroll && lifecycle.IsEnrolling(reg.host) && hasAnotherBMC(reg.host, node) {
		return true, r.deleteToRecreate(ctx, reg, node, "another BMC is wanted, which is to be verified")
	}
	patches := r.registrationPatches(reg, node, current)
	if len(patches) == 0 {
		return false, nil
	}
	updated, err := r.Ironic.UpdateNode(ctx, reg.fence, node.UUID, patches)
	if err != nil {
		return false, err
	}
	log := klog.FromContext(ctx)
	log.V(2).Info("Node updated", "node", node.UUID, "paths", pathsOf(patches)) // never with values: some are passwords
	if !updated.IsOwnParent() {
		return false, nil
	}
	status := &reg.host.Status
	isUnused := node.ProvisionState == ironic.Enroll ||
		node.ProvisionState == ironic.Manageable && status.Provisioning.State == metal3.StateRegistering && status.Record.RegisteredWith == nil
	if isOurs && isUnused {
		return true, r.deleteToRecreate(ctx, reg, node, "Ironic has made it its own parent")
	}
	log.Info("Ironic has made the node its own parent and no longer synchronises its power", "node", node.UUID)
	return false, nil
}

// hasAnotherBMC reports whether Ironic was told another BMC for the node than the one in the host's spec. Ironic verifies none anew of
// which it is told when the node is manageable already; and who only writes the address of a BMC must not pass for one who has it.
func hasAnotherBMC(host *metal3.BareMetalHost, node *ironic.Node) bool {
	told := lifecycle.KeyOfNode(node)
	if with := host.Status.Record.RegisteredWith; told.IsZero() && with != nil {
		told = bmc.ParseKey(with.BMC) // Ironic conceals it
	}
	return !told.IsZero() && !told.Matches(lifecycle.BMCKey(host))
}

// registrationPatches are what turns the node's registration into what is wanted. Marks alone are no
// reason for a PATCH unless they are wrong.
func (r *Registrar) registrationPatches(reg registration, node *ironic.Node, current *ironic.Registration) []ironic.Patch {
	tried := reg.host.Status.TriedCredentials
	isPasswordKnown := tried.Reference != nil && tried.Reference.Name == reg.host.Spec.BMC.CredentialsName && !lifecycle.IsNewerVersion(reg.credentials.Since, tried.Version)
	info := reg.wanted.driverInfo(reg.credentials)
	if name := current.DriverInfo[ipmiAddressKey]; name != nil && !reg.wanted.isSpellingMinded && isSameName(name, info[ipmiAddressKey]) {
		info[ipmiAddressKey] = name // each PATCH may do harm to a node of an older Ironic
	}
	if params, has := current.DriverInfo[kernelParamsKey]; has && reg.wanted.keepsImage {
		info[kernelParamsKey] = params // they may be those of the image
	}
	if url, has := current.DriverInfo[externalURLKey]; has && reg.wanted.keepsExternalURL {
		info[externalURLKey] = url
	}
	patches := driverInfoPatches(current.DriverInfo, info, isPasswordKnown)
	patches = append(patches, reg.wanted.patches(reg.host, node, current)...)
	if node.IsOwnParent() && len(patches) == 0 && current.DriverInfo[ironic.PowerSupplyKey] == nil {
		patches = append(patches, ironic.Patch{Op: ironic.PatchAdd, Path: "/driver_info/" + ironic.PowerSupplyKey, Value: true})
	}
	if marks := r.marksOf(reg.host); len(patches) > 0 || isMarkedOtherwise(marks, current) {
		patches = append(patches, markPatches(marks, current)...)
	}
	return patches
}

// deleteToRecreate deletes a node of which nothing is lost. It is recorded before, so that the node is not taken for one that Ironic has
// lost.
func (r *Registrar) deleteToRecreate(ctx context.Context, reg registration, node *ironic.Node, reason string) error {
	if lifecycle.IsNodeExpected(reg.host) {
		if _, err := r.Recorder.RecordWhileTrue(ctx, reg.host, recorder.HasSpecOf(reg.host), lifecycle.MarkNodeRemoved); err != nil {
			return err
		}
	}
	klog.FromContext(ctx).Info("The node is deleted, to be created again", "node", node.UUID, "reason", reason)
	if node.InstanceUUID != "" { // Ironic deletes no node with an instance
		switch _, err := r.Ironic.UpdateNode(ctx, reg.fence, node.UUID, []ironic.Patch{{Op: ironic.PatchRemove, Path: "/instance_uuid"}}); {
		case ironic.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
	}
	if err := r.Ironic.DeleteNode(ctx, reg.fence, node.UUID); !ironic.IsNotFound(err) {
		return err
	}
	return nil
}

func pathsOf(patches []ironic.Patch) (paths []string) {
	for _, p := range patches {
		paths = append(paths, p.Path)
	}
	return paths
}

// missing says what the registration lacks, or will: network cards for which Ironic has no port, the Secret if it is being deleted, and
// credentials that IPMI can carry. (They are told all the same: where ipmitool cuts them off, a BMC that has done so, too, takes them.)
func (reg registration) missing(ports []string) string {
	var messages []string
	if reg.credentials.Leaving {
		messages = append(messages, fmt.Sprintf("Secret %q is being deleted, and is gone as soon as no host claims it any more. Create another one with the credentials of the BMC, and name that in spec.bmc.credentialsName", reg.host.Spec.BMC.CredentialsName))
	}
	if tooLong := reg.wanted.access.TooLong(reg.credentials.Username, reg.credentials.Password); tooLong != nil {
		messages = append(messages, fmt.Sprintf("Secret %q: %s. If the BMC refuses the credentials, give its user shorter ones", reg.host.Spec.BMC.CredentialsName, strings.Join(tooLong, ", and ")))
	}
	if text := missingPorts(ports); text != "" {
		messages = append(messages, text)
	}
	if reg.wanted.hasOtherNetwork {
		messages = append(messages, fmt.Sprintf("Secret %q has no key networkData, so the ramdisk gets its addresses by DHCP. (Only servers that have images built read a key nmstate.)", reg.host.Spec.PreprovisioningNetworkDataName))
	}
	return strings.Join(messages, ". ")
}

// recordRegistered records that Ironic has what the spec and the Secret say, and releases the Secrets that
// were used before. The message says which ports are missing.
func (r *Registrar) recordRegistered(ctx context.Context, reg registration, message string, with metal3.RegisteredWith) error {
	host := reg.host
	_, err := r.Recorder.RecordWhileTrue(ctx, host, recorder.HasSpecOf(host), func(h *metal3.BareMetalHost) {
		lifecycle.SetTriedCredentials(h, reg.credentials.Version, r.Clock.Now())
		lifecycle.SetRegistered(h, with, message)
	})
	if err != nil {
		return err
	}
	return r.releaseFormer(ctx, reg)
}

// releaseFormer releases the Secrets that the host does not name any more. In a cluster that refuses owners, only that is known which was
// tried last.
func (r *Registrar) releaseFormer(ctx context.Context, reg registration) error {
	host := reg.host
	former := sets.New(r.Secrets.HeldFor(host)...).Insert(reg.former).Delete("", host.Spec.BMC.CredentialsName, host.Spec.PreprovisioningNetworkDataName)
	for _, name := range sets.List(former) {
		if err := r.Secrets.Release(ctx, host, name); err != nil {
			return fmt.Errorf("releasing Secret %s/%s: %w", host.Namespace, name, err)
		}
	}
	return nil
}
