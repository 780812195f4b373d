package hostclaim

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// allocator brings hosts that are free and claims that wait together. A claim looks at the free hosts when
// it begins to wait, and a host at the waiting claims when it becomes free. So nothing is polled, and
// no pair of a claim and a host that do not suit each other is looked at again until one of them
// changes.
//
// A claim either waits or has a host reserved, and a host is either free or reserved for one claim. The
// methods that can end a wait return the claims that are to be reconciled because of that.
type allocator struct {
	mu       sync.Mutex
	policies policies
	all      hosts
	// free are the hosts that are free and reserved for no claim.
	free hosts
	// bound has, by claim, the hosts that name it as their consumer.
	bound map[types.NamespacedName]sets.Set[types.NamespacedName]
	// waiting are the claims without a host, sorted by compareAge.
	waiting []*claimRequest
	// reserved has, by claim, the host that the claim was woken for or is being bound to.
	reserved map[types.NamespacedName]types.NamespacedName
}

func newAllocator() *allocator {
	return &allocator{
		policies: policies{}, all: hosts{}, free: hosts{},
		bound: map[types.NamespacedName]sets.Set[types.NamespacedName]{}, reserved: map[types.NamespacedName]types.NamespacedName{},
	}
}

func keyOf(obj interface {
	GetNamespace() string
	GetName() string
}) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// set sets, or with nil removes, an entry of a map of maps.
func set[T any](all map[string]map[string]*T, key types.NamespacedName, value *T) {
	if value == nil {
		delete(all[key.Namespace], key.Name)
		if len(all[key.Namespace]) == 0 {
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
	x, y := keyOf(a.claim), keyOf(b.claim)
	return cmp.Or(a.claim.CreationTimestamp.Compare(b.claim.CreationTimestamp.Time), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
}

// hostChanged notes the latest version of a host, nil if it is gone. It returns the claims whose host it is
// or was, and one that waits for such a host.
func (a *allocator) hostChanged(key types.NamespacedName, host *metal3.BareMetalHost) []types.NamespacedName {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.all[key.Namespace][key.Name]
	set(a.all, key, host)
	concerned := a.consumerChanged(key, before, host)
	if known := a.free[key.Namespace][key.Name]; known != nil && host != nil && isFree(host) && maps.Equal(known.Labels, host.Labels) {
		set(a.free, key, host) // the claims that wait have seen it already
		return concerned
	}
	return append(concerned, a.offer(key)...)
}

// consumerChanged notes which claim a host names as its consumer. It returns the one before, and the one
// after.
func (a *allocator) consumerChanged(key types.NamespacedName, before, host *metal3.BareMetalHost) (concerned []types.NamespacedName) {
	former, had := consumerOf(before)
	if had {
		concerned = append(concerned, former)
		if a.bound[former].Delete(key).Len() == 0 {
			delete(a.bound, former)
		}
	}
	consumer, has := consumerOf(host)
	if !has {
		return concerned
	}
	if a.bound[consumer] == nil {
		a.bound[consumer] = sets.New[types.NamespacedName]()
	}
	a.bound[consumer].Insert(key)
	if !had || former != consumer {
		concerned = append(concerned, consumer)
	}
	return concerned
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

// pick reserves a host for a claim until settle is called. If there is none, the claim waits from now on.
// woken are claims that get a host that was reserved for this one in vain.
func (a *allocator) pick(r *claimRequest) (host *metal3.BareMetalHost, whyNot string, woken []types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	claim := keyOf(r.claim)
	a.remove(claim)
	if key, found := a.reserved[claim]; found {
		if host := a.all[key.Namespace][key.Name]; host != nil && isFree(host) && r.mayHave(host, a.policies) {
			return host, "", nil
		}
		woken = a.pass(claim)
	}
	if host, whyNot = choose(r, a.policies, a.free, a.all); host != nil {
		a.take(claim, keyOf(host))
		return host, "", woken
	}
	i, _ := slices.BinarySearchFunc(a.waiting, r, compareAge)
	a.waiting = slices.Insert(a.waiting, i, r)
	return nil, whyNot, woken
}

// reserve reserves a host for a claim that is about to be bound to it.
func (a *allocator) reserve(claim, host types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.remove(claim)
	a.take(claim, host)
}

// refuse ends the reservation of a host that has turned out not to be free. Its watch will tell when it
// is.
func (a *allocator) refuse(claim types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.reserved, claim)
}

// settle ends the reservation of a claim. If the host is not the one that the claim has got, it is offered
// to the next claim, which is returned.
func (a *allocator) settle(claim, got types.NamespacedName) []types.NamespacedName {
	a.mu.Lock()
	defer a.mu.Unlock()
	if host, found := a.reserved[claim]; found && host != got {
		return a.pass(claim)
	}
	delete(a.reserved, claim) // the watch of hosts tells a moment later that the host is in use
	return nil
}

// forget ends the wait of a claim.
func (a *allocator) forget(claim types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.remove(claim)
}

// mayHave reports whether a claim may have a host, be it free or not.
func (a *allocator) mayHave(r *claimRequest, host *metal3.BareMetalHost) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return r.mayHave(host, a.policies)
}

// hostsOf returns the hosts that name a claim as their consumer.
func (a *allocator) hostsOf(claim types.NamespacedName) []types.NamespacedName {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bound[claim].UnsortedList()
}

// waitingClaims returns how many claims wait for a host.
func (a *allocator) waitingClaims() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting)
}

// remove removes a claim from those that wait.
func (a *allocator) remove(claim types.NamespacedName) {
	a.stopWaiting(func(r *claimRequest) bool { return keyOf(r.claim) == claim })
}

// stopWaiting removes claims from those that wait, and returns them in their order.
func (a *allocator) stopWaiting(concerned func(*claimRequest) bool) (removed []types.NamespacedName) {
	a.waiting = slices.DeleteFunc(a.waiting, func(r *claimRequest) bool {
		if !concerned(r) {
			return false
		}
		removed = append(removed, keyOf(r.claim))
		return true
	})
	return removed
}

// take reserves a host for a claim.
func (a *allocator) take(claim, host types.NamespacedName) {
	a.reserved[claim] = host
	set(a.free, host, nil)
}

// pass ends the reservation of a claim, and offers the host to the next one.
func (a *allocator) pass(claim types.NamespacedName) []types.NamespacedName {
	host := a.reserved[claim]
	delete(a.reserved, claim)
	return a.offer(host)
}

// offer reserves a host for the oldest claim that waits for a host like this, which it returns. It does
// nothing if the host is not free, or is reserved.
func (a *allocator) offer(key types.NamespacedName) []types.NamespacedName {
	set(a.free, key, nil)
	host := a.all[key.Namespace][key.Name]
	if host == nil || !isFree(host) {
		return nil
	}
	for _, reserved := range a.reserved {
		if reserved == key {
			return nil
		}
	}
	i := slices.IndexFunc(a.waiting, func(r *claimRequest) bool { return r.mayHave(host, a.policies) })
	if i < 0 {
		set(a.free, key, host)
		return nil
	}
	claim := keyOf(a.waiting[i].claim)
	a.waiting = slices.Delete(a.waiting, i, i+1)
	a.take(claim, key)
	return []types.NamespacedName{claim}
}
