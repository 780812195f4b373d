// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// A class is what Ironic waits for before it answers a request. Each class has connections of its own, so that requests of
// one never hold up those of another. Each request names its class where it is defined.
type class int

const (
	// unclassified requests are refused: their class was forgotten.
	unclassified class = iota
	// reads are answered from Ironic's database. The poll and the reads of hosts depend on them.
	reads
	// questions are reads whose answer one user waits for (ironic.WithQuestion).
	questions
	// writes change the database, or begin what Ironic then does in a worker of its own. Ironic may wait for the lock of
	// the node, for two seconds.
	writes
	// deployments wait for the server of a user's image, in which Ironic looks for the image (HEAD) before it answers.
	deployments
	// drives wait for a BMC, and are made by the controller of DataImages.
	drives
	// subscriptions wait for a BMC, and are made by the controller of BMCEventSubscriptions.
	subscriptions
	// actions wait for a BMC or an image server, and a user waits for them.
	actions
	classes
)

// tenantTimeout bounds a request that waits for something of a tenant's.
const tenantTimeout = 30 * time.Second

// waitsForTenant reports whether something of a tenant's can hold up the requests of a class.
func (c class) waitsForTenant() bool { return c != reads && c != questions && c != writes }

// in returns the class of a request in a context.
func (c class) in(ctx context.Context) class {
	if c == reads && ironic.IsQuestion(ctx) {
		return questions
	}
	return c
}

// newSlots returns the connections of each class.
func newSlots(cfg Config) [classes]*slots {
	return [classes]*slots{
		reads:         {free: cfg.ReadConnections, size: cfg.ReadConnections},
		questions:     {free: ironic.QuestionConnections, size: ironic.QuestionConnections, shared: map[string]int{}},
		writes:        {free: cfg.WriteConnections, size: cfg.WriteConnections},
		deployments:   {free: ironic.DeploymentConnections, size: ironic.DeploymentConnections, shared: map[string]int{}},
		drives:        {free: ironic.DriveConnections, size: ironic.DriveConnections, shared: map[string]int{}},
		subscriptions: {free: ironic.SubscriptionConnections, size: ironic.SubscriptionConnections, shared: map[string]int{}},
		actions:       {free: ironic.ActionConnections, size: ironic.ActionConnections, shared: map[string]int{}},
	}
}

// slots are the connections of a class. A slot is held for each request under way. They are no semaphore of
// golang.org/x/sync, which serves in the order of arrival: those behind a namespace that has its share would wait as well.
type slots struct {
	size int

	mu   sync.Mutex
	free int
	// shared counts the slots of each namespace; nil for a class without shares. A namespace with more than one slot has at
	// most as many as are left: half of them at most, so that another that has none does not have to wait for it.
	shared map[string]int
	// waiting are in the order in which they came.
	waiting []*waiter
}

type waiter struct {
	namespace string
	admitted  chan struct{} // closed when the slot is taken
}

// acquire takes a slot, and waits for one as long as ctx lasts.
func (s *slots) acquire(ctx context.Context, namespace string) error {
	w := &waiter{namespace, make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	s.admit()
	s.mu.Unlock()
	select {
	case <-w.admitted:
		return nil
	default:
	}
	select {
	case <-w.admitted:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.admitted:
		return nil // in the same moment
	default:
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(other *waiter) bool { return other == w })
	return ctx.Err()
}

// release gives a slot back.
func (s *slots) release(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.shared != nil {
		if s.shared[namespace]--; s.shared[namespace] == 0 {
			delete(s.shared, namespace)
		}
	}
	s.admit()
}

// admit gives slots to those that wait and may have one. s.mu must be held.
func (s *slots) admit() {
	s.waiting = slices.DeleteFunc(s.waiting, func(w *waiter) bool {
		if !s.mayHave(w.namespace) {
			return false
		}
		s.free--
		if s.shared != nil {
			s.shared[w.namespace]++
		}
		close(w.admitted)
		return true
	})
}

func (s *slots) mayHave(namespace string) bool {
	n := s.shared[namespace]
	return s.free > 0 && (s.shared == nil || n == 0 || n+1 <= s.free-1)
}
