// SPDX-License-Identifier: Apache-2.0

package hostclaim

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
)

// allocator brings hosts that are free and claims that wait together. A claim looks at the free hosts when
// it begins to wait, and a host at the waiting claims when it becomes free. So nothing is polled, and
// no pair of a claim and a host that do not suit each other is looked at again until one of them
// changes.
//
// A host that becomes free is offered to the oldest claim that waits for one like it. Until that claim has been
// reconciled, no other one looks at the host: claims that were just created would overtake, and a host whose
// claim takes another one would be forgotten. What the allocator knows may be old; only a write of the
// host, at the version that was found free, gives it to a claim.
//
// The methods that can end a wait return the claims that are to be reconciled because of that.
type allocator struct {
	// labelsOf returns the labels of a namespace. A claim that waits has them as they were when it began to wait: they are
	// read with mu, so that a change is either seen then, or wakes the claim.
	labelsOf func(namespace string) map[string]string

	mu       sync.Mutex
	policies policies
	all      hosts
	// free are the hosts that are free and offered to no claim.
	free hosts
	// bound has, by claim, the hosts that name it as their consumer.
	bound map[types.NamespacedName]sets.Set[types.NamespacedName]
	// waiting are the claims without a host, sorted by compareAge.
	waiting []*claimRequest
	// offered has, by claim, the host that it is to take.
	offered map[types.NamespacedName]types.NamespacedName
}

func newAllocator(labelsOf func(namespace string) map[string]string) *allocator {
	return &allocator{
		labelsOf: labelsOf, policies: policies{}, all: hosts{}, free: hosts{},
		bound: map[types.NamespacedName]sets.Set[types.NamespacedName]{}, offered: map[types.NamespacedName]types.NamespacedName{},
	}
}

// set sets, or with nil removes, an entry of a map of maps.
func set[T any](all map[string]map[string]*T, key types.NamespacedName, value *T) {
	if value == nil {
		delete(all[key.Namespace], key.Name)
		if len(all[key.Namespace]) == 0 { // so that nothing is left of namespaces that are gone
			delete(all, key.Namespace)
		}
		return
	}
	if all[key.Namespace] == nil {
		all[key.Namespace] = map[string]*T{}
	}
	all[key.Namespace][key.Name] = value
}

// compareAge sorts claims by their age, and those of the same second by their names.
func compareAge(a, b *claimRequest) int {
	return cmp.Or(
		a.claim.CreationTimestamp.Compare(b.claim.CreationTimestamp.Time),
		cmp.Compare(a.claim.Namespace, b.claim.Namespace), cmp.Compare(a.claim.Name, b.claim.Name),
	)
}

// hostFound is hostChanged for a version that a claim has read or written, unless the watch has shown a later one. The watch
// is believed whatever version it shows: it has the last word, and after a restore of etcd, its versions are earlier ones.
func (a *allocator) hostFound(key types.NamespacedName, host *metal3.BareMetalHost) (concerned []types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.all[key.Namespace][key.Name]; known != nil && host != nil {
		if order, err := resourceversion.CompareResourceVersion(known.ResourceVersion, host.ResourceVersion); err == nil && order > 0 {
			return nil
		}
	}
	return a.note(key, host)
}

// hostChanged notes the latest version of a host, nil if it is gone. It returns the claims whose host it is or was, and
// one that waits for such a host.
func (a *allocator) hostChanged(key types.NamespacedName, host *metal3.BareMetalHost) (concerned []types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.note(key, host)
}

func (a *allocator) note(key types.NamespacedName, host *metal3.BareMetalHost) (concerned []types.NamespacedName) {
	if former, had := consumerOf(a.all[key.Namespace][key.Name]); had {
		concerned = append(concerned, former)
		if a.bound[former].Delete(key).Len() == 0 {
			delete(a.bound, former)
		}
	}
	if consumer, has := consumerOf(host); has {
		concerned = append(concerned, consumer)
		if a.bound[consumer] == nil {
			a.bound[consumer] = sets.New[types.NamespacedName]()
		}
		a.bound[consumer].Insert(key)
	}
	set(a.all, key, host)
	known := a.free[key.Namespace][key.Name]
	if known != nil && host != nil && isFree(host) && maps.Equal(known.Labels, host.Labels) {
		set(a.free, key, host) // the claims that wait have seen it already
		return concerned
	}
	return append(concerned, a.offer(key)...)
}

// policyChanged notes the latest version of a policy, nil if it is gone. It returns the claims that may
// be admitted now.
func (a *allocator) policyChanged(key types.NamespacedName, changed *policy) []types.NamespacedName {
	a.mu.Lock()
	defer a.mu.Unlock()
	set(a.policies, key, changed)
	return a.stopWaiting(func(*claimRequest) bool { return true })
}

// namespaceChanged returns the claims of a namespace that wait. Its labels have changed.
func (a *allocator) namespaceChanged(namespace string) []types.NamespacedName {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stopWaiting(func(r *claimRequest) bool { return r.claim.Namespace == namespace })
}

// pick returns the host that a claim was offered, or offers it another one. If there is none, the claim waits
// from now on. woken are claims that are offered a host that this one cannot have.
func (a *allocator) pick(r *claimRequest) (host *metal3.BareMetalHost, whyNot string, woken []types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	claim := kinds.KeyOf(r.claim)
	r.namespaceLabels = a.labelsOf(claim.Namespace)
	if key, found := a.offered[claim]; found {
		if host := a.all[key.Namespace][key.Name]; host != nil && isFree(host) && r.mayHave(host, a.policies) {
			return host, "", nil
		}
		woken = a.endOffer(claim)
	}
	if host, whyNot = choose(r, a.policies, a.free, a.all); host != nil {
		a.offered[claim] = kinds.KeyOf(host)
		set(a.free, kinds.KeyOf(host), nil)
		return host, "", woken
	}
	i, _ := slices.BinarySearchFunc(a.waiting, r, compareAge)
	a.waiting = slices.Insert(a.waiting, i, r)
	return nil, whyNot, woken
}

// begin ends the wait of a claim that is about to be reconciled.
func (a *allocator) begin(claim types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopWaiting(func(r *claimRequest) bool { return kinds.KeyOf(r.claim) == claim })
}

// end ends the offer to a claim that has been reconciled. If the claim has not taken the host, the next one is
// offered it.
func (a *allocator) end(claim types.NamespacedName) []types.NamespacedName {
	a.mu.Lock()
	defer a.mu.Unlock()
	waitingClaims.Set(float64(len(a.waiting)))
	return a.endOffer(claim)
}

// mayHave reports whether a claim may have a host, be it free or not.
func (a *allocator) mayHave(r *claimRequest, host *metal3.BareMetalHost) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.namespaceLabels = a.labelsOf(r.claim.Namespace)
	return r.mayHave(host, a.policies)
}

// admits reports whether a policy lets a claim have hosts of a namespace, if it suits them.
func (a *allocator) admits(claim *metal3.HostClaim, namespace string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.policies.admit(namespace, &claimRequest{claim: claim, namespaceLabels: a.labelsOf(claim.Namespace)})
}

// hostsOf returns the hosts that name a claim as their consumer.
func (a *allocator) hostsOf(claim types.NamespacedName) []types.NamespacedName {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bound[claim].UnsortedList()
}

// stopWaiting removes claims from those that wait, and returns them in their order.
func (a *allocator) stopWaiting(concerned func(*claimRequest) bool) (removed []types.NamespacedName) {
	a.waiting = slices.DeleteFunc(a.waiting, func(r *claimRequest) bool {
		if !concerned(r) {
			return false
		}
		removed = append(removed, kinds.KeyOf(r.claim))
		return true
	})
	return removed
}

// endOffer ends the offer to a claim, and offers the host to the next one.
func (a *allocator) endOffer(claim types.NamespacedName) []types.NamespacedName {
	host := a.offered[claim]
	delete(a.offered, claim)
	return a.offer(host)
}

// offer offers a host to the oldest claim that waits for a host like this, which it returns. It does
// nothing if the host is not free, or is offered already.
func (a *allocator) offer(key types.NamespacedName) []types.NamespacedName {
	set(a.free, key, nil)
	host := a.all[key.Namespace][key.Name]
	if host == nil || !isFree(host) || slices.Contains(slices.Collect(maps.Values(a.offered)), key) {
		return nil
	}
	i := slices.IndexFunc(a.waiting, func(r *claimRequest) bool { return r.mayHave(host, a.policies) })
	if i < 0 {
		set(a.free, key, host)
		return nil
	}
	claim := kinds.KeyOf(a.waiting[i].claim)
	a.waiting = slices.Delete(a.waiting, i, i+1)
	a.offered[claim] = key
	return []types.NamespacedName{claim}
}
