// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// HardwareData has the recorded HardwareData.
type HardwareData struct {
	*Objects[*metal3.HardwareData]
}

// Put creates data, or, if the object exists, replaces its spec and keeps its metadata. If
// the spec is the same, nothing is written. One that somebody has deleted, and that waits for its host, goes,
// and a new one takes its place. What is left from a former host of this name, or was a HostClaim's, becomes that of data's host, or the
// garbage collector would delete it with what it has now.
func (d *HardwareData) Put(ctx context.Context, data *metal3.HardwareData) error {
	for {
		letGo := false
		err := d.Change(ctx, data.Namespace, data.Name, func(existing *metal3.HardwareData) {
			letGo = !existing.DeletionTimestamp.IsZero() && metal3.RemoveFinalizer(existing, metal3.HardwareDataFinalizer)
			if !letGo { // else others' finalizers may keep it, and it is changed all the same
				data.Spec.DeepCopyInto(&existing.Spec)
			}
			if existing.DeletionTimestamp.IsZero() {
				takeFromFormer(existing, data)
			}
		})
		if err == nil && letGo {
			continue
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		created := data.DeepCopy()
		created.UID, created.ResourceVersion = "", "" // they belong to an object that no longer exists
		if _, err := d.Create(ctx, created); !apierrors.IsAlreadyExists(err) {
			return err
		}
		// Another client has created the object in the meantime: replace its spec.
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// takeFromFormer gives existing the owner and the finalizers of data if other hosts or claims own it, and that does not.
func takeFromFormer(existing, data *metal3.HardwareData) {
	owner := metav1.GetControllerOf(data)
	isFormer := func(o metav1.OwnerReference) bool { return o.Kind == "BareMetalHost" || o.Kind == "HostClaim" }
	if owner == nil || !slices.ContainsFunc(existing.OwnerReferences, isFormer) ||
		slices.ContainsFunc(existing.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID }) {
		return
	}
	existing.OwnerReferences = append(slices.DeleteFunc(existing.OwnerReferences, isFormer), *owner)
	for _, finalizer := range data.Finalizers {
		metal3.AddFinalizer(existing, finalizer)
	}
}

// RemoveFinalizer removes a finalizer, which completes a deletion if it was the last one. It
// does nothing if the object does not exist.
func (d *HardwareData) RemoveFinalizer(ctx context.Context, namespace, name, finalizer string) error {
	err := d.Change(ctx, namespace, name, func(existing *metal3.HardwareData) { metal3.RemoveFinalizer(existing, finalizer) })
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
