// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

// Ironic has the requests to Ironic. The lists come from its database only.
type Ironic interface {
	Features(ctx context.Context) (ironic.Features, error)
	ListBIOSSettings(ctx context.Context, uuid string) ([]ironic.BIOSSetting, error)
	ListFirmware(ctx context.Context, uuid string) ([]ironic.FirmwareComponent, error)
}

// IronicOf returns the Ironic that has the node of a host.
type IronicOf func(host *metal3.BareMetalHost) (Ironic, error)

// kind is what is particular to a kind of which each host has one object, of its name.
type kind[T kinds.Object] interface {
	// name is that of the kind.
	name() string
	// canHave reports whether the objects of a host make sense, as far as that follows from the host.
	canHave(host *metal3.BareMetalHost) bool
	// isSupported reports whether the host's Ironic has an API for them.
	isSupported(ctx context.Context, host *metal3.BareMetalHost) (bool, error)
	// newObject returns an object with an empty spec.
	newObject(meta metav1.ObjectMeta) T
	// update brings obj, a copy of recorded, up to date with Ironic. It reports whether the status has
	// changed, and whether the object can be used: it cannot if Ironic does not support it. If Ironic does not give its contents,
	// the error is an *unreadError, and the status may have changed all the same.
	update(ctx context.Context, host *metal3.BareMetalHost, obj, recorded T, now metav1.Time) (changed, usable bool, err error)
	// settle follows update: what is not needed of recorded goes, or what obj would have needed if its status was not written, because
	// of writeErr.
	settle(ctx context.Context, recorded, obj T, writeErr error)
	// isOutdated reports whether update may have something to do, apart from the conditions.
	isOutdated(host *metal3.BareMetalHost, recorded T) bool
	// conditions returns the conditions of an object.
	conditions(obj T) []metav1.Condition
	// isRequested reports whether the spec asks for anything.
	isRequested(obj T) bool
	// isPermitted reports whether changes may be made while the host runs something.
	isPermitted(policy *metal3.HostUpdatePolicySpec) bool
	// mustRecord reports whether something that was done to the machine has to be recorded in the object
	// before anything else is done.
	mustRecord(host *metal3.BareMetalHost, recorded T) bool
}

// Keeper keeps the objects of a kind, of which each host has one, of its name.
type Keeper[T kinds.Object] struct {
	kind    kind[T]
	objects kinds.Store[T]
	lists   *lists
	clock   clock.Clock
}

// maxRaces bounds how often an object is written anew because another replica or host has written it.
const maxRaces = 10

// ensureExists creates the object of a host if it does not exist and Ironic supports it, and makes the host
// its owner. Ironic is not asked for its contents. It reports whether the object exists. That of a former host is not the host's, which
// gets its own when the garbage collector has deleted it.
func (k *Keeper[T]) ensureExists(ctx context.Context, host *metal3.BareMetalHost) (exists bool, err error) {
	owner := metal3.NewOwnerReference("BareMetalHost", host)
	obj, err := k.objects.Get(ctx, host.Namespace, host.Name)
	if apierrors.IsNotFound(err) {
		if supported, err := k.kind.isSupported(ctx, host); err != nil || !supported || !k.kind.canHave(host) {
			return false, err
		}
		obj, err = k.objects.Create(ctx, k.kind.newObject(metav1.ObjectMeta{
			Namespace: host.Namespace, Name: host.Name, OwnerReferences: []metav1.OwnerReference{owner},
		}))
	}
	if err == nil && lifecycle.IsOfFormerHost(host, obj) {
		return false, nil
	}
	if err == nil && !metal3.IsOwnedBy(obj, host) {
		obj = obj.DeepCopyObject().(T)
		obj.SetOwnerReferences(append(obj.GetOwnerReferences(), owner))
		_, err = k.objects.Update(ctx, obj)
	}
	if err != nil {
		return false, fmt.Errorf("writing %s %s/%s: %w", k.kind.name(), host.Namespace, host.Name, err)
	}
	return true, nil
}

// Ensure creates the object of a host if it does not exist, makes the host its owner, and refreshes it. It
// returns nil if Ironic does not support such objects, or if the object is that of a former host.
func (k *Keeper[T]) Ensure(ctx context.Context, host *metal3.BareMetalHost) (none T, err error) {
	if exists, err := k.ensureExists(ctx, host); err != nil || !exists {
		return none, err
	}
	return k.Refresh(ctx, host)
}

// Refresh records in the object of a host what Ironic has read from the BMC, if Ironic may have read it
// since it was recorded, and whether the spec differs and is valid. It returns nil if Ironic does not support
// such objects, or if the object is that of a former host. If Ironic does not give what it has read, the object
// says that, and the error is an *unreadError.
func (k *Keeper[T]) Refresh(ctx context.Context, host *metal3.BareMetalHost) (T, error) {
	return retryRaces(func() (T, error) { return k.refresh(ctx, host) })
}

// retryRaces repeats a write if another writer has written or created the same object. Hosts of a model share a
// schema, so many of them may create it at the same time.
func retryRaces[T any](write func() (T, error)) (T, error) {
	for race := 0; ; race++ {
		written, err := write()
		isRace := apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
		if !isRace || race == maxRaces {
			return written, err
		}
	}
}

func (k *Keeper[T]) refresh(ctx context.Context, host *metal3.BareMetalHost) (none T, err error) {
	recorded, err := k.objects.Get(ctx, host.Namespace, host.Name)
	if err != nil || lifecycle.IsOfFormerHost(host, recorded) {
		return none, err
	}
	updated, usable, err := k.update(ctx, host, recorded)
	if apierrors.IsInvalid(err) && k.lists.refused(host, err) { // what the machine says of itself is too large, for one
		updated, usable, err = k.update(ctx, host, recorded)
	}
	if err != nil || !usable {
		return none, err
	}
	return updated, nil
}

// update is one attempt of refresh.
func (k *Keeper[T]) update(ctx context.Context, host *metal3.BareMetalHost, recorded T) (updated T, usable bool, err error) {
	obj := recorded.DeepCopyObject().(T)
	changed, usable, err := k.kind.update(ctx, host, obj, recorded, metav1.NewTime(k.clock.Now().Truncate(1e9)))
	if unread := new(unreadError); err != nil && !errors.As(err, &unread) {
		return recorded, false, err
	}
	if !changed {
		return recorded, usable, err
	}
	updated, writeErr := k.objects.UpdateStatus(ctx, obj)
	k.kind.settle(ctx, recorded, obj, writeErr)
	return updated, usable, cmp.Or(writeErr, err)
}

// listIn returns the recorded objects of a namespace; empty means of all.
func (k *Keeper[T]) listIn(ctx context.Context, namespace string) (map[types.NamespacedName]T, error) {
	var options metav1.ListOptions
	if namespace != "" {
		options.FieldSelector = fields.OneTermEqualSelector("metadata.namespace", namespace).String()
	}
	list, err := k.objects.List(ctx, options)
	if err != nil {
		return nil, err
	}
	recorded := map[types.NamespacedName]T{}
	return recorded, meta.EachListItem(list, func(item runtime.Object) error {
		if obj, ok := item.(T); ok {
			recorded[kinds.KeyOf(obj)] = obj
		}
		return nil
	})
}

// isDue reports whether Refresh may have something to do.
func (k *Keeper[T]) isDue(host *metal3.BareMetalHost, recorded T) bool {
	return has(host) && !lifecycle.IsOfFormerHost(host, recorded) && (!metal3.IsOwnedBy(recorded, host) || k.kind.isOutdated(host, recorded) ||
		!areCurrent(k.kind.conditions(recorded), recorded.GetGeneration()))
}

// mayChange reports whether Refresh may have something to do now: not if the object says that Ironic did not give its contents, and
// Ironic is not to be asked again yet.
func (k *Keeper[T]) mayChange(host *metal3.BareMetalHost, recorded T) bool {
	conditions := k.kind.conditions(recorded)
	saysSo := areCurrent(conditions, recorded.GetGeneration()) && meta.IsStatusConditionFalse(conditions, settings.UpToDateCondition)
	return k.isDue(host, recorded) && !(saysSo && k.lists.isLeftAlone(host))
}

// areCurrent reports whether the conditions of an object are about its current generation.
func areCurrent(conditions []metav1.Condition, generation int64) bool {
	for _, c := range conditions {
		if c.ObservedGeneration != generation {
			return false
		}
	}
	return len(conditions) > 0
}

// isChanged reports whether the spec of an object is not what the machine has, according to the object's
// conditions.
func isChanged(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, settings.ChangeDetectedCondition)
}

// has reports whether the host is one that has HostFirmwareSettings: it is registered in Ironic,
// and is neither detached nor being deleted.
func has(host *metal3.BareMetalHost) bool {
	node := host.Status.Ironic
	return node != nil && node.StateChangedAt != nil && node.ProvisionState != string(ironic.Enroll) &&
		host.DeletionTimestamp.IsZero() && !metal3.IsPaused(host) && !host.IsDetached()
}
