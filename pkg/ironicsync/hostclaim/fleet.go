package hostclaim

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// fleet brings hosts that are free and claims that wait together. A claim looks at the free hosts when
// it begins to wait, and a host at the waiting claims when it becomes free. So nothing is polled, and
// no pair of a claim and a host that do not suit each other is looked at again until one of them
// changes.
type fleet struct {
	mu       sync.Mutex
	policies policies
	all      hosts
	free     hosts
	// claimed has, by claim, the hosts that name it as their consumer.
	claimed map[types.NamespacedName]map[types.NamespacedName]bool
	// waiting are the claims without a host, the oldest first, and isWaiting their keys.
	waiting   []*wish
	isWaiting map[types.NamespacedName]bool
	// offers has, by claim, the host that the claim was woken for or is being bound to. No other claim
	// gets such a host.
	offers map[types.NamespacedName]types.NamespacedName
}

func newFleet() *fleet {
	return &fleet{
		policies: policies{}, all: hosts{}, free: hosts{},
		claimed: map[types.NamespacedName]map[types.NamespacedName]bool{}, offers: map[types.NamespacedName]types.NamespacedName{},
		isWaiting: map[types.NamespacedName]bool{},
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

// hostChanged notes the latest version of a host, nil if it is gone. It returns the claims that are to
// be reconciled: those whose host it is or was, and one that waits for such a host.
func (f *fleet) hostChanged(key types.NamespacedName, host *metal3.BareMetalHost) []types.NamespacedName {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.all[key.Namespace][key.Name]
	set(f.all, key, host)
	var concerned []types.NamespacedName
	if was, ok := consumerOf(before); ok {
		concerned = append(concerned, was)
		delete(f.claimed[was], key)
		if len(f.claimed[was]) == 0 {
			delete(f.claimed, was)
		}
	}
	if is, ok := consumerOf(host); ok {
		if !slices.Contains(concerned, is) {
			concerned = append(concerned, is)
		}
		if f.claimed[is] == nil {
			f.claimed[is] = map[types.NamespacedName]bool{}
		}
		f.claimed[is][key] = true
	}
	wasFree := f.free[key.Namespace][key.Name]
	if wasFree != nil && host != nil && isFree(host) && maps.Equal(wasFree.Labels, host.Labels) {
		set(f.free, key, host) // the claims that wait have seen it already
		return concerned
	}
	return append(concerned, f.offer(key, types.NamespacedName{})...)
}

// policyChanged notes the latest version of a policy, nil if it is gone. It returns the claims that may
// be admitted now.
func (f *fleet) policyChanged(key types.NamespacedName, changed *policy) []types.NamespacedName {
	f.mu.Lock()
	defer f.mu.Unlock()
	set(f.policies, key, changed)
	return f.wake(func(*wish) bool { return true })
}

// namespaceChanged returns the claims of a namespace that wait. Its labels have changed.
func (f *fleet) namespaceChanged(namespace string) []types.NamespacedName {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wake(func(w *wish) bool { return w.claim.Namespace == namespace })
}

// wake takes claims out of those that wait, and returns them in their order.
func (f *fleet) wake(concerned func(*wish) bool) []types.NamespacedName {
	var woken []types.NamespacedName
	f.waiting = slices.DeleteFunc(f.waiting, func(w *wish) bool {
		if !concerned(w) {
			return false
		}
		woken = append(woken, keyOf(w.claim))
		delete(f.isWaiting, keyOf(w.claim))
		return true
	})
	return woken
}

// pick chooses a host for a claim, which no other claim gets until settle is called. If there is none,
// the claim waits from now on. woken are claims that get a host that was offered to this one in vain.
func (f *fleet) pick(w *wish) (host *metal3.BareMetalHost, whyNot string, woken []types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	claim := keyOf(w.claim)
	f.stopWaiting(claim)
	if key, found := f.offers[claim]; found {
		if offered := f.all[key.Namespace][key.Name]; offered != nil && isFree(offered) && w.mayHave(offered, f.policies) {
			return offered, "", nil
		}
		delete(f.offers, claim)
		woken = f.offer(key, claim)
	}
	if host, whyNot = choose(w, f.policies, f.free, f.all); host != nil {
		f.offers[claim] = keyOf(host)
		set(f.free, keyOf(host), nil)
		return host, "", woken
	}
	i, _ := slices.BinarySearchFunc(f.waiting, w, compareAge)
	f.waiting, f.isWaiting[claim] = slices.Insert(f.waiting, i, w), true
	return nil, whyNot, woken
}

// compareAge sorts claims by their age, and those of the same second by their names.
func compareAge(a, b *wish) int {
	x, y := keyOf(a.claim), keyOf(b.claim)
	return cmp.Or(a.claim.CreationTimestamp.Compare(b.claim.CreationTimestamp.Time), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
}

// reserve keeps a host for a claim that is about to be bound to it.
func (f *fleet) reserve(claim, host types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopWaiting(claim)
	f.offers[claim] = host
	set(f.free, host, nil)
}

// refuse ends the reservation of a host that has turned out not to be free. Its watch will tell when it
// is.
func (f *fleet) refuse(claim types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.offers, claim)
}

// mayHave tells whether a claim may have a host, be it free or not.
func (f *fleet) mayHave(w *wish, host *metal3.BareMetalHost) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return w.mayHave(host, f.policies)
}

// settle ends what was begun for a claim when it was woken for a host, or has picked one. If that is not
// the host that it has got, the host is offered to the next claim, which is returned.
func (f *fleet) settle(claim, got types.NamespacedName) []types.NamespacedName {
	f.mu.Lock()
	defer f.mu.Unlock()
	host, found := f.offers[claim]
	delete(f.offers, claim)
	if !found || host == got {
		return nil // the watch of hosts tells a moment later that the host is in use
	}
	return f.offer(host, claim)
}

// forget has a claim wait no longer.
func (f *fleet) forget(claim types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopWaiting(claim)
}

func (f *fleet) stopWaiting(claim types.NamespacedName) {
	if f.isWaiting[claim] {
		delete(f.isWaiting, claim)
		f.waiting = slices.DeleteFunc(f.waiting, func(w *wish) bool { return keyOf(w.claim) == claim })
	}
}

// offer wakes the oldest claim that waits for a host like this, if it is free and not offered to
// another one. It returns that claim, which is not except.
func (f *fleet) offer(key, except types.NamespacedName) []types.NamespacedName {
	set(f.free, key, nil)
	host := f.all[key.Namespace][key.Name]
	if host == nil || !isFree(host) {
		return nil
	}
	for _, offered := range f.offers {
		if offered == key {
			return nil
		}
	}
	for i, w := range f.waiting {
		if claim := keyOf(w.claim); claim != except && w.mayHave(host, f.policies) {
			f.waiting = slices.Delete(f.waiting, i, i+1)
			delete(f.isWaiting, claim)
			f.offers[claim] = key
			return []types.NamespacedName{claim}
		}
	}
	set(f.free, key, host)
	return nil
}

// hostsOf returns the hosts that name a claim as their consumer.
func (f *fleet) hostsOf(claim types.NamespacedName) []types.NamespacedName {
	f.mu.Lock()
	defer f.mu.Unlock()
	var keys []types.NamespacedName
	for key := range f.claimed[claim] {
		keys = append(keys, key)
	}
	return keys
}

// waitingClaims returns how many claims wait for a host.
func (f *fleet) waitingClaims() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.waiting)
}
