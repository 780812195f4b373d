// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"maps"
	"sync"
)

// Places are for what waits for something of a tenant's, such as a BMC or an image server, which may never answer. Each
// namespace has a share of them, so that another that has none does not have to wait for it. All methods may be called
// concurrently.
type Places struct {
	gate    *Gate
	requeue func(namespace, name string)

	mu    sync.Mutex
	taken map[string]int // by namespace
}

// NewPlaces returns so many Places. A namespace with more than one has at most greed times as many as are left: half of them with
// greed 1, and nine tenths with greed 9. requeue is called with an object that was refused a place when it is its turn. It must
// not block.
func NewPlaces(places, greed int, requeue func(namespace, name string)) *Places {
	p := &Places{requeue: requeue, taken: map[string]int{}}
	p.gate = New(places, p.byNamespace).WithShares(func() int { return greed })
	return p
}

func (p *Places) byNamespace() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.taken)
}

// TryEnter takes a place for an object, which the caller gives back with Leave. If there is none, the object is requeued when
// it is its turn, unless it was forgotten.
func (p *Places) TryEnter(namespace, name string) bool {
	if !p.gate.TryStart(namespace, name) {
		return false
	}
	p.mu.Lock()
	p.taken[namespace]++
	p.mu.Unlock()
	p.gate.Seen(namespace, name)
	return true
}

// Leave gives back a place that was taken in a namespace.
func (p *Places) Leave(namespace string) {
	p.mu.Lock()
	if p.taken[namespace]--; p.taken[namespace] == 0 {
		delete(p.taken, namespace)
	}
	p.mu.Unlock()
	p.Wake()
}

// Forget says that an object is gone, or does not want a place any more.
func (p *Places) Forget(namespace, name string) {
	p.gate.Forget(namespace, name)
	p.Wake()
}

// Wake requeues the objects whose turn it is.
func (p *Places) Wake() {
	for {
		namespace, name, ok := p.gate.NextReady()
		if !ok {
			return
		}
		p.requeue(namespace, name)
	}
}
