package drive

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// hostQueue is the storage of the work queue: first in, first out. In addition, it knows for how
// long hosts have been waiting. The methods of workqueue.Queue are called under the lock of the
// work queue, and the others from anywhere.
type hostQueue struct {
	mu    sync.Mutex
	items []queuedHost
	// lastTaken is when a worker last took a host; zero if none has yet.
	lastTaken time.Time
}

type queuedHost struct {
	key   types.NamespacedName
	since time.Time
}

// Touch does nothing: a host that is added again keeps its place.
func (q *hostQueue) Touch(types.NamespacedName) {}

// Push adds a host at the end.
func (q *hostQueue) Push(key types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, queuedHost{key, time.Now()})
}

// Len returns how many hosts are waiting.
func (q *hostQueue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// Pop removes the first host. It must not be called on an empty queue.
func (q *hostQueue) Pop() types.NamespacedName {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lastTaken = time.Now()
	first := q.items[0].key
	q.items[0] = queuedHost{} // so that its name is not kept in memory
	q.items = q.items[1:]
	return first
}

// oldest returns for how long the first host has been waiting; 0 if none is.
func (q *hostQueue) oldest() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return 0
	}
	return time.Since(q.items[0].since)
}

// stuckFor returns for how long hosts have been waiting without any worker taking one.
func (q *hostQueue) stuckFor() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return 0
	}
	since := q.items[0].since
	if q.lastTaken.After(since) {
		since = q.lastTaken
	}
	return time.Since(since)
}
