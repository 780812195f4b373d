// Package firmware keeps the HostFirmwareSettings of hosts with their FirmwareSchemas, and their
// HostFirmwareComponents, up to date with Ironic. What is wanted of them is computed by the package settings.
package firmware

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

// Ironic is the request to Ironic that a Keeper makes. It reads Ironic's database only.
type Ironic interface {
	ListBIOSSettings(ctx context.Context, uuid string) ([]ironic.BIOSSetting, error)
}

// Objects gives access to the recorded objects of a kind, without the API.
type Objects[T runtime.Object] interface {
	Get(ctx context.Context, namespace, name string) (T, error)
	Create(ctx context.Context, obj T) (T, error)
	// Update writes metadata and spec, and UpdateStatus the status. The error is a Conflict if the
	// object has been written since its resourceVersion.
	Update(ctx context.Context, obj T) (T, error)
	UpdateStatus(ctx context.Context, obj T) (T, error)
}

// Keeper keeps the HostFirmwareSettings of hosts.
type Keeper struct {
	Settings Objects[*metal3.HostFirmwareSettings]
	Schemas  Objects[*metal3.FirmwareSchema]
	Ironic   Ironic
	Clock    clock.PassiveClock

	lists sharedLists[ironic.BIOSSetting]
}

// maxRaces bounds how often an object is written anew because somebody else has written it.
const maxRaces = 10

// EnsureExists creates the settings of a host if they do not exist, and makes the host their owner. It
// does not ask Ironic.
func (k *Keeper) EnsureExists(ctx context.Context, host *metal3.BareMetalHost) error {
	firmware, err := k.Settings.Get(ctx, host.Namespace, host.Name)
	if apierrors.IsNotFound(err) {
		firmware, err = k.Settings.Create(ctx, &metal3.HostFirmwareSettings{
			ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name, OwnerReferences: []metav1.OwnerReference{ownerReference("BareMetalHost", host)}},
			Spec:       metal3.HostFirmwareSettingsSpec{Settings: metal3.DesiredSettingsMap{}},
		})
	}
	if err == nil && !IsOwned(firmware, host) {
		firmware = firmware.DeepCopy()
		firmware.OwnerReferences = append(firmware.OwnerReferences, ownerReference("BareMetalHost", host))
		_, err = k.Settings.Update(ctx, firmware)
	}
	if err != nil {
		return fmt.Errorf("writing HostFirmwareSettings %s/%s: %w", host.Namespace, host.Name, err)
	}
	return nil
}

// Ensure creates the settings of a host if they do not exist, makes the host their owner, and
// refreshes them. It returns them with their schema, which is nil if Ironic has not been asked yet.
func (k *Keeper) Ensure(ctx context.Context, host *metal3.BareMetalHost) (*metal3.HostFirmwareSettings, *metal3.FirmwareSchema, error) {
	if err := k.EnsureExists(ctx, host); err != nil {
		return nil, nil, err
	}
	return k.Refresh(ctx, host)
}

// IsOwned tells whether host is an owner of obj.
func IsOwned(obj, host metav1.Object) bool {
	for _, owner := range obj.GetOwnerReferences() {
		if owner.UID == host.GetUID() {
			return true
		}
	}
	return false
}

// ownerReference is not that of a controller, as in the Bare Metal Operator.
func ownerReference(kind string, owner metav1.Object) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: metal3.SchemeGroupVersion.String(), Kind: kind, Name: owner.GetName(), UID: owner.GetUID()}
}

// Refresh records in the settings of a host what Ironic has read from the BMC, if Ironic may have
// read them since they were recorded, and whether the spec differs and is valid. It returns the
// settings with their schema, which is nil if Ironic has not been asked yet.
func (k *Keeper) Refresh(ctx context.Context, host *metal3.BareMetalHost) (*metal3.HostFirmwareSettings, *metal3.FirmwareSchema, error) {
	for race := 0; ; race++ {
		firmware, schema, err := k.refresh(ctx, host)
		if !isRace(err) || race == maxRaces {
			return firmware, schema, err
		}
	}
}

// isRace tells whether somebody else has written or created the same object. Hosts of a model share a
// schema, so many of them may create it at the same time.
func isRace(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

func (k *Keeper) refresh(ctx context.Context, host *metal3.BareMetalHost) (*metal3.HostFirmwareSettings, *metal3.FirmwareSchema, error) {
	recorded, err := k.Settings.Get(ctx, host.Namespace, host.Name)
	if err != nil {
		return nil, nil, err
	}
	firmware := recorded.DeepCopy()
	var schema *metal3.FirmwareSchema
	if named := firmware.Status.FirmwareSchema; named != nil {
		schema, err = k.Schemas.Get(ctx, named.Namespace, named.Name)
		if apierrors.IsNotFound(err) {
			schema, err = nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if source := settings.SourceOf(host); source != nil && (schema == nil || settings.IsOutdated(host, firmware.Status.Source)) {
		list, err := k.lists.of(ctx, source, k.Ironic.ListBIOSSettings)
		if err != nil {
			return nil, nil, err
		}
		if schema, err = k.ensureSchema(ctx, settings.SchemaOf(host, list), firmware); err != nil {
			return nil, nil, fmt.Errorf("writing FirmwareSchema: %w", err)
		}
		settings.RecordBIOS(firmware, list, schema, source)
	}
	if !settings.Judge(firmware, recorded, schema, metav1.NewTime(k.Clock.Now().Truncate(1e9))) {
		return recorded, schema, nil
	}
	firmware, err = k.Settings.UpdateStatus(ctx, firmware)
	return firmware, schema, err
}

// maxOwners bounds the owners of a schema, which thousands of hosts of a model may share. Each one is
// a write of the schema, for which all hosts of the model compete after the server has started, and the
// metadata of an object is limited. If the schema is deleted with the last of its owners while
// others still use it, it is created again when their settings are next refreshed.
const maxOwners = 50

// ensureSchema creates the schema if it does not exist, and makes firmware an owner of it.
func (k *Keeper) ensureSchema(ctx context.Context, wanted *metal3.FirmwareSchema, firmware *metal3.HostFirmwareSettings) (*metal3.FirmwareSchema, error) {
	owner := ownerReference("HostFirmwareSettings", firmware)
	schema, err := k.Schemas.Get(ctx, wanted.Namespace, wanted.Name)
	switch {
	case apierrors.IsNotFound(err):
		wanted.OwnerReferences = []metav1.OwnerReference{owner}
		return k.Schemas.Create(ctx, wanted)
	case err != nil:
		return nil, err
	}
	owned := IsOwned(schema, firmware) || len(schema.OwnerReferences) >= maxOwners
	if owned && equality.Semantic.DeepEqual(schema.Spec.Schema, wanted.Spec.Schema) {
		return schema, nil
	}
	schema = schema.DeepCopy()
	schema.Spec.Schema = wanted.Spec.Schema
	if !owned {
		schema.OwnerReferences = append(schema.OwnerReferences, owner)
	}
	return k.Schemas.Update(ctx, schema)
}

// Has tells whether the host is one that has HostFirmwareSettings: it is registered in Ironic,
// and is neither detached nor being deleted.
func Has(host *metal3.BareMetalHost) bool {
	node := host.Status.Ironic
	_, paused := host.Annotations[metal3.PausedAnnotation]
	return node != nil && node.StateChangedAt != nil && node.ProvisionState != string(ironic.Enroll) &&
		host.DeletionTimestamp.IsZero() && !paused && host.Status.OperationalStatus != metal3.OperationalStatusDetached
}

// IsChanged tells whether the spec of an object is not what the machine has, according to the
// object's conditions.
func IsChanged(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, settings.ChangeDetectedCondition)
}

// IsDue tells whether Ensure may have something to do. recorded is nil if the settings do not exist.
func IsDue(host *metal3.BareMetalHost, recorded *metal3.HostFirmwareSettings) bool {
	if !Has(host) {
		return false
	}
	if recorded == nil || !IsOwned(recorded, host) || recorded.Status.FirmwareSchema == nil || settings.IsOutdated(host, recorded.Status.Source) {
		return true
	}
	return !areJudged(recorded.Status.Conditions, recorded.Generation)
}

// areJudged tells whether the conditions of an object are about its spec of now.
func areJudged(conditions []metav1.Condition, generation int64) bool {
	for _, c := range conditions {
		if c.ObservedGeneration != generation {
			return false
		}
	}
	return len(conditions) > 0
}
