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
)

const (
	leaseHolder = "metal3-apiserver-migration"
	// leaseHeld is a year. The Lease is given back by us, or by hand; not by time,
	// and so not when we are killed.
	leaseHeld = 365 * 24 * 60 * 60
)

// hold takes our server's Lease: it may run and serve, but nobody drives hosts.
func (c *Cluster) hold(ctx context.Context, name types.NamespacedName) error {
	leases := c.kube.CoordinationV1().Leases(name.Namespace)
	held := coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To(leaseHolder), LeaseDurationSeconds: ptr.To[int32](leaseHeld),
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
		renewed, err := c.isRenewed(ctx, lease)
		if err != nil {
			return leaseError(name, err)
		}
		if renewed {
			return fmt.Errorf("metal3-apiserver %s drives hosts (Lease %s): stop it, kubectl scale deployment -n %s metal3-apiserver --replicas=0",
				ptr.Deref(lease.Spec.HolderIdentity, ""), name, name.Namespace)
		}
	}
	lease.Spec = held
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return leaseError(name, err)
}

// holds tells whether a migration holds the Lease.
func (c *Cluster) holds(ctx context.Context, name types.NamespacedName) (bool, error) {
	lease, err := c.kube.CoordinationV1().Leases(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil {
		return false, leaseError(name, ignoreNotFound(err))
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "") == leaseHolder, nil
}

// release lets our server drive hosts.
func (c *Cluster) release(ctx context.Context, name types.NamespacedName) error {
	leases := c.kube.CoordinationV1().Leases(name.Namespace)
	lease, err := leases.Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil {
		return leaseError(name, ignoreNotFound(err))
	}
	if ptr.Deref(lease.Spec.HolderIdentity, "") != leaseHolder {
		return nil
	}
	// What a leader leaves that gives up its Lease: the API wants a duration.
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = ptr.To(""), ptr.To[int32](1)
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return leaseError(name, err)
}

func leaseError(name types.NamespacedName, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("Lease %s, which keeps metal3-apiserver from driving hosts: %w", name, err)
}
