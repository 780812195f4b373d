// SPDX-License-Identifier: Apache-2.0

package hostclaim

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
)

// HardwareData are the recorded HardwareData.
type HardwareData interface {
	kinds.Getter[*metal3.HardwareData]
	Create(ctx context.Context, data *metal3.HardwareData) (*metal3.HardwareData, error)
	Update(ctx context.Context, data *metal3.HardwareData) (*metal3.HardwareData, error)
}

// copyHardware records what is known of a host's hardware in a HardwareData with the name of the claim, in
// its namespace: tenants need not see the namespace of the host. It is deleted with the claim, which
// owns it. It returns where the HardwareData is, which is that of the host if the place is taken, or is that of a host with the name of
// the claim; nil if the host was not inspected.
func (c copier) copyHardware(ctx context.Context, claim *metal3.HostClaim, host *metal3.BareMetalHost) (*metal3.ObjectReference, error) {
	if host.Status.HardwareDetails == nil {
		return nil, nil
	}
	ofHost := &metal3.ObjectReference{Namespace: host.Namespace, Name: host.Name}
	existing, err := kinds.Find(ctx, c.hardware, claim.Namespace, claim.Name)
	if err != nil {
		return nil, err
	}
	if existing != nil && !metal3.IsOwnedBy(existing, claim) {
		return ofHost, nil
	}
	// A host of this name is to have its own HardwareData there, also if it was created later than that of the claim.
	if namesake, err := kinds.Find(ctx, c.hosts, claim.Namespace, claim.Name); namesake != nil || err != nil {
		return ofHost, err
	}
	ofClaim := &metal3.ObjectReference{Namespace: claim.Namespace, Name: claim.Name}
	if existing != nil && equality.Semantic.DeepEqual(existing.Spec.HardwareDetails, host.Status.HardwareDetails) {
		return ofClaim, nil
	}
	if err := c.fence.Check(); err != nil {
		return nil, err
	}
	spec := metal3.HardwareDataSpec{HardwareDetails: host.Status.HardwareDetails.DeepCopy()}
	if existing != nil {
		existing.Spec = spec
		_, err = c.hardware.Update(ctx, existing)
	} else {
		_, err = c.hardware.Create(ctx, &metal3.HardwareData{ObjectMeta: metav1.ObjectMeta{
			Namespace: claim.Namespace, Name: claim.Name,
			OwnerReferences: []metav1.OwnerReference{metal3.NewOwnerReference("HostClaim", claim)},
		}, Spec: spec})
	}
	if err != nil {
		return nil, fmt.Errorf("copying the HardwareData of host %s: %w", kinds.KeyOf(host), err)
	}
	return ofClaim, nil
}
