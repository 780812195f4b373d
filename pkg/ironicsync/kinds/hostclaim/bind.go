// SPDX-License-Identifier: Apache-2.0

package hostclaim

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
)

// maxAttempts is how often a claim tries to be bound, if others are faster, before it goes back to the
// queue.
const maxAttempts = 10

// consumerOf returns the claim that a host names as its consumer.
func consumerOf(host *metal3.BareMetalHost) (claim types.NamespacedName, found bool) {
	if host == nil {
		return claim, false
	}
	ref := host.Spec.ConsumerRef
	if ref == nil || ref.Kind != "HostClaim" || !strings.HasPrefix(ref.APIVersion, metal3.GroupName+"/") {
		return claim, false
	}
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, true
}

// isConsumer reports whether a host names a claim as its consumer.
func isConsumer(claim *metal3.HostClaim, host *metal3.BareMetalHost) bool {
	consumer, found := consumerOf(host)
	return found && consumer == kinds.KeyOf(claim)
}

// isBoundBy reports whether this controller has bound a host to a claim, unless somebody who writes hosts pretends
// that: it adds the UID of the claim to the consumerRef, which others do not. What such a host is to run, its claim has
// asked for.
func isBoundBy(claim *metal3.HostClaim, host *metal3.BareMetalHost) bool {
	return isConsumer(claim, host) && host.Spec.ConsumerRef.UID == claim.UID
}

func refTo(claim *metal3.HostClaim) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: metal3.SchemeGroupVersion.String(), Kind: "HostClaim",
		Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
	}
}

// hostsOf returns the hosts that name a claim as their consumer, first the one of the claim's status. Whoever writes
// hosts can name any claim, with its UID. So others count only if a policy opens their namespace to the claim: tenants
// must trust the owners of such hosts anyway. Neither the claim's selector nor the labels of a host matter for that,
// since both may have changed since the host was given to the claim.
func (c *Controller) hostsOf(ctx context.Context, claim *metal3.HostClaim) ([]*metal3.BareMetalHost, error) {
	recorded, has := recordedHost(claim)
	keys := slices.DeleteFunc(c.allocator.hostsOf(kinds.KeyOf(claim)), func(key types.NamespacedName) bool {
		return key == recorded || !c.Manages(key.Namespace) || !c.allocator.admits(claim, key.Namespace)
	})
	if has { // the watch of hosts may not have seen yet that it is the claim's
		keys = slices.Insert(keys, 0, recorded)
	}
	var hosts []*metal3.BareMetalHost
	for _, key := range keys {
		host, err := kinds.Find(ctx, c.Hosts, key.Namespace, key.Name)
		if err != nil {
			return nil, err
		}
		if host != nil && isConsumer(claim, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts, nil
}

// recordedHost returns the host that the status of a claim names.
func recordedHost(claim *metal3.HostClaim) (host types.NamespacedName, has bool) {
	recorded := claim.Status.BareMetalHost
	if recorded == nil {
		return host, false
	}
	return types.NamespacedName{Namespace: recorded.Namespace, Name: recorded.Name}, true
}

// ownHost returns the host of a claim, of those of hostsOf; nil if it has none. It is the host of the claim's
// status. Another one is its host only if it could have been given to the claim: otherwise, whoever writes
// hosts could have the Secrets of any claim copied into their namespace.
func (c *Controller) ownHost(claim *metal3.HostClaim, hosts []*metal3.BareMetalHost) *metal3.BareMetalHost {
	recorded, _ := recordedHost(claim)
	for _, host := range hosts {
		if kinds.KeyOf(host) == recorded || c.mayHave(claim, host) {
			return host
		}
	}
	return nil
}

// mayHave reports whether a claim may have a host, be it free or not.
func (c *Controller) mayHave(claim *metal3.HostClaim, host *metal3.BareMetalHost) bool {
	request, err := newClaimRequest(claim)
	return err == nil && c.Manages(host.Namespace) && c.allocator.mayHave(request, host)
}

// labelsOf returns the labels of a namespace.
func (c *Controller) labelsOf(namespace string) map[string]string {
	obj, exists, err := c.ClaimNamespaces.GetStore().GetByKey(namespace)
	if err != nil || !exists {
		return nil
	}
	return obj.(metav1.Object).GetLabels()
}

// missingHost returns the condition Associated of a claim without a host that had one. It gets no other: that would be another machine,
// without what was on the disks of this one.
func missingHost(claim *metal3.HostClaim) (associated metav1.Condition, is bool) {
	former, has := recordedHost(claim)
	before := meta.FindStatusCondition(claim.Status.Conditions, AssociatedCondition)
	if !has || before == nil || before.Status != metav1.ConditionTrue && before.Reason != MissingBareMetalHostReason {
		return metav1.Condition{}, false
	}
	return condition(AssociatedCondition, metav1.ConditionFalse, MissingBareMetalHostReason,
		fmt.Sprintf("Host %s does not exist or is no longer the claim's. To get another host, delete the claim and create it again", former)), true
}

// bind chooses a host for a claim and binds it. If there is none, it returns the condition
// Associated.
func (c *Controller) bind(ctx context.Context, claim *metal3.HostClaim) (*metal3.BareMetalHost, metav1.Condition, error) {
	unbound := func(reason, message string) (*metal3.BareMetalHost, metav1.Condition, error) {
		return nil, condition(AssociatedCondition, metav1.ConditionFalse, reason, message), nil
	}
	if missing, is := missingHost(claim); is {
		return nil, missing, nil
	}
	chosen, hasChosen := recordedHost(claim)
	request, err := newClaimRequest(claim)
	if err != nil {
		return unbound(NoBareMetalHostReason, err.Error())
	}
	for range maxAttempts {
		if !hasChosen {
			host, whyNot, woken := c.allocator.pick(request)
			c.enqueue(woken)
			if host == nil {
				return unbound(NoBareMetalHostReason, whyNot)
			}
			chosen = kinds.KeyOf(host)
			if err := c.recordChoice(ctx, claim, chosen); err != nil {
				return nil, metav1.Condition{}, err
			}
		}
		host, err := c.bindTo(ctx, request, chosen)
		if host != nil || err != nil {
			return host, metav1.Condition{}, err
		}
		hasChosen = false // another claim or consumer was faster
	}
	return nil, metav1.Condition{}, apierrors.NewConflict(metal3.Resource("hostclaims"), claim.Name, fmt.Errorf("%d hosts were given to others in the meantime", maxAttempts))
}

// recordChoice records the host that a claim is about to be bound to. Whoever continues after this
// process, or believes to lead beside it, tries to bind the claim to the same host.
func (c *Controller) recordChoice(ctx context.Context, claim *metal3.HostClaim, chosen types.NamespacedName) error {
	updated := claim.DeepCopy()
	updated.Status.BareMetalHost = &metal3.ObjectReference{Namespace: chosen.Namespace, Name: chosen.Name}
	recorded, err := c.Claims.UpdateStatus(ctx, updated)
	if err != nil {
		return err
	}
	recorded.DeepCopyInto(claim)
	return nil
}

// bindTo binds a host to a claim if the host is free and the claim may have it. Otherwise it returns nil. What
// it finds, the allocator learns at once, and not only from the watch of hosts.
func (c *Controller) bindTo(ctx context.Context, request *claimRequest, key types.NamespacedName) (*metal3.BareMetalHost, error) {
	for range maxAttempts {
		host, err := kinds.Find(ctx, c.Hosts, key.Namespace, key.Name)
		if err != nil {
			return nil, err
		}
		if host == nil {
			c.enqueue(c.allocator.hostFound(key, nil))
			return nil, nil
		}
		c.enqueue(c.allocator.hostFound(key, host))
		if isConsumer(request.claim, host) {
			return host, nil // bound by a write whose answer was lost
		}
		if !isFree(host) || !c.Manages(host.Namespace) || !c.allocator.mayHave(request, host) {
			return nil, nil
		}
		if err := c.Fence.Check(); err != nil {
			return nil, err
		}
		wanted := host.DeepCopy() // the allocator has host
		wanted.Spec.ConsumerRef = refTo(request.claim)
		bound, err := c.Hosts.Update(ctx, wanted)
		if err == nil {
			c.enqueue(c.allocator.hostFound(key, bound))
			return bound, nil
		}
		if !apierrors.IsConflict(err) {
			return nil, fmt.Errorf("setting the consumerRef of host %s: %w", key, err)
		}
		// The host was written since it was read, perhaps by an observation: it is looked at again.
	}
	return nil, apierrors.NewConflict(metal3.Resource("baremetalhosts"), key.Name, fmt.Errorf("it is written too often"))
}
