package drive

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/firmware"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// API versions on which it depends how settings are applied.
const (
	// raidThenBIOSVersion is that of Ironic 29.0, the oldest release known to notice the end of a BIOS step
	// that follows a RAID step. Ironic 21.4 keeps the mark cleaning_polling of a RAID step that was done at
	// once, and then ignores the heartbeats of the ramdisk.
	raidThenBIOSVersion = 96
	serviceVersion      = 87 // the verb service
	// abortServiceVersion is that of Ironic 32.0, the first release that can abort a service after
	// it has failed. Ironic 31.0 has 1.99.
	abortServiceVersion = 101
)

// PolicyStore keeps the HostUpdatePolicies, which have the names of their hosts.
type PolicyStore interface {
	listerWatcher
	Update(ctx context.Context, policy *metal3.HostUpdatePolicy) (*metal3.HostUpdatePolicy, error)
}

// policyWatch knows the HostUpdatePolicies, and has hosts planned when theirs change.
type policyWatch struct {
	store    PolicyStore
	informer cache.SharedIndexInformer
}

func newPolicyWatch(store PolicyStore, changed func(types.NamespacedName)) *policyWatch {
	return &policyWatch{store, newFirmwareInformer(store, &metal3.HostUpdatePolicy{}, changed, func(_, _ any) {})}
}

func (w *policyWatch) get(host *metal3.BareMetalHost) *metal3.HostUpdatePolicy {
	known, _, _ := w.informer.GetStore().GetByKey(host.Namespace + "/" + host.Name) // the error is never set
	policy, _ := known.(*metal3.HostUpdatePolicy)
	return policy
}

// of returns what may be changed while the host runs something; nil if there is no policy.
func (w *policyWatch) of(host *metal3.BareMetalHost) *metal3.HostUpdatePolicySpec {
	if policy := w.get(host); policy != nil {
		return &policy.Spec
	}
	return nil
}

// own makes the host an owner of its policy, which is deleted with the host then, as in the Bare
// Metal Operator.
func (w *policyWatch) own(ctx context.Context, host *metal3.BareMetalHost) {
	policy := w.get(host)
	if policy == nil || firmware.IsOwned(policy, host) || !host.DeletionTimestamp.IsZero() || !policy.DeletionTimestamp.IsZero() {
		return
	}
	owned := policy.DeepCopy()
	owned.OwnerReferences = append(owned.OwnerReferences, metav1.OwnerReference{
		APIVersion: metal3.SchemeGroupVersion.String(), Kind: "BareMetalHost", Name: host.Name, UID: host.UID,
	})
	if _, err := w.store.Update(ctx, owned); err != nil && !apierrors.IsConflict(err) { // who has written it has the host planned again
		klog.FromContext(ctx).Error(err, "The host cannot be made an owner of its HostUpdatePolicy")
	}
}

// isServiceOpen tells whether a service of the host's machine has not ended. Nothing new is known of
// the machine's settings meanwhile.
func isServiceOpen(host *metal3.BareMetalHost) bool {
	return host.Status.Servicing != nil && host.Status.Servicing.EndedAt == nil
}

// settingsOf returns what is known of the settings of a host, as far as they matter now.
func (c *Controller) settingsOf(ctx context.Context, host *metal3.BareMetalHost) (firmwareOf, error) {
	c.policies.own(ctx, host)
	policy := c.policies.of(host)
	found, err := c.firmware.of(ctx, host, policy)
	found.policy = policy
	if err == nil && (found.settings != nil || found.components != nil) && runsNothing(host) {
		var together bool
		together, err = c.ironic.Supports(ctx, raidThenBIOSVersion)
		found.raidAlone = !together
	}
	if err != nil || !lifecycle.RunsSomething(host) || policy == nil && host.Status.Servicing == nil {
		return found, err
	}
	if found.canService, err = c.ironic.Supports(ctx, serviceVersion); err == nil {
		found.canAbortService, err = c.ironic.Supports(ctx, abortServiceVersion)
	}
	return found, err
}
