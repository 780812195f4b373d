// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// IsHardwareFor reports whether a HardwareData with a host's name may be about its machine. One that is left from a former host of this
// name, which the garbage collector is about to delete, is not: the machine may be another one. Who gives hardware by hand sets no owner,
// and whoever moves a host sets its new UID.
func IsHardwareFor(host *metal3.BareMetalHost, data metav1.Object) bool {
	owners := slices.DeleteFunc(slices.Clone(data.GetOwnerReferences()), func(o metav1.OwnerReference) bool { return o.Kind != "BareMetalHost" })
	return data.GetDeletionTimestamp() == nil &&
		(len(owners) == 0 || slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return o.UID == host.UID }))
}
