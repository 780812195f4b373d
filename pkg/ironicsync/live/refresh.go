// Package live records what Ironic says now. Refresher answers readers: they wait for an
// observation of Ironic that began after they asked, and share it.
package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
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
	GetInventory(ctx context.Context, uuid string) (*ironic.Inventory, error)
}

const (
	// maxSingles bounds the requests for single nodes under way at a time.
	maxSingles = 4
	// singleTimeout and bulkTimeout bound one observation of Ironic.
	singleTimeout = 2 * time.Second
	BulkTimeout   = 30 * time.Second
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
// a request for that node; when more hosts wait than a bulk request would cost,
// or somebody wants all, one bulk request serves everybody who is waiting.
type Refresher struct {
	hosts Hosts
	nodes Nodes
	clock clock.PassiveClock
	// wait is how long a reader waits before it is served what is recorded.
	wait time.Duration
	// CallbackTimeout goes into each Observation. Set it before use.
	CallbackTimeout time.Duration
	// Secrets are where Strike finds passwords; nil where there is no cluster. Set
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
}

// flight is one observation. A reader waits for done.
type flight struct {
	done chan struct{}
	err  error
	// slow is set when the flight has lasted as long as anybody may be held up by
	// it: those who wait need not wait for its end before theirs begins.
	slow   bool
	cancel context.CancelFunc
}

// NewRefresher returns a Refresher whose observations end when ctx does. A
// reader waits for an observation as long as wait.
func NewRefresher(ctx context.Context, hosts Hosts, nodes Nodes, clock clock.PassiveClock, wait time.Duration) *Refresher {
	return &Refresher{
		hosts: hosts, nodes: nodes, clock: clock, wait: wait, ctx: ctx,
		waiting: map[types.NamespacedName]*flight{},
		singles: map[types.NamespacedName]bool{},
		seen:    map[types.NamespacedName]time.Time{},
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
	r.mu.Lock()
	f := r.waiting[key]
	if f == nil {
		f = &flight{done: make(chan struct{})}
		r.waiting[key] = f
		r.dispatch()
	}
	r.mu.Unlock()
	return r.await(ctx, f, key)
}

// RefreshAll is RefreshHost for all hosts.
func (r *Refresher) RefreshAll(ctx context.Context) error {
	r.mu.Lock()
	f := r.all
	if f == nil {
		f = &flight{done: make(chan struct{})}
		r.all = f
		r.dispatch()
	}
	r.mu.Unlock()
	return r.await(ctx, f, types.NamespacedName{})
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
		err = fmt.Errorf("no answer within %s", r.wait)
	}
	if err == nil {
		return nil
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
	if r.all == nil && r.storm {
		return // gathering; the end of the lull dispatches
	}
	if r.all != nil || r.bulkIsCheaper(len(r.waiting)) {
		r.dispatchBulk()
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

// dispatchBulk begins a bulk observation when none is under way, or beside one
// that hangs; when two hang, the older one is given up, so that the first reader
// after Ironic came back is never held up by requests from before.
func (r *Refresher) dispatchBulk() {
	for _, f := range r.bulks {
		if !f.slow {
			return
		}
	}
	if len(r.bulks) == 2 {
		r.bulks[0].cancel()
		return // its end dispatches again
	}
	r.startBulk()
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
		f.err = r.ObserveHost(ctx, key.Namespace, key.Name)
		close(f.done)

		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.singles, key)
		if f.err == nil {
			r.seen[key] = began
		}
		r.dispatch()
	}()
}

func (r *Refresher) startBulk() {
	f := r.all
	storm := f == nil
	if storm {
		f = &flight{done: make(chan struct{})}
		r.storm = true
	}
	joined := r.waiting // a bulk observation serves those who wait for one host, too
	r.all, r.waiting = nil, map[types.NamespacedName]*flight{}
	var ctx context.Context
	ctx, f.cancel = context.WithTimeout(r.ctx, BulkTimeout)
	r.bulks = append(r.bulks, f)
	r.flying.Add(1)
	go func() {
		defer r.flying.Done()
		defer f.cancel()
		tooLong := time.AfterFunc(r.patience(), func() { r.letNextBegin(f) })
		defer tooLong.Stop()
		began := r.clock.Now()
		err := r.ObserveAll(ctx)
		f.err = err
		close(f.done)
		for _, j := range joined {
			j.err = err
			close(j.done)
		}

		if storm {
			took := r.clock.Since(began)
			lull := min(max(stormLull, 2*took), r.patience()-2*took) // and time for the next one
			time.AfterFunc(lull, r.endStorm)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for i := range r.bulks {
			if r.bulks[i] == f {
				r.bulks = append(r.bulks[:i], r.bulks[i+1:]...)
				break
			}
		}
		r.dispatch()
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

// ObserveHost asks Ironic about one host and records what it says. The
// compare-and-swap is on the revision that was read before Ironic was asked: when
// it fails, somebody else wrote meanwhile, and Ironic is asked again. So an older
// observation never replaces a newer one, with any number of replicas.
func (r *Refresher) ObserveHost(ctx context.Context, namespace, name string) error {
	_, _, err := r.ObserveAndGet(ctx, namespace, name)
	return IgnoreNotFound(err)
}

// Look is ObserveHost, and returns the host as it is recorded now and the node
// that was observed; nil when there is none.
func (r *Refresher) ObserveAndGet(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, *ironic.Node, error) {
	for race := 0; ; race++ {
		host, err := r.hosts.Get(ctx, namespace, name)
		if err != nil || host.Status.Provisioning.ID == "" {
			return host, nil, err // not in Ironic: all there is to know is recorded
		}
		observation, err := r.ask(ctx, host)
		if err != nil {
			return nil, nil, err
		}
		recorded, err := r.record(ctx, host, observation)
		if err == nil || !apierrors.IsConflict(err) || race == MaxRaces {
			return recorded, observation.Node, err
		}
	}
}

func (r *Refresher) ask(ctx context.Context, host *metal3.BareMetalHost) (lifecycle.Observation, error) {
	node, err := r.nodes.GetNode(ctx, host.Status.Provisioning.ID)
	if ironic.IsNotFound(err) {
		return lifecycle.Observation{}, nil
	}
	if err != nil {
		return lifecycle.Observation{}, err
	}
	if node.IsAnothers(host.Namespace, host.Name) {
		return lifecycle.Observation{}, nil
	}
	if err := r.RedactPassword(ctx, host, node); err != nil {
		return lifecycle.Observation{}, err
	}
	return r.withInventory(ctx, host, node), nil
}

// inventoryGrace is how long an inspected node may be without inventory: Ironic
// sets it manageable a moment before it stores the inventory.
const inventoryGrace = 30 * time.Second

// fakeDriver inspects nothing, and leaves no inventory.
const fakeDriver = "fake-hardware"

// withInventory reads the inventory too where that is due. One that cannot be had
// takes nothing from what the node says: the next observation asks again.
func (r *Refresher) withInventory(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) lifecycle.Observation {
	observation := lifecycle.Observation{Node: node, CallbackTimeout: r.CallbackTimeout}
	if !lifecycle.NeedsInventory(host, node) {
		return observation
	}
	raw, err := r.nodes.GetInventory(ctx, node.UUID)
	switch {
	case ironic.IsNotFound(err):
		if node.Driver == fakeDriver || r.clock.Since(*node.InspectionFinishedAt) > inventoryGrace {
			observation.Inspected = &lifecycle.Inspected{} // there will be none
		}
		return observation
	case err != nil:
		klog.FromContext(ctx).Error(err, "The inventory of a host cannot be read", "host", klog.KObj(host), "node", node.UUID)
		return observation
	}
	hardware, err := lifecycle.HardwareFrom(raw)
	if err != nil {
		// It will not get better by itself: until the next inspection there is none.
		klog.FromContext(ctx).Error(err, "The inventory of a host cannot be understood", "host", klog.KObj(host), "node", node.UUID)
	}
	observation.Inspected = &lifecycle.Inspected{Hardware: hardware}
	return observation
}

// record writes the host's status if the observation changes it, and returns the
// host as it is then.
func (r *Refresher) record(ctx context.Context, host *metal3.BareMetalHost, observation lifecycle.Observation) (*metal3.BareMetalHost, error) {
	status, changed := lifecycle.Observe(host, observation, r.clock.Now())
	if !changed {
		return host, nil
	}
	updated := host.DeepCopy()
	updated.Status = status
	return r.hosts.Record(ctx, updated)
}

// ObserveAll asks Ironic about all nodes at once and records what it says of
// each host.
func (r *Refresher) ObserveAll(ctx context.Context) error {
	began := r.clock.Now()
	// Read before Ironic is asked, as in ObserveHost.
	list, err := r.hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	// Where nothing of ours is in Ironic, there is nothing to ask.
	if slices.ContainsFunc(list.Items, func(h metal3.BareMetalHost) bool { return h.Status.Provisioning.ID != "" }) {
		nodes, err := r.nodes.ListNodes(ctx)
		if err != nil {
			return err
		}
		byID := make(map[string]*ironic.Node, len(nodes))
		for i := range nodes {
			byID[nodes[i].UUID] = &nodes[i]
		}
		err = r.RecordMany(ctx, list.Items, func(h *metal3.BareMetalHost) *ironic.Node {
			return byID[h.Status.Provisioning.ID]
		})
		if err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = len(list.Items)
	if began.After(r.seenAll) {
		r.seenAll = began
		maps.DeleteFunc(r.seen, func(_ types.NamespacedName, t time.Time) bool { return t.Before(began) })
	}
	return nil
}

// RecordMany records observations of several hosts, which were read before their
// nodes were.
func (r *Refresher) RecordMany(ctx context.Context, hosts []metal3.BareMetalHost, nodeOf func(*metal3.BareMetalHost) *ironic.Node) error {
	type change struct {
		host      *metal3.BareMetalHost
		seen      lifecycle.Observation
		inspected bool
	}
	var changes []change
	inventories := 0
	now := r.clock.Now()
	for i := range hosts {
		c := change{host: &hosts[i], seen: lifecycle.Observation{Node: nodeOf(&hosts[i]), CallbackTimeout: r.CallbackTimeout}}
		if c.host.Status.Provisioning.ID == "" {
			continue
		}
		if node := c.seen.Node; node != nil && node.IsAnothers(c.host.Namespace, c.host.Name) {
			c.seen.Node = nil
		}
		if c.seen.Node != nil && inventories < inventoriesPerBulk && lifecycle.NeedsInventory(c.host, c.seen.Node) {
			c.inspected = true
			inventories++
		}
		if _, changed := lifecycle.Observe(c.host, c.seen, now); changed || c.inspected {
			changes = append(changes, c)
		}
	}
	errs := make([]error, len(changes))
	workqueue.ParallelizeUntil(ctx, recorders, len(changes), func(n int) {
		c := changes[n]
		if errs[n] = r.RedactPassword(ctx, c.host, c.seen.Node); errs[n] != nil {
			return
		}
		if c.inspected {
			c.seen = r.withInventory(ctx, c.host, c.seen.Node)
		}
		_, err := r.record(ctx, c.host, c.seen)
		if apierrors.IsConflict(err) {
			err = r.ObserveHost(ctx, c.host.Namespace, c.host.Name)
		}
		errs[n] = IgnoreNotFound(err)
	})
	return errors.Join(append(errs, ctx.Err())...)
}

func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil // deleted meanwhile
	}
	return err
}

// StaleError tells why a reader is shown what was recorded earlier.
type StaleError struct {
	// Cause is why Ironic was not observed.
	Cause error
	// Observed is when the last observation began; zero when this process made none.
	Observed time.Time
}

func (e *StaleError) Error() string {
	since := "as recorded before this server started"
	if !e.Observed.IsZero() {
		since = "as of " + e.Observed.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("live status is not available, Ironic: %s; status is %s", ironic.ReasonOf(e.Cause), since)
}

func (e *StaleError) Unwrap() error { return e.Cause }
