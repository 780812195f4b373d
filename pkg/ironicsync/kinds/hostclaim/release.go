// SPDX-License-Identifier: Apache-2.0

package hostclaim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
)

// release gives the hosts of a claim back that is being deleted, those of hostsOf, and lets the claim go. Each is given
// back before the next one is looked at, so that none has to wait for another one.
func (c *Controller) release(ctx context.Context, claim *metal3.HostClaim, hosts []*metal3.BareMetalHost) error {
	if !slices.Contains(claim.Finalizers, metal3.HostClaimFinalizer) {
		return nil // another controller's finalizer keeps it
	}
	recorded, has := recordedHost(claim)
	if has && (len(hosts) == 0 || kinds.KeyOf(hosts[0]) != recorded) { // it is gone, or no longer the claim's
		if err := c.deleteAllCopies(ctx, claim, recorded.Namespace); err != nil {
			return err
		}
	}
	for _, host := range hosts {
		isOwn := kinds.KeyOf(host) == recorded || isBoundBy(claim, host)
		emptied, waitsFor, err := c.empty(ctx, claim, host)
		switch {
		case err != nil:
			return err
		case waitsFor != "" && isOwn:
			deleting := condition(AssociatedCondition, metav1.ConditionFalse, HostClaimDeletingReason, waitsFor)
			return c.record(ctx, claim, result{host: emptied, associated: deleting}) // a change of the host continues
		}
		// One that only names the claim is not waited for while it is paused: it may name the claim to keep it. Later, nobody would know
		// that there was one, so it stops naming it now, and nothing else is done to it.
		if isOwn {
			// The copies go before the host: after that, nothing would tell where they are.
			if err := c.deleteAllCopies(ctx, claim, host.Namespace); err != nil {
				return err
			}
		}
		if err := c.unbind(ctx, emptied); err != nil {
			return err
		}
	}
	return kinds.RemoveFinalizer(ctx, c.Claims, claim, metal3.HostClaimFinalizer)
}

// deleteAllCopies deletes the copies of the Secrets of a claim that is being deleted from a namespace, or says that it
// cannot.
func (c *Controller) deleteAllCopies(ctx context.Context, claim *metal3.HostClaim, namespace string) error {
	if !c.Manages(namespace) {
		return nil // a tenant who may write the status can name any
	}
	if err := c.copier.deleteCopies(ctx, claim, namespace, nil); err != nil {
		failed := condition(AssociatedCondition, metav1.ConditionFalse, HostClaimDeletionFailedReason, "The copies of its Secrets cannot be deleted from the namespace of the host")
		return errors.Join(err, c.record(ctx, claim, result{associated: failed}))
	}
	return nil
}

// releaseOthers gives back hosts that were bound to a claim besides its host. That happens if the
// tenant removes the choice from the status of the claim while it is being bound.
func (c *Controller) releaseOthers(ctx context.Context, claim *metal3.HostClaim, hosts []*metal3.BareMetalHost, own *metal3.BareMetalHost) error {
	for _, host := range hosts {
		if kinds.KeyOf(host) == kinds.KeyOf(own) || !isBoundBy(claim, host) {
			continue
		}
		emptied, waitsFor, err := c.empty(ctx, claim, host)
		if err == nil && waitsFor == "" {
			err = c.unbind(ctx, emptied)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// empty removes from a host what its claim has asked for to run. It returns the host as it was written,
// and what is still to be waited for. What the claim has not asked for is left alone.
func (c *Controller) empty(ctx context.Context, claim *metal3.HostClaim, host *metal3.BareMetalHost) (emptied *metal3.BareMetalHost, waitsFor string, err error) {
	if !host.DeletionTimestamp.IsZero() {
		return host, "", nil // it is deprovisioned and never comes back
	}
	if isPausedByOthers(host) {
		return host, "The host is paused, and is deprovisioned after that", nil
	}
	updated := host.DeepCopy()
	delete(updated.Annotations, metal3.PausedAnnotation)
	delete(updated.Annotations, rebootTokenAnnotation)
	maps.DeleteFunc(updated.Annotations, func(key, _ string) bool {
		return strings.HasPrefix(key, metal3.RebootAnnotationPrefix+claimKeyPrefix)
	})
	own := isBoundBy(claim, host)
	if own {
		spec := &updated.Spec
		spec.Image, spec.CustomDeploy, spec.UserData, spec.NetworkData, spec.MetaData = nil, nil, nil, nil, nil
		spec.Online = spec.DisablePowerOff
	}
	if !equality.Semantic.DeepEqual(host.Spec, updated.Spec) || !maps.Equal(host.Annotations, updated.Annotations) {
		if err := c.Fence.Check(); err != nil {
			return nil, "", err
		}
		if updated, err = c.Hosts.Update(ctx, updated); err != nil {
			return nil, "", fmt.Errorf("deprovisioning host %s: %w", kinds.KeyOf(host), err)
		}
	}
	if own && isInUse(updated) {
		return updated, whyInUse(updated), nil
	}
	return updated, "", nil
}

// whyInUse says what is waited for while a host that has been emptied is in use. Not everything of that ends by itself.
func whyInUse(host *metal3.BareMetalHost) string {
	switch {
	case deployedByOthers(host):
		return deployedPastServer
	case host.Status.Record.Hold != nil:
		return "The host is held, and is not deprovisioned before that ends. Its owner can find out why"
	}
	return "The host is being deprovisioned"
}

// isInUse reports whether something is deployed on a host, or is being deployed or removed.
func isInUse(host *metal3.BareMetalHost) bool {
	switch host.Status.Provisioning.State {
	case metal3.StateProvisioning, metal3.StateProvisioned, metal3.StateDeprovisioning:
		return true
	}
	return deploy.Deployed(host)
}

// unbind removes a claim from its host, which may then be given to another one.
func (c *Controller) unbind(ctx context.Context, host *metal3.BareMetalHost) error {
	if err := c.Fence.Check(); err != nil {
		return err
	}
	updated := host.DeepCopy()
	updated.Spec.ConsumerRef = nil
	_, err := c.Hosts.Update(ctx, updated)
	return kinds.IgnoreNotFound(err)
}
