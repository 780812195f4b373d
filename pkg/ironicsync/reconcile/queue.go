// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// Queue has the hosts of an Ironic for which the next step is to be planned, and knows for how long to leave alone
// what has failed.
type Queue struct {
	workqueue.TypedRateLimitingInterface[types.NamespacedName]
	waiting *hostQueue // the storage of the queue

	mu       sync.Mutex
	backoffs map[types.NamespacedName]*backoff
}

// newQueue returns an empty Queue.
func newQueue(clock clock.WithTicker) *Queue {
	waiting := newHostQueue(clock)
	return &Queue{
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](200*time.Millisecond, 30*time.Second),
			workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{
				DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[types.NamespacedName]{
					Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[types.NamespacedName]{Name: "baremetalhosts", Queue: waiting, Clock: clock}),
					Name:  "baremetalhosts",
					Clock: clock,
				}),
			}),
		waiting:  waiting,
		backoffs: map[types.NamespacedName]*backoff{},
	}
}

// Done ends the work on a host, which began with Get.
func (q *Queue) Done(key types.NamespacedName) {
	q.waiting.done(key) // before another worker can take it again
	q.TypedRateLimitingInterface.Done(key)
}

func keyOf(host *metal3.BareMetalHost) types.NamespacedName {
	return types.NamespacedName{Namespace: host.Namespace, Name: host.Name}
}

// planNow plans the next step for a host at once, without waiting for the back-off of a failure.
func (q *Queue) planNow(key types.NamespacedName) {
	q.backoffOf(key, (*backoff).end)
	q.Add(key)
}

// backoffOf calls use with what is remembered of a host's failure.
func (q *Queue) backoffOf(key types.NamespacedName, use func(*backoff)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := q.backoffs[key]
	if b == nil {
		b = &backoff{}
		q.backoffs[key] = b
	}
	use(b)
}

// askedInVain reports whether the request that is recorded of a host was refused or never sent.
func (q *Queue) askedInVain(host *metal3.BareMetalHost) (inVain bool) {
	asked := host.Status.Record.Asked
	if asked != nil {
		q.backoffOf(keyOf(host), func(b *backoff) { inVain = equality.Semantic.DeepEqual(asked, b.notCarriedOut) })
	}
	return inVain
}

// powerAnswered reports whether the power-off or reboot that is recorded of a host was accepted, refused or never sent.
func (q *Queue) powerAnswered(host *metal3.BareMetalHost) (answered bool) {
	asked := host.Status.Record.AskedPower
	if asked != nil {
		q.backoffOf(keyOf(host), func(b *backoff) { answered = equality.Semantic.DeepEqual(asked, b.powerAnswered) })
	}
	return answered
}

// askedKnownFor returns for how long this process has known of the requests that are recorded of a host.
func (q *Queue) askedKnownFor(host *metal3.BareMetalHost, now time.Time) (asked, power time.Duration) {
	q.backoffOf(keyOf(host), func(b *backoff) {
		asked, power = b.asked.knownFor(host.Status.Record.Asked, now), b.askedPower.knownFor(host.Status.Record.AskedPower, now)
	})
	return asked, power
}

// forgetBackoff forgets the failure of a host that is gone.
func (q *Queue) forgetBackoff(key types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.backoffs, key)
}

// ironicIsBack ends the waits for BMCs that were silent before: they may be back, too, and were not
// tried while Ironic was away.
func (q *Queue) ironicIsBack() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, b := range q.backoffs {
		b.ironicIsBack()
	}
}

// hostQueue is the storage of the work queue. Namespaces take turns, and the hosts of each are first in, first out: whatever a
// step waits for, such as a tenant's DNS, the many hosts of one tenant hold up those of another by one step each. In
// addition, it knows for how long hosts have been waiting, or workers have been at work on them. The methods of workqueue.Queue are called under the lock of the
// work queue, and the others from anywhere.
type hostQueue struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// waiting are the hosts of each namespace; none is empty.
	waiting map[string][]queuedHost
	// turns are the namespaces of waiting, in the order in which it is their turn.
	turns []string
	// length is how many hosts are waiting.
	length int
	// lastTaken is when a worker last took a host; zero if none has yet.
	lastTaken time.Time
	// taken is since when workers have been at work on hosts.
	taken map[types.NamespacedName]time.Time
}

type queuedHost struct {
	name  string
	since time.Time
}

func newHostQueue(clock clock.PassiveClock) *hostQueue {
	return &hostQueue{clock: clock, waiting: map[string][]queuedHost{}, taken: map[types.NamespacedName]time.Time{}}
}

// Touch does nothing: a host that is added again keeps its place.
func (q *hostQueue) Touch(types.NamespacedName) {}

// Push adds a host at the end of those of its namespace.
func (q *hostQueue) Push(key types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	hosts := q.waiting[key.Namespace]
	if len(hosts) == 0 {
		q.turns = append(q.turns, key.Namespace)
	}
	q.waiting[key.Namespace] = append(hosts, queuedHost{key.Name, q.clock.Now()})
	q.length++
}

// Len returns how many hosts are waiting.
func (q *hostQueue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.length
}

// Pop removes the first host of the namespace whose turn it is. It must not be called on an empty queue.
func (q *hostQueue) Pop() types.NamespacedName {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lastTaken = q.clock.Now()
	namespace := q.turns[0]
	q.turns[0] = "" // so that its name is not kept in memory
	q.turns = q.turns[1:]
	hosts := q.waiting[namespace]
	first := hosts[0].name
	hosts[0] = queuedHost{}
	if hosts = hosts[1:]; len(hosts) > 0 {
		q.waiting[namespace] = hosts
		q.turns = append(q.turns, namespace)
	} else {
		delete(q.waiting, namespace)
	}
	q.length--
	key := types.NamespacedName{Namespace: namespace, Name: first}
	q.taken[key] = q.lastTaken
	return key
}

func (q *hostQueue) done(key types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.taken, key)
}

// longestWork returns for how long a worker has been at work on a host at most; 0 if none is. (The metric that workqueues have for
// that is the same one for the queues of all Ironics, of which the last to write it wins.)
func (q *hostQueue) longestWork() (longest time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, since := range q.taken {
		longest = max(longest, q.clock.Since(since))
	}
	return longest
}

// oldest returns for how long a host has been waiting at most; 0 if none is.
func (q *hostQueue) oldest() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.length == 0 {
		return 0
	}
	return q.clock.Since(q.earliest())
}

// earliest returns since when the host that has waited longest has been waiting. There must be one, and q.mu must be held.
func (q *hostQueue) earliest() (since time.Time) {
	for _, hosts := range q.waiting {
		if first := hosts[0].since; since.IsZero() || first.Before(since) {
			since = first
		}
	}
	return since
}

// stuckFor returns for how long hosts have been waiting without any worker taking one.
func (q *hostQueue) stuckFor() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.length == 0 {
		return 0
	}
	since := q.earliest()
	if q.lastTaken.After(since) {
		since = q.lastTaken
	}
	return q.clock.Since(since)
}
