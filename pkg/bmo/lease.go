// SPDX-License-Identifier: Apache-2.0

package bmo

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"
)

// Name is the name of the operator's Lease, in whatever namespace the operator runs, and that under which its writes are
// in managedFields. It is part of the names of its Deployment and image.
const Name = "baremetal-operator"

// IsRenewed reports whether somebody renews the Lease. It watches the Lease for its
// duration instead of comparing times, because the holder's clock may differ.
func IsRenewed(ctx context.Context, leases coordinationclient.LeasesGetter, lease *coordinationv1.Lease) (bool, error) {
	if holderOf(lease) == "" || lease.Spec.RenewTime == nil {
		return false, nil
	}
	duration := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 15)) * time.Second
	if time.Since(lease.Spec.RenewTime.Time) > duration+time.Hour {
		return false, nil // no clock is wrong by more than an hour
	}
	// A minute is enough for a longer duration (OpenShift uses 137 s), because a holder
	// renews its Lease several times within the duration.
	for end := time.Now().Add(min(duration, time.Minute)); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
		now, err := leases.Leases(lease.Namespace).Get(ctx, lease.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if holderOf(now) == "" {
			return false, nil
		}
		if isRenewal(lease, now) {
			return true, nil
		}
	}
	return false, nil
}

// isRenewal reports whether somebody who holds the Lease has renewed or taken it between two looks at it.
func isRenewal(before, now *coordinationv1.Lease) bool {
	return holderOf(now) != "" && (holderOf(before) != holderOf(now) || !now.Spec.RenewTime.Equal(before.Spec.RenewTime))
}

func holderOf(lease *coordinationv1.Lease) string { return ptr.Deref(lease.Spec.HolderIdentity, "") }
