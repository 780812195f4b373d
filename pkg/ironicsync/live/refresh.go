// Package live keeps the recorded status of hosts up to date with Ironic. Readers ask a
// Refresher, which returns once an observation of Ironic that began after the call has been
// recorded. Concurrent readers share observations.
package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// Hosts gives access to the BareMetalHosts in etcd, without the refresh that precedes every
// read through the API.
type Hosts interface {
	Get(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, error)
	// Cached returns a host as this process has it in memory, which may be older than what is in
	// etcd, or nil. It must not be changed.
	Cached(ctx context.Context, namespace, name string) *metal3.BareMetalHost
	// List returns hosts that share memory with the watch cache: make a deep copy of a
	// host before changing it.
	List(ctx context.Context, options metav1.ListOptions) (*metal3.BareMetalHostList, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	// Record writes the host including its status. The error is a Conflict if the host has
	// been written since its resourceVersion.
	Record(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error)
	// Update writes spec and metadata as a client's PUT does. Removing the last finalizer
	// of a host that is being deleted completes the deletion.
	Update(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error)
}

// Nodes are the requests to Ironic that a read makes.
type Nodes interface {
	GetNode(ctx context.Context, idOrName string) (*ironic.Node, error)
	ListNodes(ctx context.Context) ([]ironic.Node, error)
	// ChangedSince returns the nodes that have changed at or after a time on Ironic's clock.
	// expected is an estimate of their number.
	ChangedSince(ctx context.Context, since time.Time, expected int) (*ironic.Changes, error)
	GetInventory(ctx context.Context, uuid string) (*ironic.Inventory, error)
}

const (
	// maxSingles bounds the observations of single hosts that are under way at a time.
	maxSingles = 4
	// singleTimeout and sweepTimeout bound one observation. With thousands of nodes, a
	// sweep takes several requests, each of which is bounded by the client, too.
	singleTimeout = 2 * time.Second
	sweepTimeout  = 2 * time.Minute
	// maxBulks bounds the observations of all hosts that are under way at a time. If one
	// seems to hang, another one begins beside it. The earlier one is not cancelled, because
	// then an observation that is merely slow would never be completed.
	maxBulks = 3
	// MaxRaces bounds how often an observation of a host is repeated because somebody else
	// has written the host meanwhile. Every other replica that wins such a race has recorded
	// an observation as well, so giving up still leaves a status that came from Ironic.
	MaxRaces = 20
	// minGatherTime is the minimum time for which readers of single hosts are gathered after
	// a sweep on their behalf. They are gathered for twice the duration of that sweep if that
	// is longer, so that such sweeps take at most a third of Ironic's time.
	minGatherTime = 100 * time.Millisecond
	// recorders bounds the concurrent writes to etcd of one observation of all hosts.
	recorders = 8
	// inventoriesPerBulk bounds the inventories that one observation of all hosts reads. The
	// controller reads the others.
	inventoriesPerBulk = 16
)

// Refresher observes Ironic and records what has changed. It serves any number of concurrent
// readers with few requests.
//
// A reader joins the next observation, never one that is already under way, so that what it
// is shown was true in Ironic after its request arrived. Readers of one host cause a request
// for its node. Readers of all hosts cause a request for the nodes that have changed (see
// feed.go). If so many readers of single hosts are waiting that reading all nodes is cheaper,
// one sweep serves all of them.
type Refresher struct {
	hosts Hosts
	nodes Nodes
	clock clock.PassiveClock
	// wait is how long a reader waits for an observation before the recorded status is served.
	wait time.Duration
	// CallbackTimeout is that of each lifecycle.Observation. Set it before use.
	CallbackTimeout time.Duration
	// Secrets is where RedactPassword reads passwords; nil if the server runs without a
	// cluster. Set it before use.
	Secrets corev1.SecretsGetter

	ctx      context.Context // ends with the server; observations outlive the reader that started them
	inFlight sync.WaitGroup

	mu      sync.Mutex
	waiting map[types.NamespacedName]*flight // observations of single hosts that have not begun
	all     *flight                          // the observation of all hosts that has not begun; may be nil
	singles map[types.NamespacedName]bool    // single hosts whose observation is under way
	bulks   []*flight                        // observations of all hosts that are under way
	known   int                              // number of hosts at the last observation of all hosts
	// gathering is set while readers of single hosts are gathered for the next sweep on
	// their behalf: there are too many for one request each.
	gathering bool
	// seen tells when the latest observation of a single host began, if that is later than seenAll.
	seen    map[types.NamespacedName]time.Time
	seenAll time.Time // when the latest complete observation of all hosts began
	// sweeping is set while a sweep for which no reader waits is under way in the background.
	sweeping bool

	view   *view              // what this replica knows about Ironic's nodes
	recent recentObservations // the latest observations of hosts
}

// maxRemembered is how many hosts are observed singly before all are, in the background, if nobody
// lists them. What is remembered of hosts and nodes that have been deleted is dropped only when all
// are observed, and on a replica that does not lead and serves only GETs, nothing else does that.
const maxRemembered = 1000

// flight is one observation, for which any number of readers wait. err and host must not be
// read before done is closed.
type flight struct {
	done chan struct{}
	err  error
	// host is the host as recorded by an observation of that host alone; nil otherwise. All
	// readers of the flight share it.
	host *metal3.BareMetalHost
	// slow is set when the observation has lasted as long as it may delay the next one,
	// which then begins beside it.
	slow bool
}

// NewRefresher returns a Refresher whose observations are cancelled when ctx ends. A reader
// waits at most as long as wait for an observation.
func NewRefresher(ctx context.Context, hosts Hosts, nodes Nodes, clock clock.PassiveClock, wait time.Duration) *Refresher {
	registerMetrics()
	return &Refresher{
		hosts: hosts, nodes: nodes, clock: clock, wait: wait, ctx: ctx,
		waiting: map[types.NamespacedName]*flight{},
		singles: map[types.NamespacedName]bool{},
		seen:    map[types.NamespacedName]time.Time{},
		view:    newView(),
		recent:  recentObservations{byHost: map[types.UID]recentObservation{}},
	}
}

// Wait returns when all observations that are under way have ended. Cancel the context given
// to NewRefresher first.
func (r *Refresher) Wait() { r.inFlight.Wait() }

// RefreshHost returns when an observation of the host that began after the call has been
// recorded. If that fails, the error is a *StaleError, and the caller serves the host as it
// was recorded before.
func (r *Refresher) RefreshHost(ctx context.Context, namespace, name string) error {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	return r.await(ctx, r.joinHost(key), key)
}

// ReadHost does what RefreshHost does, and returns the host as the observation has recorded
// it, which spares the caller a read from etcd. The host is nil if there was an error or if
// the observation was one of all hosts; the caller then has to read it.
func (r *Refresher) ReadHost(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	f := r.joinHost(key)
	if err := r.await(ctx, f, key); err != nil {
		return nil, err
	}
	return f.host.DeepCopy(), nil
}

// joinHost returns the next observation of a host, which has not begun yet.
func (r *Refresher) joinHost(key types.NamespacedName) *flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.waiting[key]
	if f == nil {
		f = &flight{done: make(chan struct{})}
		r.waiting[key] = f
		r.dispatch()
	}
	return f
}

// RefreshAll does for all hosts what RefreshHost does for one. If only the status of some
// hosts could not be refreshed, the error is a *PartialError.
func (r *Refresher) RefreshAll(ctx context.Context) error {
	return r.await(ctx, r.joinAll(), types.NamespacedName{})
}

// Poll does what RefreshAll does, but waits until the observation ends or ctx does. The error
// is that of the observation itself, and not a *StaleError.
func (r *Refresher) Poll(ctx context.Context) error {
	f := r.joinAll()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// joinAll returns the next observation of all hosts, which has not begun yet.
func (r *Refresher) joinAll() *flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.all
	if f == nil {
		f = &flight{done: make(chan struct{})}
		r.all = f
		r.dispatch()
	}
	return f
}

// await waits for an observation, at most as long as r.wait. The key names the host for which
// the caller waits; it is empty for all hosts.
func (r *Refresher) await(ctx context.Context, f *flight, key types.NamespacedName) error {
	timer := time.NewTimer(r.wait)
	defer timer.Stop()
	var err error
	select {
	case <-f.done:
		err = f.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = &ironic.UnavailableError{Op: "observe", Reason: fmt.Sprintf("no answer within %s", r.wait)}
	}
	if partial := new(PartialError); err == nil || errors.As(err, &partial) {
		return err
	}
	return &StaleError{Cause: err, Observed: r.lastSeen(key)}
}

// patience is how long an observation may delay readers that arrived after it had begun. The
// rest of their waiting time is left for the observation that they wait for.
func (r *Refresher) patience() time.Duration { return r.wait * 4 / 5 }

// letNextBegin lets the next observation begin beside an observation of all hosts that seems
// to hang. A timer calls it, and not a reader that has waited too long, because a reader whose
// own timeout is short stops waiting before that.
func (r *Refresher) letNextBegin(f *flight) {
	if r.ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f.slow = true
	r.gathering = false
	r.dispatch()
}

// bulkIsCheaper tells whether reading all nodes costs Ironic no more than a request for each
// of n hosts. A GET of one node takes Ironic about 4.5 ms, and a list about 0.15 ms for each
// node, so a GET costs as much as thirty nodes of a list. The factor is sixty because when n
// readers are waiting, about as many more are likely to arrive.
func (r *Refresher) bulkIsCheaper(n int) bool { return n > maxSingles+r.known/60 }

// dispatch begins the observations that may begin now. r.mu is held.
func (r *Refresher) dispatch() {
	if r.all != nil {
		r.dispatchBulk(false)
	}
	if r.gathering {
		return // endGathering dispatches
	}
	if r.bulkIsCheaper(len(r.waiting)) {
		r.dispatchBulk(true)
		return
	}
	for key, f := range r.waiting {
		if len(r.singles) >= maxSingles {
			return
		}
		if !r.singles[key] {
			r.startSingle(key, f)
		}
	}
}

// dispatchBulk begins an observation of all hosts unless one is under way. Observations that
// seem to hang do not count, so that requests made before an outage of Ironic do not delay
// the first reader after it. r.mu is held.
func (r *Refresher) dispatchBulk(forSingles bool) {
	for _, f := range r.bulks {
		if !f.slow {
			return
		}
	}
	if len(r.bulks) < maxBulks {
		r.startBulk(forSingles)
	}
}

// startSingle begins the observation of a single host. r.mu is held.
func (r *Refresher) startSingle(key types.NamespacedName, f *flight) {
	delete(r.waiting, key)
	r.singles[key] = true
	r.inFlight.Add(1)
	go func() {
		defer r.inFlight.Done()
		ctx, cancel := context.WithTimeout(r.ctx, min(singleTimeout, r.patience()))
		defer cancel()
		began := r.clock.Now()
		host, _, err := r.observeAndGet(ctx, key.Namespace, key.Name, r.hosts.Cached(ctx, key.Namespace, key.Name))
		exists := host != nil && err == nil
		f.err = IgnoreNotFound(err)
		if exists {
			f.host = host
		}
		close(f.done)

		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.singles, key)
		if f.err == nil && exists {
			r.seen[key] = began
		}
		if len(r.seen) > maxRemembered && !r.sweeping && r.view.isSweepDue(r.clock.Now()) {
			r.sweepInBackground()
		}
		r.dispatch()
	}()
}

// startBulk begins an observation of all hosts. With forSingles, it also serves the readers
// that wait for single hosts, and is a sweep: they have to see at once if a node was deleted,
// which the feed does not show. r.mu is held.
func (r *Refresher) startBulk(forSingles bool) {
	f := r.all
	r.all = nil
	var joined map[types.NamespacedName]*flight
	if forSingles {
		joined, r.waiting = r.waiting, map[types.NamespacedName]*flight{}
		r.gathering = true
	}
	if f == nil {
		f = &flight{done: make(chan struct{})}
	}
	r.bulks = append(r.bulks, f)
	r.inFlight.Add(1)
	go func() {
		defer r.inFlight.Done()
		tooLong := time.AfterFunc(r.patience(), func() { r.letNextBegin(f) })
		defer tooLong.Stop()
		began := r.clock.Now()
		var err error
		if forSingles {
			err = r.sweep()
		} else {
			err = r.observeAll()
		}
		f.err = err
		close(f.done)
		for key, j := range joined {
			j.err = errorFor(key, err)
			close(j.done)
		}

		if forSingles {
			took := r.clock.Since(began)
			// The readers gathered meanwhile must have enough time left for the next sweep.
			gatherTime := min(max(minGatherTime, 2*took), r.patience()-2*took)
			time.AfterFunc(gatherTime, r.endGathering)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.bulks = slices.DeleteFunc(r.bulks, func(b *flight) bool { return b == f })
		if err == nil && !r.sweeping && r.view.isSweepDue(r.clock.Now()) {
			r.sweepInBackground()
		}
		r.dispatch()
	}()
}

// sweepInBackground begins a sweep before the last one is so old that readers would have to
// wait for the next. r.mu is held.
func (r *Refresher) sweepInBackground() {
	r.sweeping = true
	r.inFlight.Add(1)
	go func() {
		defer r.inFlight.Done()
		if err := r.sweep(); err != nil && r.ctx.Err() == nil {
			klog.FromContext(r.ctx).V(2).Info("Reading all nodes failed; lists go by the feed of changes for as long as they may", "err", err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sweeping = false
	}()
}

// endGathering begins the observations that the readers gathered since the last sweep for
// readers of single hosts wait for.
func (r *Refresher) endGathering() {
	if r.ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gathering = false
	r.dispatch()
}

// LastObserved returns when the latest complete observation of all hosts began, or the zero
// time if there was none yet.
func (r *Refresher) LastObserved() time.Time { return r.lastSeen(types.NamespacedName{}) }

// lastSeen returns when the latest observation of a host began. The empty key stands for all
// hosts.
func (r *Refresher) lastSeen(key types.NamespacedName) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.seen[key]; t.After(r.seenAll) {
		return t
	}
	return r.seenAll
}

// ForgetNode tells the Refresher that a node was deleted from Ironic, which the feed of changes
// does not show.
func (r *Refresher) ForgetNode(id string) { r.view.forget(id) }

// NodesWithBMC returns the nodes, as they were last read, whose BMC address matches the key.
func (r *Refresher) NodesWithBMC(key bmc.Key) []ironic.Node { return r.view.withBMC(key) }

// TakeOver notes in the status of host that a user has confirmed that the node is the host's. It
// does not write the host to etcd.
func (r *Refresher) TakeOver(host *metal3.BareMetalHost, node *ironic.Node) {
	lifecycle.TakeOver(host, node, r.clock.Now())
}

// RequestClean notes in the status of host that steps are to be carried out on the node. It does not
// write the host to etcd. The error says why that is not possible.
func (r *Refresher) RequestClean(host *metal3.BareMetalHost, node *ironic.Node, steps []metal3.CleanStep) error {
	return lifecycle.RequestClean(host, node, steps, r.clock.Now())
}

// RequestRebuild notes in the status of host that its image is to be written again. It does not
// write the host to etcd. The error says why that is not possible.
func (r *Refresher) RequestRebuild(host *metal3.BareMetalHost, node *ironic.Node) error {
	return lifecycle.RequestRebuild(host, node, r.clock.Now())
}
