// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NewOwnerReference returns a reference to an owner of a kind of this API. Like those of the Bare Metal
// Operator, it neither makes the owner the controller of an object, nor blocks its deletion.
func NewOwnerReference(kind string, owner metav1.Object) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: SchemeGroupVersion.String(), Kind: kind, Name: owner.GetName(), UID: owner.GetUID()}
}

// IsOwnedBy reports whether owner is an owner of obj. It compares UIDs, because an earlier owner can have had
// the same name.
func IsOwnedBy(obj, owner metav1.Object) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner.GetUID() })
}

// AddFinalizer adds a finalizer to obj, and reports whether obj did not have it.
func AddFinalizer(obj metav1.Object, finalizer string) (added bool) {
	if slices.Contains(obj.GetFinalizers(), finalizer) {
		return false
	}
	obj.SetFinalizers(append(obj.GetFinalizers(), finalizer))
	return true
}

// RemoveFinalizer removes a finalizer from obj, and reports whether obj had it.
func RemoveFinalizer(obj metav1.Object, finalizer string) (removed bool) {
	finalizers := obj.GetFinalizers()
	kept := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == finalizer })
	obj.SetFinalizers(kept)
	return len(kept) < len(finalizers)
}
