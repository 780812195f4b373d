// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Planner has hosts planned again when something else than the host has changed on which their next step depends. It exists
// before, and after, there is anybody who plans.
type Planner struct {
	mu     sync.Mutex
	queues map[*Queue]bool
}

// NewPlanner returns a Planner.
func NewPlanner() *Planner { return &Planner{queues: map[*Queue]bool{}} }

// PlanHost plans the next step for a host at once, without waiting for the back-off of a failure.
func (p *Planner) PlanHost(namespace, name string) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	p.each(func(q *Queue) { q.planNow(key) })
}

// add plans the next step for a host.
func (p *Planner) add(host types.NamespacedName) { p.each(func(q *Queue) { q.Add(host) }) }

// each uses the queues of all Ironics. A host that is not an Ironic's own is dropped from its queue by a worker.
func (p *Planner) each(use func(*Queue)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for q := range p.queues {
		use(q)
	}
}

// register adds a queue, and returns what removes it.
func (p *Planner) register(q *Queue) (remove func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queues[q] = true
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.queues, q)
	}
}
