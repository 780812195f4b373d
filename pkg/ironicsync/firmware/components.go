package firmware

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

// ComponentIronic has the requests to Ironic that a ComponentKeeper makes. They read Ironic's database
// only.
type ComponentIronic interface {
	// Supports tells whether Ironic has its API 1.minor.
	Supports(ctx context.Context, minor int) (bool, error)
	ListFirmware(ctx context.Context, uuid string) ([]ironic.FirmwareComponent, error)
}

// ComponentKeeper keeps the HostFirmwareComponents of hosts.
type ComponentKeeper struct {
	Components Objects[*metal3.HostFirmwareComponents]
	Ironic     ComponentIronic
	Clock      clock.PassiveClock

	lists sharedLists[ironic.FirmwareComponent]
}

// EnsureExists creates the components of a host if they do not exist and its firmware can be updated, and
// makes the host their owner. It does not ask Ironic for them. It tells whether they exist.
func (k *ComponentKeeper) EnsureExists(ctx context.Context, host *metal3.BareMetalHost) (exist bool, err error) {
	components, err := k.Components.Get(ctx, host.Namespace, host.Name)
	if apierrors.IsNotFound(err) {
		if supported, err := k.Ironic.Supports(ctx, ironic.FirmwareVersion); err != nil || !supported || !hasFirmwareInterface(host) {
			return false, err
		}
		components, err = k.Components.Create(ctx, &metal3.HostFirmwareComponents{
			ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name, OwnerReferences: []metav1.OwnerReference{ownerReference("BareMetalHost", host)}},
			Spec:       metal3.HostFirmwareComponentsSpec{Updates: []metal3.FirmwareUpdate{}},
		})
	}
	if err == nil && !IsOwned(components, host) {
		components = components.DeepCopy()
		components.OwnerReferences = append(components.OwnerReferences, ownerReference("BareMetalHost", host))
		_, err = k.Components.Update(ctx, components)
	}
	if err != nil {
		return false, fmt.Errorf("writing HostFirmwareComponents %s/%s: %w", host.Namespace, host.Name, err)
	}
	return true, nil
}

// Ensure creates the components of a host if they do not exist and its firmware can be updated,
// makes the host their owner, and refreshes them. It returns nil if Ironic cannot update firmware.
func (k *ComponentKeeper) Ensure(ctx context.Context, host *metal3.BareMetalHost) (*metal3.HostFirmwareComponents, error) {
	if exist, err := k.EnsureExists(ctx, host); err != nil || !exist {
		return nil, err
	}
	return k.Refresh(ctx, host)
}

// Refresh records in the components of a host what Ironic has read from the BMC, if Ironic may have
// read it since it was recorded, which updates were made, and whether the spec differs and is valid.
// It returns nil if Ironic cannot update firmware.
func (k *ComponentKeeper) Refresh(ctx context.Context, host *metal3.BareMetalHost) (*metal3.HostFirmwareComponents, error) {
	for race := 0; ; race++ {
		components, err := k.refresh(ctx, host)
		if !isRace(err) || race == maxRaces {
			return components, err
		}
	}
}

func (k *ComponentKeeper) refresh(ctx context.Context, host *metal3.BareMetalHost) (*metal3.HostFirmwareComponents, error) {
	recorded, err := k.Components.Get(ctx, host.Namespace, host.Name)
	if err != nil {
		return nil, err
	}
	supported, err := k.Ironic.Supports(ctx, ironic.FirmwareVersion)
	if err != nil {
		return nil, err
	}
	components := recorded.DeepCopy()
	now := metav1.NewTime(k.Clock.Now().Truncate(1e9))
	if !supported {
		if settings.RefuseUpdates(components, recorded, now) {
			_, err = k.Components.UpdateStatus(ctx, components)
		}
		return nil, err
	}
	if source := settings.SourceOf(host); source != nil && settings.IsOutdated(host, components.Status.Source) {
		list, err := k.lists.of(ctx, source, k.Ironic.ListFirmware)
		if err != nil {
			return nil, err
		}
		settings.RecordFirmware(components, list, source)
	}
	settings.RecordUpdates(components, host)
	if !settings.JudgeUpdates(components, recorded, now) {
		return recorded, nil
	}
	return k.Components.UpdateStatus(ctx, components)
}

// hasFirmwareInterface tells whether the host's driver can update firmware. The others have no
// HostFirmwareComponents, unless a user creates one.
func hasFirmwareInterface(host *metal3.BareMetalHost) bool {
	access, err := bmc.Parse(host.Spec.BMC.Address, host.Spec.BMC.DisableCertificateVerification)
	return err == nil && access.FirmwareInterface != ""
}

// AreComponentsDue tells whether Ensure of a ComponentKeeper may have something to do. recorded is nil
// if the components do not exist.
func AreComponentsDue(host *metal3.BareMetalHost, recorded *metal3.HostFirmwareComponents) bool {
	switch {
	case !Has(host):
		return false
	case recorded == nil:
		return hasFirmwareInterface(host)
	case !IsOwned(recorded, host), settings.IsOutdated(host, recorded.Status.Source), settings.HasUnrecordedUpdates(host, recorded):
		return true
	}
	return !areJudged(recorded.Status.Conditions, recorded.Generation)
}
