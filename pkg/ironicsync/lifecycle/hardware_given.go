// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// IsOfFormerHost reports whether an object with a host's name belongs to a former host of this name: only other hosts own it. The garbage
// collector is about to delete it, and what it asks for was meant for another machine. Who makes an object by hand sets no owner, and
// whoever moves a host sets its new UID.
func IsOfFormerHost(host *metal3.BareMetalHost, obj metav1.Object) bool {
	isHost := func(o metav1.OwnerReference) bool { return o.Kind == "BareMetalHost" }
	return slices.ContainsFunc(obj.GetOwnerReferences(), isHost) && !metal3.IsOwnedBy(obj, host)
}

// IsHardwareFor reports whether a HardwareData with a host's name may be about its machine. That of a former host is not, because the
// machine may be another one; nor is that of a HostClaim, which is about the host that the claim has got.
func IsHardwareFor(host *metal3.BareMetalHost, data metav1.Object) bool {
	isClaim := func(o metav1.OwnerReference) bool { return o.Kind == "HostClaim" }
	if data.GetDeletionTimestamp() != nil || IsOfFormerHost(host, data) {
		return false
	}
	return metal3.IsOwnedBy(data, host) || !slices.ContainsFunc(data.GetOwnerReferences(), isClaim)
}
