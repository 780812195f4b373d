// Package live records what Ironic says now. Refresher answers readers: they wait for an
// observation of Ironic that began after they asked, and share it.
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

// Hosts is the recorded side: the BareMetalHosts in etcd, without the refresh
// that reads through the API do.
type Hosts interface {
	Get(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, error)
	// List returns hosts that share what they point to with the watch cache: copy
	// deeply what is to be changed.
	List(ctx context.Context, options metav1.ListOptions) (*metal3.BareMetalHostList, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	// Record writes host as it is, status and all, if nobody wrote since the
	// revision that host carries; else the error is a Conflict.
	Record(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error)
	// Update writes spec and metadata as a client's PUT does, and completes a
	// deletion when the last finalizer goes.
	Update(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error)
}

// Nodes is the observed side: what a read asks Ironic.
type Nodes interface {
	GetNode(ctx context.Context, idOrName string) (*ironic.Node, error)
	ListNodes(ctx context.Context) ([]ironic.Node, error)
	// ChangedSince returns the nodes that changed at or after a moment of Ironic's time.
	ChangedSince(ctx context.Context, since time.Time, expected int) (*ironic.Changes, error)
	GetInventory(ctx context.Context, uuid string) (*ironic.Inventory, error)
}

const (
	// maxSingles bounds the requests for single nodes under way at a time.
	maxSingles = 4
	// singleTimeout and sweepTimeout bound one observation of Ironic. A sweep takes
	// several requests where there are thousands of nodes, and the client bounds each.
	singleTimeout = 2 * time.Second
	sweepTimeout  = 2 * time.Minute
	// maxBulks bounds the bulk observations under way at a time. Another one begins
	// beside one that may hang; none is given up for a younger one, as one that is only
	// slow would never be finished.
	maxBulks = 3
	// maxRaces bounds how often one observation is made again because somebody
	// else wrote the host meanwhile. Whoever wins has recorded an observation
	// too, so that even giving up serves a state of Ironic's, only an older one.
	MaxRaces = 20
	// stormLull is the least time for which readers of single hosts are gathered
	// after a bulk request for many of them. With twice the time that the request
	// took, if that is more, it leaves Ironic two thirds of its time for others.
	stormLull = 100 * time.Millisecond
	// recorders bounds the writes to etcd of one bulk observation.
	recorders = 8
	// inventoriesPerBulk bounds the inventories that one bulk observation reads;
	// the controller fetches the others.
	inventoriesPerBulk = 16
)

// Refresher answers "what does Ironic say now": it observes Ironic and records
// the difference, for any number of concurrent readers at the price of few
// requests.
//
// A reader joins the next observation, never one already under way: what it is
// shown was true in Ironic after its request arrived. Readers of one host cause
// a request for that node. Readers of all hosts cause one for the nodes that have
// changed (feed.go); when more readers of single hosts wait than all nodes would cost,
// all nodes are read for them.
type Refresher struct {
	hosts Hosts
	nodes Nodes
	clock clock.PassiveClock
	// wait is how long a reader waits before it is served what is recorded.
	wait time.Duration
	// CallbackTimeout goes into each Observation. Set it before use.
	CallbackTimeout time.Duration
	// Secrets are where RedactPassword finds passwords; nil where there is no cluster. Set
	// it before use.
	Secrets corev1.SecretsGetter

	ctx    context.Context // ends with the server; observations outlive the reader that started them
	flying sync.WaitGroup

	mu      sync.Mutex
	waiting map[types.NamespacedName]*flight // hosts whose observation has not begun
	all     *flight                          // the bulk observation that has not begun
	singles map[types.NamespacedName]bool    // hosts under observation
	bulks   []*flight                        // bulk observations under way
	known   int                              // hosts at the last bulk observation
	// storm is set while many readers ask for single hosts: they are gathered for
	// a bulk request now and then, or Ironic would have a share for each.
	storm   bool
	seen    map[types.NamespacedName]time.Time
	seenAll time.Time
	// sweeping is set while a sweep that nobody waits for is under way.
	sweeping bool

	view  *view // what this replica knows of Ironic's nodes
	looks looks // the latest observations of hosts
}

// flight is one observation. A reader waits for done.
type flight struct {
	done chan struct{}
	err  error
	// host is the host as it was recorded by an observation of that host alone; nil
	// otherwise. Those who wait share it.
	host *metal3.BareMetalHost
	// slow is set when the flight has lasted as long as anybody may be held up by
	// it: those who wait need not wait for its end before theirs begins.
	slow bool
}

// NewRefresher returns a Refresher whose observations end when ctx does. A
// reader waits for an observation as long as wait.
func NewRefresher(ctx context.Context, hosts Hosts, nodes Nodes, clock clock.PassiveClock, wait time.Duration) *Refresher {
	registerMetrics()
	return &Refresher{
		hosts: hosts, nodes: nodes, clock: clock, wait: wait, ctx: ctx,
		waiting: map[types.NamespacedName]*flight{},
		singles: map[types.NamespacedName]bool{},
		seen:    map[types.NamespacedName]time.Time{},
		view:    newView(),
		looks:   looks{byHost: map[types.UID]look{}},
	}
}

// Wait returns when the observations under way have ended. The context given to
// NewRefresher must have ended.
func (r *Refresher) Wait() { r.flying.Wait() }

// RefreshHost returns when an observation of the host that began after the call
// has been recorded. The error is a *StaleError, and the caller then serves what
// is recorded.
func (r *Refresher) RefreshHost(ctx context.Context, namespace, name string) error {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	return r.await(ctx, r.joinHost(key), key)
}

// ReadHost is RefreshHost, and returns the host as the observation has recorded it, which
// spares the caller a read of etcd. The host is nil after an error, and where the
// observation was one of all hosts: then it has to be read.
func (r *Refresher) ReadHost(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	f := r.joinHost(key)
	if err := r.await(ctx, f, key); err != nil {
		return nil, err
	}
	return f.host.DeepCopy(), nil
}

// joinHost returns the next observation of a host.
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

// RefreshAll is RefreshHost for all hosts. Where the status of some could not be
// recorded, the error is a *PartialError.
func (r *Refresher) RefreshAll(ctx context.Context) error {
	return r.await(ctx, r.joinAll(), types.NamespacedName{})
}

// Poll is RefreshAll for somebody who has the time that it takes. The error is why
// Ironic could not be observed.
func (r *Refresher) Poll(ctx context.Context) error {
	f := r.joinAll()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// joinAll returns the next bulk observation.
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

// patience is how long an observation may hold up the readers who came after it
// began. What is left of their wait is for their own.
func (r *Refresher) patience() time.Duration { return r.wait * 4 / 5 }

// passBy lets those who wait begin an observation of their own beside a bulk
// observation that seems to hang. That is up to the clock and not to a reader who
// gives up: one with a short time-out of its own never does.
func (r *Refresher) letNextBegin(f *flight) {
	if r.ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f.slow = true
	r.storm = false
	r.dispatch()
}

// bulkIsCheaper tells whether one bulk request costs Ironic about as little as a
// request for each of n hosts: a single GET takes it about 4.5 ms, a bulk 0.15 ms
// for each node. So one GET is worth thirty nodes of a bulk; and where n wait,
// as many are about to come.
func (r *Refresher) bulkIsCheaper(n int) bool { return n > maxSingles+r.known/60 }

// dispatch begins the observations that may begin now. r.mu is held.
func (r *Refresher) dispatch() {
	if r.all != nil {
		r.dispatchBulk(false)
	}
	if r.storm {
		return // gathering; the end of the lull dispatches
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

// dispatchBulk begins a bulk observation when none is under way, or beside those that
// may hang, so that the first reader after Ironic came back is not held up by requests
// from before.
func (r *Refresher) dispatchBulk(storm bool) {
	for _, f := range r.bulks {
		if !f.slow {
			return
		}
	}
	if len(r.bulks) < maxBulks {
		r.startBulk(storm)
	}
}

func (r *Refresher) startSingle(key types.NamespacedName, f *flight) {
	delete(r.waiting, key)
	r.singles[key] = true
	r.flying.Add(1)
	go func() {
		defer r.flying.Done()
		ctx, cancel := context.WithTimeout(r.ctx, min(singleTimeout, r.patience()))
		defer cancel()
		began := r.clock.Now()
		host, _, err := r.ObserveAndGet(ctx, key.Namespace, key.Name)
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
		r.dispatch()
	}()
}

// startBulk begins a bulk observation for those who wait for all hosts. In a storm it
// is for those who wait for single hosts, too: they see at once that a node was deleted,
// which only a read of all nodes shows.
func (r *Refresher) startBulk(storm bool) {
	f := r.all
	r.all = nil
	var joined map[types.NamespacedName]*flight
	if storm {
		joined, r.waiting = r.waiting, map[types.NamespacedName]*flight{}
		r.storm = true
	}
	if f == nil {
		f = &flight{done: make(chan struct{})}
	}
	r.bulks = append(r.bulks, f)
	r.flying.Add(1)
	go func() {
		defer r.flying.Done()
		tooLong := time.AfterFunc(r.patience(), func() { r.letNextBegin(f) })
		defer tooLong.Stop()
		began := r.clock.Now()
		var err error
		if storm {
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

		if storm {
			took := r.clock.Since(began)
			lull := min(max(stormLull, 2*took), r.patience()-2*took) // and time for the next one
			time.AfterFunc(lull, r.endStorm)
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

// sweepInBackground sweeps before a reader would have to wait for it. r.mu is held.
func (r *Refresher) sweepInBackground() {
	r.sweeping = true
	r.flying.Add(1)
	go func() {
		defer r.flying.Done()
		if err := r.sweep(); err != nil && r.ctx.Err() == nil {
			klog.FromContext(r.ctx).V(2).Info("Reading all nodes failed; lists go by the feed of changes for as long as they may", "err", err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sweeping = false
	}()
}

// endStorm ends the lull after a bulk observation for readers of single hosts.
func (r *Refresher) endStorm() {
	if r.ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.storm = false
	r.dispatch()
}

// LastObserved returns when the latest complete observation of all hosts began;
// zero when there was none yet.
func (r *Refresher) LastObserved() time.Time { return r.lastSeen(types.NamespacedName{}) }

func (r *Refresher) lastSeen(key types.NamespacedName) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.seen[key]; t.After(r.seenAll) {
		return t
	}
	return r.seenAll
}

// ForgetNode tells that a node was deleted from Ironic, which its feed of changes does not show.
func (r *Refresher) ForgetNode(id string) { r.view.forget(id) }

// NodesWithBMC returns the nodes, as they were last seen, whose BMC may be the one with the
// key.
func (r *Refresher) NodesWithBMC(key bmc.Key) []ironic.Node { return r.view.withBMC(key) }

// TakeOver records on host that a person has confirmed that the node is the host's.
func (r *Refresher) TakeOver(host *metal3.BareMetalHost, node *ironic.Node) {
	lifecycle.TakeOver(host, node, r.clock.Now())
}
