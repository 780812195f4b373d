// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// policies knows the HostUpdatePolicies.
type policies struct {
	store    kinds.Store[*metal3.HostUpdatePolicy]
	informer cache.SharedIndexInformer
}

// get returns the policy of a host; nil if there is none, or only that of a former host.
func (p *policies) get(host *metal3.BareMetalHost) *metal3.HostUpdatePolicy {
	known, _, _ := p.informer.GetStore().GetByKey(host.Namespace + "/" + host.Name) // the error is never set
	policy, _ := known.(*metal3.HostUpdatePolicy)
	if policy == nil || lifecycle.IsOfFormerHost(host, policy) {
		return nil
	}
	return policy
}

// of returns what may be changed while the host runs something; nil if there is no policy.
func (p *policies) of(host *metal3.BareMetalHost) *metal3.HostUpdatePolicySpec {
	if policy := p.get(host); policy != nil {
		return &policy.Spec
	}
	return nil
}

// stored returns what of returns for a host, as it is stored now: the informer is told of a change a moment late.
func (p *policies) stored(ctx context.Context, host *metal3.BareMetalHost) (*metal3.HostUpdatePolicySpec, error) {
	policy, err := kinds.Find(ctx, p.store, host.Namespace, host.Name)
	if err != nil || policy == nil || lifecycle.IsOfFormerHost(host, policy) {
		return nil, err
	}
	return &policy.Spec, nil
}

// own makes the host an owner of its policy, which is deleted with the host then, as in the Bare
// Metal Operator.
func (p *policies) own(ctx context.Context, host *metal3.BareMetalHost) {
	policy := p.get(host)
	if policy == nil || metal3.IsOwnedBy(policy, host) || !host.DeletionTimestamp.IsZero() || !policy.DeletionTimestamp.IsZero() {
		return
	}
	owned := policy.DeepCopy()
	owned.OwnerReferences = append(owned.OwnerReferences, metal3.NewOwnerReference("BareMetalHost", host))
	if _, err := p.store.Update(ctx, owned); err != nil && !apierrors.IsConflict(err) { // the other write requeues the host
		klog.FromContext(ctx).Error(err, "The host cannot be made an owner of its HostUpdatePolicy")
	}
}
