// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live/flight"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live/index"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
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
	// sweepTimeout bounds one observation of all hosts. With thousands of nodes, a
	// sweep takes several requests, each of which is bounded by the client, too.
	sweepTimeout = 2 * time.Minute
	// maxBulks bounds the observations of all hosts that are under way at a time. If one
	// seems to hang, another one begins beside it. The earlier one is not cancelled, because
	// then an observation that is merely slow would never be completed.
	maxBulks = 3
	// MaxRaces bounds how often an observation of a host is repeated because another writer
	// has written the host meanwhile. Every other replica that wins such a race has recorded
	// an observation as well, so giving up still leaves a status that came from Ironic.
	MaxRaces = 20
	// justShown is how long ago Ironic must have shown all nodes at most for its failure to show one to be about that one. Where
	// the leader polls, that is a second.
	justShown = 5 * time.Second
	// minGatherTime is the minimum time for which readers of single hosts are gathered after
	// a sweep on their behalf. They are gathered for twice the duration of that sweep if that
	// is longer, so that such sweeps take at most a third of Ironic's time.
	minGatherTime = 100 * time.Millisecond
	// recorders bounds the concurrent requests to etcd of one observation of all hosts.
	recorders = 8
	// inventoriesPerBulk bounds the inventories that one observation of all hosts reads. The
	// controller reads the others.
	inventoriesPerBulk = 16
	// maxRemembered is how many hosts are observed singly before all are, in the background, if
	// nobody lists them. What is remembered of hosts and nodes that have been deleted is dropped
	// only when all are observed, and on a replica that does not lead and serves only GETs, nothing
	// else does that.
	maxRemembered = 1000
)

// Deps is what a Refresher works with.
type Deps struct {
	// Ironic is the name of the IronicInstance whose Ironic is observed; empty for that of the server's flags.
	Ironic string
	Hosts  Hosts
	Nodes  Nodes
	// Secrets is where Passwords are read.
	Secrets secrets.Reader
	Clock   clock.WithDelayedExecution
	// Wait is how long a reader waits for an observation before the recorded status is served.
	Wait time.Duration
	// CallbackTimeout is that of each lifecycle.Observation.
	CallbackTimeout time.Duration
	// Changes reports all hosts; nil if the Refresher is to list them before each observation.
	Changes *HostChanges
	// History is what earlier Refreshers of the Ironic have observed; nil if there were none.
	History *History
	// Cluster returns the UID of this cluster, by which nodes of other clusters are told from its own; empty while it is
	// not known.
	Cluster func() string
}

// Refresher observes one Ironic and records what has changed of the hosts that have their nodes in it. It
// serves any number of concurrent readers with few requests.
//
// A reader joins the next observation, never one that is already under way, so that what it
// is shown was true in Ironic after its request arrived; see package flight. Readers of one host
// cause a request for its node. Readers of all hosts cause a request for the nodes that have
// changed (see feed.go). If so many readers of single hosts are waiting that reading all nodes is
// cheaper, one sweep serves all of them.
type Refresher struct {
	*bulk
	wait    time.Duration
	flights *flight.Group[types.NamespacedName, *metal3.BareMetalHost]
	// singleTook is how long the latest observation of a single host took that did not fail, in nanoseconds.
	singleTook atomic.Int64
}

// NewRefresher returns a Refresher whose observations are cancelled when ctx ends.
func NewRefresher(ctx context.Context, deps Deps) *Refresher {
	beginMetrics(deps.Ironic)
	one := &observer{
		Passwords: NewPasswords(deps.Secrets), ironic: deps.Ironic, hosts: deps.Hosts, nodes: deps.Nodes, clock: deps.Clock,
		callbackTimeout: deps.CallbackTimeout, cluster: deps.Cluster,
		index: index.New(), recent: recentObservations{byHost: map[types.UID]recentObservation{}},
	}
	all := &bulk{
		observer: one, ctx: ctx, patience: deps.Wait * 4 / 5, changes: deps.Changes,
		history: cmp.Or(deps.History, newHistory()),
	}
	r := &Refresher{bulk: all, wait: deps.Wait}
	if deps.Changes != nil {
		deps.Changes.add(r)
	}
	r.flights = flight.NewGroup(ctx, flight.Config[types.NamespacedName, *metal3.BareMetalHost]{
		Clock: deps.Clock, ObserveOne: r.observeOne, ObserveAll: r.observeForReaders, ErrorFor: errorFor, AllIsCheaper: r.bulkIsCheaper,
		MaxOnes: maxSingles, MaxAlls: maxBulks, OneTimeout: r.patience, Patience: r.patience, MinGatherTime: minGatherTime,
	})
	return r
}

// Wait returns when all observations that are under way have ended. Cancel the context given
// to NewRefresher first.
func (r *Refresher) Wait() {
	r.flights.Wait()
	r.background.Wait()
}

// RefreshHost returns when an observation of the host that began after the call has been
// recorded. If that fails, the error is a *StaleError, and the caller serves the host as it
// was recorded before.
func (r *Refresher) RefreshHost(ctx context.Context, namespace, name string) error {
	_, err := r.awaitHost(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	return err
}

// ReadHost does what RefreshHost does, and returns the host as the observation has recorded
// it, which spares the caller a read from etcd. The host is nil if there was an error or if
// the observation was one of all hosts; the caller then has to read it.
func (r *Refresher) ReadHost(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, error) {
	host, err := r.awaitHost(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	return host.DeepCopy(), err
}

// awaitHost waits for an observation of a host.
func (r *Refresher) awaitHost(ctx context.Context, key types.NamespacedName) (*metal3.BareMetalHost, error) {
	f := r.flights.JoinOne(key)
	defer r.flights.LeaveOne(key, f)
	return r.await(ctx, f, key)
}

// Know tells which hosts there are, read from etcd just before; they share memory with the watch cache. The Refresher
// knows them already if they were written a while ago, but is told of changes a moment late.
func (r *Refresher) Know(hosts []*metal3.BareMetalHost) { r.index.KnowHosts(r.own(hosts)...) }

// RefreshAll does for all hosts what RefreshHost does for one. If only the status of some
// hosts could not be refreshed, the error is a *PartialError. The caller has told those for which it waits by Know, and need not keep
// them while it waits: there can be many such callers.
func (r *Refresher) RefreshAll(ctx context.Context) error {
	_, err := r.await(ctx, r.flights.JoinAll(), types.NamespacedName{})
	return err
}

// Touch begins an observation of all hosts, unless one is about to begin, and does not wait for it.
func (r *Refresher) Touch() { r.flights.JoinAll() }

// Poll does what RefreshAll does, but waits until the observation ends or ctx does. The error
// is that of the observation itself, and not a *StaleError.
func (r *Refresher) Poll(ctx context.Context) error {
	f := r.flights.JoinAll()
	select {
	case <-f.Done():
		_, err := f.Result()
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Patience returns for how long a read waits for Ironic: as long as is allowed, and three quarters of what its client has left, so that
// there is time to answer with what is recorded.
func Patience(ctx context.Context, clock clock.PassiveClock, allowed time.Duration) time.Duration {
	if deadline, has := ctx.Deadline(); has {
		return min(allowed, deadline.Sub(clock.Now())*3/4)
	}
	return allowed
}

// await waits for an observation, at most as long as r.wait. The key names the host for which
// the caller waits; it is empty for all hosts. The host is nil after an error, and shared with
// other readers.
func (r *Refresher) await(ctx context.Context, f *flight.Flight[*metal3.BareMetalHost], key types.NamespacedName) (*metal3.BareMetalHost, error) {
	limit := Patience(ctx, r.clock, r.wait)
	timer := r.clock.NewTimer(limit)
	defer timer.Stop()
	waiting := waitingReads.WithLabelValues(r.ironic)
	waiting.Inc()
	defer waiting.Dec()
	var host *metal3.BareMetalHost
	var err error
	select {
	case <-f.Done():
		host, err = f.Result()
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C():
		err = &ironic.UnavailableError{Op: "observe", Reason: fmt.Sprintf("no answer within %s", limit.Round(time.Millisecond))}
	}
	if partial := new(PartialError); err == nil || errors.As(err, &partial) {
		return host, err
	}
	stale := &StaleError{Cause: err, Observed: r.history.LastSeen(key)}
	if ironic.MayBeOfOneNode(err) && r.clock.Since(r.LastObserved()) <= justShown {
		stale.Reason = metal3.NodeUnreadableReason
	}
	return nil, stale
}

// bulkIsCheaper reports whether reading all nodes costs Ironic no more than a request for each
// of n hosts. A GET of one node takes Ironic about 4.5 ms, and a list about 0.15 ms for each
// node, so a GET costs as much as thirty nodes of a list. The factor is sixty because when n
// readers are waiting, about as many more are likely to arrive.
//
// A reader who has just missed a sweep waits for that one, for others to gather, and for the next. If that
// takes longer than readers can wait, a sweep has to be quicker, too, than so many single requests.
func (r *Refresher) bulkIsCheaper(n int) bool {
	if n <= maxSingles+r.index.CountHosts()/60 {
		return false
	}
	sweep, singles := time.Duration(r.sweepTook.Load()), time.Duration(n)*time.Duration(r.singleTook.Load())/maxSingles
	return sweep <= r.patience/3 || sweep <= min(singles, r.patience)
}

// observeOne observes a single host for its readers. The host is nil if it does not exist.
func (r *Refresher) observeOne(ctx context.Context, key types.NamespacedName) (*metal3.BareMetalHost, error) {
	began := r.clock.Now()
	host, _, err := r.observeAndGet(ctx, key.Namespace, key.Name, r.hosts.Cached(ctx, key.Namespace, key.Name))
	if err != nil {
		return nil, IgnoreNotFound(err)
	}
	r.singleTook.Store(int64(r.clock.Since(began)))
	if r.history.saw(key, began) {
		r.sweepIfDue()
	}
	return host, nil
}

// observeForReaders observes all hosts. An observation that also serves readers of single hosts is a
// sweep: they have to see at once if a node was deleted, which the feed does not show.
func (r *Refresher) observeForReaders(_ context.Context, ones []types.NamespacedName) error {
	observe := r.observeAll
	if len(ones) > 0 {
		observe = func() error { return r.sweep(ones...) }
	}
	if err := observe(); err != nil {
		return err
	}
	r.sweepIfDue()
	return nil
}

// LastObserved returns when the latest complete observation of all hosts began, or the zero
// time if there was none yet.
func (r *Refresher) LastObserved() time.Time { return r.history.LastSeen(types.NamespacedName{}) }

// History returns what outlives the Refresher.
func (r *Refresher) History() *History { return r.history }

// ForgetNode tells the Refresher that a node was deleted from Ironic, which the feed of changes
// does not show.
func (r *Refresher) ForgetNode(id string) { r.index.ForgetNode(id) }

// CountNodes returns how many nodes Ironic has, and the time as of which that was read; zero if it is not known.
func (r *Refresher) CountNodes() (nodes int, asOf time.Time) { return r.index.CountNodes() }

// HasNodeOf reports whether the node of a host was there when all nodes were last read. It may have been deleted since.
func (r *Refresher) HasNodeOf(host *metal3.BareMetalHost) bool {
	node, _ := r.index.NodeOf(host)
	return node != nil && !node.IsAnothers(host.Namespace, host.Name)
}

// SomeNode reports whether something is so of any of the nodes, as they were last read.
func (r *Refresher) SomeNode(is func(*ironic.Node) bool) bool { return r.index.Some(is) }

// NodesWithBMC returns the nodes, as they were last read, whose BMC address matches the key, and the
// time as of which these are all; see index.Index. While asOf is zero, that is not known.
func (r *Refresher) NodesWithBMC(key bmc.Key) (nodes []ironic.Node, asOf time.Time) {
	return r.index.NodesWithBMC(key)
}
