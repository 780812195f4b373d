// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

// ComponentKeeper keeps the HostFirmwareComponents of hosts.
type ComponentKeeper = Keeper[*metal3.HostFirmwareComponents]

// NewComponentKeeper returns a ComponentKeeper.
func NewComponentKeeper(objects kinds.Store[*metal3.HostFirmwareComponents], ironicOf IronicOf, c clock.Clock) *ComponentKeeper {
	lists := newLists("firmware components", c)
	return &ComponentKeeper{kind: &components{ironicOf: ironicOf, lists: lists}, objects: objects, lists: lists, clock: c}
}

// components is what is particular to HostFirmwareComponents.
type components struct {
	ironicOf IronicOf
	lists    *lists
}

func (*components) name() string { return "HostFirmwareComponents" }

// canHave reports whether the host's driver can update firmware. The others have no HostFirmwareComponents,
// unless a user creates one.
func (*components) canHave(host *metal3.BareMetalHost) bool {
	access, err := bmc.Parse(host.Spec.BMC.Address, host.Spec.BMC.DisableCertificateVerification)
	return err == nil && access.FirmwareInterface != ""
}

func (c *components) isSupported(ctx context.Context, host *metal3.BareMetalHost) (bool, error) {
	client, err := c.ironicOf(host)
	if err != nil {
		return false, err
	}
	features, err := client.Features(ctx)
	return features.Firmware, err
}

func (*components) newObject(meta metav1.ObjectMeta) *metal3.HostFirmwareComponents {
	return &metal3.HostFirmwareComponents{ObjectMeta: meta, Spec: metal3.HostFirmwareComponentsSpec{Updates: []metal3.FirmwareUpdate{}}}
}

// update also records which updates were made.
func (c *components) update(ctx context.Context, host *metal3.BareMetalHost, obj, recorded *metal3.HostFirmwareComponents, now metav1.Time) (changed, usable bool, err error) {
	supported, err := c.isSupported(ctx, host)
	if err != nil {
		return false, false, err
	}
	if !supported {
		return settings.RefuseUpdates(obj, recorded, now), false, nil
	}
	var unread *unreadError
	if source := settings.SourceOf(host); source != nil && settings.IsOutdated(host, obj.Status.Source) {
		client, err := c.ironicOf(host)
		if err != nil {
			return false, false, err
		}
		list, err := listOf(ctx, c.lists, host.Status.Record.Ironic, source, client.ListFirmware)
		switch {
		case errors.As(err, &unread):
			settings.Unread(&obj.Status.Conditions, obj.Generation, unread.Error(), now)
		case err != nil:
			return false, false, err
		default:
			settings.RecordFirmware(obj, list, source)
		}
	}
	settings.RecordUpdates(obj, host)
	changed = settings.UpdateComponentConditions(obj, recorded, now)
	if unread != nil {
		return changed, false, unread
	}
	return changed, true, nil
}

func (*components) settle(context.Context, *metal3.HostFirmwareComponents, *metal3.HostFirmwareComponents, error) {
}

func (*components) isOutdated(host *metal3.BareMetalHost, recorded *metal3.HostFirmwareComponents) bool {
	return settings.IsOutdated(host, recorded.Status.Source) || settings.HasUnrecordedUpdates(host, recorded)
}

func (*components) conditions(obj *metal3.HostFirmwareComponents) []metav1.Condition {
	return obj.Status.Conditions
}

func (*components) isRequested(obj *metal3.HostFirmwareComponents) bool {
	return len(obj.Spec.Updates) > 0
}

func (*components) isPermitted(policy *metal3.HostUpdatePolicySpec) bool {
	return policy.FirmwareUpdates == metal3.UpdateOnReboot
}

// mustRecord: in any state of the host, it is recorded what a preparation has updated before another one
// may begin.
func (*components) mustRecord(host *metal3.BareMetalHost, recorded *metal3.HostFirmwareComponents) bool {
	return settings.HasUnrecordedUpdates(host, recorded)
}
