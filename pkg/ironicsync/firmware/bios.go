// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

// SettingsKeeper keeps the HostFirmwareSettings of hosts, and the FirmwareSchemas that hosts of a model share.
type SettingsKeeper struct {
	*Keeper[*metal3.HostFirmwareSettings]
	schemas  schemas
	ironicOf IronicOf
}

// NewSettingsKeeper returns a SettingsKeeper.
func NewSettingsKeeper(objects kinds.Store[*metal3.HostFirmwareSettings], stored SchemaStore, ironicOf IronicOf, c clock.Clock) *SettingsKeeper {
	schemas, lists := schemas{stored}, newLists("BIOS settings", c)
	return &SettingsKeeper{&Keeper[*metal3.HostFirmwareSettings]{
		kind: &biosSettings{objects: objects, schemas: schemas, ironicOf: ironicOf, lists: lists}, objects: objects, lists: lists, clock: c,
	}, schemas, ironicOf}
}

// SchemaOf returns the schema of the settings of a host, or nil if Ironic has not been asked yet.
func (k *SettingsKeeper) SchemaOf(ctx context.Context, recorded *metal3.HostFirmwareSettings) (*metal3.FirmwareSchema, error) {
	return k.schemas.of(ctx, recorded)
}

// biosSettings is what is particular to HostFirmwareSettings.
type biosSettings struct {
	objects  kinds.Getter[*metal3.HostFirmwareSettings]
	schemas  schemas
	ironicOf IronicOf
	lists    *lists
}

func (*biosSettings) name() string                       { return "HostFirmwareSettings" }
func (*biosSettings) canHave(*metal3.BareMetalHost) bool { return true }

func (*biosSettings) isSupported(context.Context, *metal3.BareMetalHost) (bool, error) {
	return true, nil
}

func (*biosSettings) newObject(meta metav1.ObjectMeta) *metal3.HostFirmwareSettings {
	return &metal3.HostFirmwareSettings{ObjectMeta: meta, Spec: metal3.HostFirmwareSettingsSpec{Settings: metal3.DesiredSettingsMap{}}}
}

func (b *biosSettings) update(ctx context.Context, host *metal3.BareMetalHost, obj, recorded *metal3.HostFirmwareSettings, now metav1.Time) (changed, usable bool, err error) {
	schema, err := b.schemas.of(ctx, obj)
	if err != nil {
		return false, false, err
	}
	var unread *unreadError
	if source := settings.SourceOf(host); source != nil && (schema == nil || settings.IsOutdated(host, obj.Status.Source)) {
		known, err := b.read(ctx, host, obj, source)
		switch {
		case errors.As(err, &unread):
			settings.Unread(&obj.Status.Conditions, obj.Generation, unread.Error(), now)
			if obj.Status.Settings == nil { // it was never read, and a status must have them
				obj.Status.Settings = metal3.SettingsMap{}
			}
		case err != nil:
			return false, false, err
		default:
			schema = known
		}
	}
	changed = settings.UpdateBIOSConditions(obj, recorded, schema, now)
	if unread != nil {
		return changed, false, unread
	}
	return changed, true, nil
}

// read records in obj what Ironic says now, and returns the schema of that.
func (b *biosSettings) read(ctx context.Context, host *metal3.BareMetalHost, obj *metal3.HostFirmwareSettings, source *metal3.SettingsSource) (*metal3.FirmwareSchema, error) {
	client, err := b.ironicOf(host)
	if err != nil {
		return nil, err
	}
	list, err := listOf(ctx, b.lists, host.Status.Record.Ironic, source, client.ListBIOSSettings)
	if err != nil {
		return nil, err
	}
	schema, err := b.schemas.ensure(ctx, settings.SchemaOf(host, list), obj)
	if err != nil {
		return nil, fmt.Errorf("writing FirmwareSchema: %w", err)
	}
	settings.RecordBIOS(obj, list, schema, source)
	return schema, nil
}

// leaveTimeout bounds how long a schema is left, for which nobody waits.
const leaveTimeout = 10 * time.Second

// settle leaves each schema that the status does not name: the one of before, or, if the status was not written, the one that it was to
// name. The schema is written first, so that no status names one that is missing, and the former
// one is left last, because a status that is refused goes on naming it.
func (b *biosSettings) settle(ctx context.Context, recorded, obj *metal3.HostFirmwareSettings, writeErr error) {
	former, latest := recorded.Status.FirmwareSchema, obj.Status.FirmwareSchema
	if latest == nil || former != nil && *former == *latest {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout) // what a reader does not wait for is left all the same
	defer cancel()
	named := latest
	if writeErr != nil {
		is, err := b.objects.Get(ctx, obj.Namespace, obj.Name)
		if err != nil {
			if !apierrors.IsNotFound(err) { // else the garbage collector deletes what it owns
				klog.FromContext(ctx).Error(err, "A FirmwareSchema may stay that nothing uses", "schema", latest.Name)
			}
			return
		}
		named = is.Status.FirmwareSchema
	}
	for _, ref := range []*metal3.SchemaReference{former, latest} {
		if ref == nil || named != nil && *ref == *named {
			continue
		}
		if err := b.schemas.leave(ctx, ref, obj); err != nil {
			klog.FromContext(ctx).Error(err, "A FirmwareSchema may stay that nothing uses", "schema", ref.Name)
		}
	}
}

func (*biosSettings) isOutdated(host *metal3.BareMetalHost, recorded *metal3.HostFirmwareSettings) bool {
	return recorded.Status.FirmwareSchema == nil || settings.IsOutdated(host, recorded.Status.Source)
}

func (*biosSettings) conditions(obj *metal3.HostFirmwareSettings) []metav1.Condition {
	return obj.Status.Conditions
}

func (*biosSettings) isRequested(obj *metal3.HostFirmwareSettings) bool {
	return len(obj.Spec.Settings) > 0
}

func (*biosSettings) isPermitted(policy *metal3.HostUpdatePolicySpec) bool {
	return policy.FirmwareSettings == metal3.UpdateOnReboot
}

func (*biosSettings) mustRecord(*metal3.BareMetalHost, *metal3.HostFirmwareSettings) bool {
	return false // the BMC says what it has
}

// SchemaStore reads and writes FirmwareSchemas.
type SchemaStore interface {
	kinds.Store[*metal3.FirmwareSchema]
	// Delete deletes a schema. It returns a Conflict if somebody has written it since it was read.
	Delete(ctx context.Context, schema *metal3.FirmwareSchema) error
}

// schemas are the recorded FirmwareSchemas.
type schemas struct {
	objects SchemaStore
}

// maxOwners bounds the owners of a schema, which thousands of hosts of a model may share. Each one is
// a write of the schema, for which all hosts of the model compete after the server has started, and the
// metadata of an object is limited. If the schema is deleted with the last of its owners while
// others still use it, it is created again when their settings are next refreshed.
const maxOwners = 50

// of returns the schema of the settings of a host, or nil if there is none.
func (s schemas) of(ctx context.Context, obj *metal3.HostFirmwareSettings) (*metal3.FirmwareSchema, error) {
	named := obj.Status.FirmwareSchema
	if named == nil {
		return nil, nil
	}
	schema, err := s.objects.Get(ctx, named.Namespace, named.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return schema, err
}

// ensure creates the schema if it does not exist, and makes obj an owner of it. Hosts of a model write the same schema: only that
// is repeated if another one was faster, and Ironic is not asked again for what it has just said.
func (s schemas) ensure(ctx context.Context, wanted *metal3.FirmwareSchema, obj *metal3.HostFirmwareSettings) (*metal3.FirmwareSchema, error) {
	return retryRaces(func() (*metal3.FirmwareSchema, error) { return s.write(ctx, wanted, obj) })
}

// write is one attempt of ensure.
func (s schemas) write(ctx context.Context, wanted *metal3.FirmwareSchema, obj *metal3.HostFirmwareSettings) (*metal3.FirmwareSchema, error) {
	owner := metal3.NewOwnerReference("HostFirmwareSettings", obj)
	schema, err := s.objects.Get(ctx, wanted.Namespace, wanted.Name)
	switch {
	case apierrors.IsNotFound(err):
		wanted.OwnerReferences = []metav1.OwnerReference{owner}
		return s.objects.Create(ctx, wanted)
	case err != nil:
		return nil, err
	}
	isSame := equality.Semantic.DeepEqual(schema.Spec.Schema, wanted.Spec.Schema)
	if other := settings.NameByContents(wanted); !isSame && isOfOthers(schema, obj) && wanted.Name != other {
		wanted.Name = other // what is read-only may differ within a model, and has the same name by the operator's rule
		return s.write(ctx, wanted, obj)
	}
	owned := metal3.IsOwnedBy(schema, obj) || len(schema.OwnerReferences) >= maxOwners
	if owned && isSame {
		return schema, nil
	}
	schema = schema.DeepCopy()
	schema.Spec.Schema = wanted.Spec.Schema
	if !owned {
		schema.OwnerReferences = append(schema.OwnerReferences, owner)
	}
	return s.objects.Update(ctx, schema)
}

// isOfOthers reports whether a schema has another owner than obj.
func isOfOthers(schema *metal3.FirmwareSchema, obj *metal3.HostFirmwareSettings) bool {
	return slices.ContainsFunc(schema.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID != obj.UID })
}

// leave takes obj from the owners of a schema that its status does not name, and deletes that with the last of them: each has up to
// 768 KiB, and a BMC can tell another one at each look. What still uses it gets it anew, as for maxOwners.
func (s schemas) leave(ctx context.Context, unnamed *metal3.SchemaReference, obj *metal3.HostFirmwareSettings) error {
	_, err := retryRaces(func() (*metal3.FirmwareSchema, error) {
		schema, err := s.objects.Get(ctx, unnamed.Namespace, unnamed.Name)
		if err != nil || !metal3.IsOwnedBy(schema, obj) {
			return schema, err
		}
		schema = schema.DeepCopy()
		schema.OwnerReferences = slices.DeleteFunc(schema.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == obj.UID })
		if len(schema.OwnerReferences) == 0 {
			return schema, s.objects.Delete(ctx, schema)
		}
		return s.objects.Update(ctx, schema)
	})
	return kinds.IgnoreNotFound(err)
}

// schemaPage is how many schemas leaveUnnamed has in memory.
const schemaPage = 10

// leaveUnnamed leaves all schemas that the statuses of their owners do not name: those whose statuses no server came to write, and what
// older versions left.
func (k *SettingsKeeper) leaveUnnamed(ctx context.Context) error {
	for page := (metav1.ListOptions{Limit: schemaPage}); ; {
		list, err := k.schemas.objects.List(ctx, page)
		if err != nil {
			return err
		}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			schema, ok := item.(*metal3.FirmwareSchema)
			if !ok {
				return nil
			}
			if err := k.leaveIfUnnamed(ctx, schema); err != nil {
				klog.FromContext(ctx).Error(err, "A FirmwareSchema may stay that nothing uses", "namespace", schema.Namespace, "schema", schema.Name)
			}
			return nil
		})
		if err != nil {
			return err
		}
		more, err := meta.ListAccessor(list)
		if err != nil || more.GetContinue() == "" {
			return err
		}
		page.Continue = more.GetContinue()
	}
}

// leaveIfUnnamed takes those from the owners of a schema that do not name it. The garbage collector takes those that are gone.
func (k *SettingsKeeper) leaveIfUnnamed(ctx context.Context, schema *metal3.FirmwareSchema) error {
	named := metal3.SchemaReference{Namespace: schema.Namespace, Name: schema.Name}
	for _, owner := range schema.OwnerReferences {
		obj, err := k.objects.Get(ctx, schema.Namespace, owner.Name)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return err
		case obj.UID != owner.UID || obj.Status.FirmwareSchema != nil && *obj.Status.FirmwareSchema == named:
			continue
		}
		if err := k.schemas.leave(ctx, &named, obj); err != nil {
			return err
		}
	}
	return nil
}
