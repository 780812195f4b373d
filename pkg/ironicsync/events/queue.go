// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// How many bytes of events wait until they are written. Whoever may edit hosts can cause hundreds of events a second.
const (
	maxWaitingOfNamespace = 4 << 20
	maxWaiting            = 4 * maxWaitingOfNamespace
)

// pending is an event that is to be written.
type pending struct {
	regarding *corev1.ObjectReference
	related   runtime.Object
	event     Event
	size      int // in bytes, about
}

// queue holds events until they are written. Namespaces take turns, so that the events of one do not hold up those of others. An event
// that does not fit is dropped, and where all do not fit, that of the namespace with the most.
type queue struct {
	mu          sync.Mutex
	waiting     map[string]*backlog
	turns       []string // the namespaces with waiting events, in the order of their turns
	size        int
	dropped     int
	isAdded     chan struct{} // has an element if an event may be waiting
	ofNamespace int
	ofAll       int
}

// backlog is what waits of one namespace.
type backlog struct {
	events []pending
	size   int
}

func newQueue(ofNamespace, ofAll int) *queue {
	return &queue{waiting: map[string]*backlog{}, isAdded: make(chan struct{}, 1), ofNamespace: ofNamespace, ofAll: ofAll}
}

// add never blocks.
func (q *queue) add(p pending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	namespace := p.regarding.Namespace
	of, waits := q.waiting[namespace]
	if !waits {
		of = &backlog{}
		q.waiting[namespace] = of
		q.turns = append(q.turns, namespace)
	}
	if of.size+p.size > q.ofNamespace {
		q.dropped++
		return
	}
	of.events = append(of.events, p)
	of.size += p.size
	q.size += p.size
	for q.size > q.ofAll {
		q.dropFromLongest()
	}
	select {
	case q.isAdded <- struct{}{}:
	default:
	}
}

// dropFromLongest drops the last event of the namespace of which the most wait.
func (q *queue) dropFromLongest() {
	var longest *backlog
	for _, of := range q.waiting {
		if longest == nil || of.size > longest.size {
			longest = of
		}
	}
	last := len(longest.events) - 1
	q.size -= longest.events[last].size
	longest.size -= longest.events[last].size
	longest.events[last] = pending{}
	longest.events = longest.events[:last]
	q.dropped++
}

// take waits for an event, and removes it. It returns false when ctx has ended. It also returns how many events were dropped since it
// was called before.
func (q *queue) take(ctx context.Context) (next pending, dropped int, ok bool) {
	for ctx.Err() == nil {
		if next, dropped, ok := q.takeWaiting(); ok {
			return next, dropped, true
		}
		select {
		case <-ctx.Done():
		case <-q.isAdded:
		}
	}
	return pending{}, 0, false
}

func (q *queue) takeWaiting() (next pending, dropped int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.turns) > 0 {
		namespace := q.turns[0]
		q.turns = q.turns[1:]
		of := q.waiting[namespace]
		if len(of.events) == 0 { // they were dropped
			delete(q.waiting, namespace)
			continue
		}
		next := of.events[0]
		of.events[0] = pending{}
		of.events = of.events[1:]
		of.size -= next.size
		q.size -= next.size
		if len(of.events) > 0 {
			q.turns = append(q.turns, namespace)
		} else {
			delete(q.waiting, namespace)
		}
		dropped, q.dropped = q.dropped, 0
		return next, dropped, true
	}
	return pending{}, 0, false
}
