// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/metal3-io/metal3-apiserver/pkg/bmo"
)

const (
	leaseHolder = "metal3-apiserver-migration"
	// leaseDurationSeconds is a year. A migration that is killed leaves the Lease held. Only
	// another run, or a user, may release it, so it must not expire.
	leaseDurationSeconds = 365 * 24 * 60 * 60
)

// holdLease takes the Lease of metal3-apiserver's leader. The server can still run and
// serve requests, but none of its replicas acts on hosts.
func (c *Cluster) holdLease(ctx context.Context, name types.NamespacedName) error {
	leases := c.kube.CoordinationV1().Leases(name.Namespace)
	held := coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To(leaseHolder), LeaseDurationSeconds: ptr.To[int32](leaseDurationSeconds),
		AcquireTime: &metav1.MicroTime{Time: time.Now()}, RenewTime: &metav1.MicroTime{Time: time.Now()},
	}
	lease, err := leases.Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name.Name}, Spec: held}, metav1.CreateOptions{})
		return leaseError(name, err)
	}
	if err != nil {
		return leaseError(name, err)
	}
	if ptr.Deref(lease.Spec.HolderIdentity, "") != leaseHolder {
		renewed, err := bmo.IsRenewed(ctx, c.kube.CoordinationV1(), lease)
		if err != nil {
			return leaseError(name, err)
		}
		if renewed {
			return fmt.Errorf("metal3-apiserver %s is managing hosts (Lease %s): stop it with kubectl scale deployment -n %s metal3-apiserver --replicas=0",
				ptr.Deref(lease.Spec.HolderIdentity, ""), name, name.Namespace)
		}
	}
	lease.Spec = held
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return leaseError(name, err)
}

// isLeaseHeld reports whether a migration holds the Lease.
func (c *Cluster) isLeaseHeld(ctx context.Context, name types.NamespacedName) (bool, error) {
	lease, err := c.kube.CoordinationV1().Leases(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil {
		return false, leaseError(name, ignoreNotFound(err))
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "") == leaseHolder, nil
}

// releaseLease gives up the Lease, so that metal3-apiserver can manage hosts.
func (c *Cluster) releaseLease(ctx context.Context, name types.NamespacedName) error {
	leases := c.kube.CoordinationV1().Leases(name.Namespace)
	lease, err := leases.Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil {
		return leaseError(name, ignoreNotFound(err))
	}
	if ptr.Deref(lease.Spec.HolderIdentity, "") != leaseHolder {
		return nil
	}
	delete(lease.Annotations, copiedAnnotation)
	// This is what a leader writes when it gives up its Lease. The API requires a duration.
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = ptr.To(""), ptr.To[int32](1)
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return leaseError(name, err)
}

// annotateLease sets an annotation of the Lease, which a migration holds.
func (c *Cluster) annotateLease(ctx context.Context, name types.NamespacedName, key, value string) error {
	leases := c.kube.CoordinationV1().Leases(name.Namespace)
	lease, err := leases.Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil {
		return leaseError(name, err)
	}
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, key, value)
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return leaseError(name, err)
}

// leaseAnnotation returns an annotation of the Lease.
func (c *Cluster) leaseAnnotation(ctx context.Context, name types.NamespacedName, key string) (string, error) {
	lease, err := c.kube.CoordinationV1().Leases(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil {
		return "", leaseError(name, err)
	}
	return lease.Annotations[key], nil
}

func leaseError(name types.NamespacedName, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("Lease %s, which keeps metal3-apiserver from managing hosts: %w", name, err)
}
