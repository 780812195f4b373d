package ironicsync_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// The tests of this package that concern time run in a bubble of testing/synctest:
// time passes there when everybody waits, so that a test of an Ironic that hangs
// for 30 seconds takes none, and Wait of that package is where all goroutines
// have done what they can.

const namespace = "metal3"

// memoryHosts keeps hosts as the store does: with resourceVersions, by
// compare-and-swap, for watchers too.
type memoryHosts struct {
	mu       sync.Mutex
	version  int
	hosts    map[types.NamespacedName]*metal3.BareMetalHost
	written  map[types.NamespacedName]*metal3.BareMetalHost // the same, that nobody else can change
	history  map[string][]metal3.ProvisioningState
	watchers []*watch.RaceFreeFakeWatcher
	records  int
	// beforeRecord is called, unlocked, with each host that is about to be recorded.
	beforeRecord func(*metal3.BareMetalHost)
	// recorded is called, locked, with the host before and after.
	recorded func(old, host *metal3.BareMetalHost)
}

func newMemoryHosts() *memoryHosts {
	return &memoryHosts{hosts: map[types.NamespacedName]*metal3.BareMetalHost{}, written: map[types.NamespacedName]*metal3.BareMetalHost{}, history: map[string][]metal3.ProvisioningState{}}
}

func keyOf(host *metal3.BareMetalHost) types.NamespacedName {
	return types.NamespacedName{Namespace: host.Namespace, Name: host.Name}
}

// stored is the host in the store, nil if there is none. m.mu is held.
func (m *memoryHosts) stored(key types.NamespacedName) *metal3.BareMetalHost {
	host := m.hosts[key]
	if host != nil && !equality.Semantic.DeepEqual(host, m.written[key]) {
		panic(fmt.Sprintf("host %s was changed in the watch cache by somebody who had it from a list", key))
	}
	return host
}

func (m *memoryHosts) store(host *metal3.BareMetalHost) {
	m.hosts[keyOf(host)], m.written[keyOf(host)] = host, host.DeepCopy()
}

func (m *memoryHosts) notFound(name string) error {
	return apierrors.NewNotFound(metal3.Resource("baremetalhosts"), name)
}

func (m *memoryHosts) Get(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if host := m.stored(types.NamespacedName{Namespace: namespace, Name: name}); host != nil {
		return host.DeepCopy(), ctx.Err()
	}
	return nil, m.notFound(name)
}

func (m *memoryHosts) List(ctx context.Context, _ metav1.ListOptions) (*metal3.BareMetalHostList, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := &metal3.BareMetalHostList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(m.version)}}
	for _, key := range slices.SortedFunc(maps.Keys(m.hosts), func(a, b types.NamespacedName) int { return slices.Compare([]byte(a.String()), []byte(b.String())) }) {
		list.Items = append(list.Items, *m.stored(key)) // shares what it points to with the store, as a list from the watch cache does
	}
	return list, ctx.Err()
}

// Watch sends what there is and then a bookmark, as for a WatchList client.
func (m *memoryHosts) Watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if options.SendInitialEvents == nil || !*options.SendInitialEvents {
		return nil, apierrors.NewBadRequest("this fake only knows WatchList")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w := watch.NewRaceFreeFake()
	for _, host := range m.hosts {
		w.Add(host.DeepCopy())
	}
	w.Action(watch.Bookmark, &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: strconv.Itoa(m.version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
	m.watchers = append(m.watchers, w)
	return w, nil
}

func (m *memoryHosts) Record(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error) {
	if m.beforeRecord != nil {
		m.beforeRecord(host)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records++
	return m.swap(host.DeepCopy())
}

// Update keeps the status and counts generations, as the strategy does.
func (m *memoryHosts) Update(_ context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	host = host.DeepCopy()
	if old := m.stored(keyOf(host)); old != nil {
		host.Status, host.Generation = old.Status, old.Generation
		if !equality.Semantic.DeepEqual(host.Spec, old.Spec) {
			host.Generation++
		}
	}
	return m.swap(host)
}

func (m *memoryHosts) swap(host *metal3.BareMetalHost) (*metal3.BareMetalHost, error) {
	key := keyOf(host)
	old := m.stored(key)
	switch {
	case old == nil:
		return nil, m.notFound(host.Name)
	case old.ResourceVersion != host.ResourceVersion || old.UID != host.UID:
		return nil, apierrors.NewConflict(metal3.Resource("baremetalhosts"), host.Name, fmt.Errorf("resourceVersion is %s, not %s", old.ResourceVersion, host.ResourceVersion))
	case equality.Semantic.DeepEqual(old, host):
		return old.DeepCopy(), nil
	}
	m.version++
	host.ResourceVersion = strconv.Itoa(m.version)
	if m.recorded != nil {
		m.recorded(old, host)
	}
	if !host.DeletionTimestamp.IsZero() && len(host.Finalizers) == 0 {
		delete(m.hosts, key)
		m.tell(watch.Deleted, host)
		return host.DeepCopy(), nil
	}
	if states := m.history[host.Name]; len(states) == 0 || states[len(states)-1] != host.Status.Provisioning.State {
		m.history[host.Name] = append(states, host.Status.Provisioning.State)
	}
	m.store(host)
	m.tell(watch.Modified, host)
	return host.DeepCopy(), nil
}

// states are the provisioning states of a host in the order in which they were recorded.
func (m *memoryHosts) states(name string) []metal3.ProvisioningState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.history[name])
}

// edit writes the spec as a user does, editStatus the status.
func (m *memoryHosts) edit(t *testing.T, name string, change func(*metal3.BareMetalHost)) {
	m.write(t, name, func(host *metal3.BareMetalHost) { change(host); host.Generation++ })
}

func (m *memoryHosts) editStatus(t *testing.T, name string, change func(*metal3.BareMetalHost)) {
	m.write(t, name, change)
}

func (m *memoryHosts) write(t *testing.T, name string, change func(*metal3.BareMetalHost)) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	host := m.stored(types.NamespacedName{Namespace: namespace, Name: name})
	if host == nil {
		t.Fatalf("there is no host %s", name)
	}
	host = host.DeepCopy()
	change(host)
	if _, err := m.swap(host); err != nil {
		t.Fatal(err)
	}
}

func (m *memoryHosts) tell(event watch.EventType, host *metal3.BareMetalHost) {
	for _, w := range m.watchers {
		w.Action(event, host.DeepCopy())
	}
}

// add creates a host, as a user does but for the status.
func (m *memoryHosts) add(host *metal3.BareMetalHost) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version++
	host = host.DeepCopy()
	host.Generation, host.ResourceVersion = 1, strconv.Itoa(m.version)
	host.UID = types.UID(fmt.Sprintf("uid-%d", m.version))
	m.store(host)
	m.tell(watch.Added, host)
}

// remove marks a host as deleted.
func (m *memoryHosts) remove(t *testing.T, name string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	host, ok := m.hosts[types.NamespacedName{Namespace: namespace, Name: name}]
	if !ok {
		t.Fatalf("there is no host %s", name)
	}
	host = host.DeepCopy()
	host.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	if _, err := m.swap(host); err != nil {
		t.Fatal(err)
	}
}

func (m *memoryHosts) get(t *testing.T, name string) *metal3.BareMetalHost {
	t.Helper()
	host, err := m.Get(context.Background(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return host
}

// fakeNodes is an Ironic whose answers the test can delay, hold back and refuse.
// An answer says what was so when the request arrived.
type fakeNodes struct {
	mu    sync.Mutex
	nodes map[string]ironic.Node
	// what was asked
	gets, lists, inventories, inFlight, most int
	// single and bulk are how long requests take.
	single, bulk func() time.Duration
	// held, when not nil, holds back the requests that arrive from now on.
	held chan struct{}
	err  error
	// inventory is what GetInventory answers; nil is a 404.
	inventory    *ironic.Inventory
	inventoryErr error
}

func newFakeNodes() *fakeNodes {
	return &fakeNodes{nodes: map[string]ironic.Node{}}
}

// change changes what Ironic knows.
func (f *fakeNodes) change(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// say makes text the last error of a node, by which the tests tell states apart.
func (f *fakeNodes) say(id, text string) {
	f.change(func() {
		node := f.nodes[id]
		node.UUID, node.LastError = id, text
		if node.ProvisionState == "" {
			node.ProvisionState, node.PowerState = ironic.Manageable, ironic.PowerOn
		}
		f.nodes[id] = node
	})
}

// hold keeps back the requests that arrive from now on, for ever or until the
// test closes the channel. Those that arrive after resume are answered.
func (f *fakeNodes) hold() chan struct{} {
	held := make(chan struct{})
	f.change(func() { f.held = held })
	return held
}

func (f *fakeNodes) resume() { f.change(func() { f.held = nil }) }

func (f *fakeNodes) asked() (gets, lists int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gets, f.lists
}

// wait takes the time of a request.
func (f *fakeNodes) wait(ctx context.Context, took func() time.Duration) error {
	f.mu.Lock()
	held, err := f.held, f.err
	f.inFlight++
	f.most = max(f.most, f.inFlight)
	var duration time.Duration
	if took != nil {
		duration = took()
	}
	f.mu.Unlock()
	defer f.change(func() { f.inFlight-- })
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return &ironic.UnavailableError{Op: "test", Reason: "no answer in time", Err: ctx.Err()}
		}
	}
	select {
	case <-time.After(duration):
		return err
	case <-ctx.Done():
		return &ironic.UnavailableError{Op: "test", Reason: "no answer in time", Err: ctx.Err()}
	}
}

func (f *fakeNodes) GetNode(ctx context.Context, id string) (*ironic.Node, error) {
	f.mu.Lock()
	f.gets++
	node, ok := f.nodes[id]
	f.mu.Unlock()
	if err := f.wait(ctx, f.single); err != nil {
		return nil, err
	}
	if !ok {
		return nil, &ironic.APIError{Status: 404, Message: "Node " + id + " could not be found.", Op: "get node " + id}
	}
	return &node, nil
}

func (f *fakeNodes) ListNodes(ctx context.Context) ([]ironic.Node, error) {
	f.mu.Lock()
	f.lists++
	nodes := slices.Collect(maps.Values(f.nodes))
	f.mu.Unlock()
	if err := f.wait(ctx, f.bulk); err != nil {
		return nil, err
	}
	return nodes, nil
}

func (f *fakeNodes) GetInventory(ctx context.Context, id string) (*ironic.Inventory, error) {
	f.mu.Lock()
	f.inventories++
	inventory, refusal := f.inventory, f.inventoryErr
	f.mu.Unlock()
	if err := f.wait(ctx, f.single); err != nil {
		return nil, err
	}
	if refusal != nil {
		return nil, refusal
	}
	if inventory == nil {
		return nil, &ironic.APIError{Status: 404, Message: "No inventory for node " + id, Op: "get inventory"}
	}
	return inventory, nil
}
