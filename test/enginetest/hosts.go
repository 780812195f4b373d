// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// The tests that concern time run in a bubble of testing/synctest:
// time passes there when everybody waits, so that a test of an Ironic that hangs
// for 30 seconds takes none, and Wait of that package is where all goroutines
// have done what they can.

// Namespace is that of the hosts.
const Namespace = "metal3"

// ReaderWait is how long a reader waits, as by default.
const ReaderWait = 2500 * time.Millisecond

// NodeBMC is the address of the BMC of the nodes of Nodes.
const NodeBMC = "192.0.2.1"

// HostName and NodeID are the name and the node of host number i.
func HostName(i int) string { return "worker-" + strconv.Itoa(i) }
func NodeID(i int) string   { return fmt.Sprintf("1be26c0b-03f2-4d2e-ae87-%012d", i) }

// Hosts keeps hosts as the store does: with resourceVersions, by
// compare-and-swap, for watchers too.
type Hosts struct {
	Mu      sync.Mutex
	Version int
	ByName  map[types.NamespacedName]*metal3.BareMetalHost
	written map[types.NamespacedName]*metal3.BareMetalHost // the same, that nobody else can change
	older   map[types.NamespacedName]*metal3.BareMetalHost // the version before
	// CacheLags has every other call of Cached return the version before.
	CacheLags bool
	// WatchLag is how late watches report what was written.
	WatchLag time.Duration
	late     []func() // events that are to be reported
	cached   int      // calls of Cached
	lists    int      // calls of List
	looks    int      // calls of Stored
	history  map[string][]metal3.ProvisioningState
	watchers []*watch.RaceFreeFakeWatcher
	Records  int
	// BeforeGet is called, unlocked, before a host is read.
	BeforeGet func()
	// beforeRecord is called, unlocked, with each host that is about to be recorded.
	BeforeRecord func(*metal3.BareMetalHost)
	// recorded is called, locked, with the host before and after.
	Recorded func(old, host *metal3.BareMetalHost)
}

func NewHosts() *Hosts {
	return &Hosts{ByName: map[types.NamespacedName]*metal3.BareMetalHost{}, written: map[types.NamespacedName]*metal3.BareMetalHost{}, older: map[types.NamespacedName]*metal3.BareMetalHost{}, history: map[string][]metal3.ProvisioningState{}}
}

func KeyOf(host *metal3.BareMetalHost) types.NamespacedName {
	return types.NamespacedName{Namespace: host.Namespace, Name: host.Name}
}

// looksPerComparison is how many looks at hosts there are for each that compares the host with its copy: comparing took
// more than half of the time of tests that last for days.
const looksPerComparison = 32

// Stored is the host in the store, nil if there is none. m.Mu is held.
func (m *Hosts) Stored(key types.NamespacedName) *metal3.BareMetalHost {
	if m.looks++; m.looks%looksPerComparison == 0 {
		m.mustBeAsWritten(key)
	}
	return m.ByName[key]
}

// mustBeAsWritten panics if a host in the store is not what was stored. It compares by reflection, which takes a fraction of the
// time of equality.Semantic and sees at least as much: a deep copy also keeps the difference between nil and empty.
func (m *Hosts) mustBeAsWritten(key types.NamespacedName) {
	if host := m.ByName[key]; host != nil && !reflect.DeepEqual(host, m.written[key]) {
		panic(fmt.Sprintf("host %s was changed in the watch cache by somebody who had it from a list", key))
	}
}

func (m *Hosts) store(host *metal3.BareMetalHost) {
	m.mustBeAsWritten(KeyOf(host))
	m.older[KeyOf(host)] = m.ByName[KeyOf(host)]
	m.ByName[KeyOf(host)], m.written[KeyOf(host)] = host, host.DeepCopy()
}

func (m *Hosts) notFound(name string) error {
	return apierrors.NewNotFound(metal3.Resource("baremetalhosts"), name)
}

// Cached returns the host in the store, or an older version if the cache lags.
func (m *Hosts) Cached(_ context.Context, namespace, name string) *metal3.BareMetalHost {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if m.cached++; m.CacheLags && m.cached%2 == 0 {
		return m.older[key]
	}
	return m.Stored(key)
}

func (m *Hosts) Get(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, error) {
	if m.BeforeGet != nil {
		m.BeforeGet()
	}
	m.Mu.Lock()
	defer m.Mu.Unlock()
	if host := m.Stored(types.NamespacedName{Namespace: namespace, Name: name}); host != nil {
		return host.DeepCopy(), ctx.Err()
	}
	return nil, m.notFound(name)
}

// Writes is how often hosts were written so far.
func (m *Hosts) Writes() int {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	return m.Version
}

// Lists is how often the hosts were listed so far, if there were any.
func (m *Hosts) Lists() int {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	return m.lists
}

func (m *Hosts) List(ctx context.Context, _ metav1.ListOptions) (*metal3.BareMetalHostList, error) {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	list := &metal3.BareMetalHostList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(m.Version)}}
	// To compare each of them each time would take most of the time of the tests. A host that was changed remains so until it
	// is read or written by itself, which compares it.
	keys := slices.SortedFunc(maps.Keys(m.ByName), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	if len(keys) > 0 {
		m.lists++
		m.Stored(keys[m.lists%len(keys)])
	}
	for _, key := range keys {
		list.Items = append(list.Items, *m.ByName[key]) // shares what it points to with the store, as a list from the watch cache does
	}
	return list, ctx.Err()
}

// Watch sends what there is and then a bookmark, as for a WatchList client.
func (m *Hosts) Watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if options.SendInitialEvents == nil || !*options.SendInitialEvents {
		return nil, apierrors.NewBadRequest("this fake only knows WatchList")
	}
	m.Mu.Lock()
	defer m.Mu.Unlock()
	w := watch.NewRaceFreeFake()
	for _, host := range m.ByName {
		w.Add(host.DeepCopy())
	}
	w.Action(watch.Bookmark, &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: strconv.Itoa(m.Version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
	m.watchers = append(m.watchers, w)
	return w, nil
}

func (m *Hosts) Record(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error) {
	if m.BeforeRecord != nil {
		m.BeforeRecord(host)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.Mu.Lock()
	defer m.Mu.Unlock()
	m.Records++
	return m.Swap(host.DeepCopy())
}

// Update keeps the status and counts generations, as the strategy does.
func (m *Hosts) Update(_ context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error) {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	host = host.DeepCopy()
	if old := m.Stored(KeyOf(host)); old != nil {
		host.Status, host.Generation = old.Status, old.Generation
		if !equality.Semantic.DeepEqual(host.Spec, old.Spec) {
			host.Generation++
		}
	}
	return m.Swap(host)
}

func (m *Hosts) Swap(host *metal3.BareMetalHost) (*metal3.BareMetalHost, error) {
	key := KeyOf(host)
	old := m.Stored(key)
	switch {
	case old == nil:
		return nil, m.notFound(host.Name)
	case old.ResourceVersion != host.ResourceVersion || old.UID != host.UID:
		return nil, apierrors.NewConflict(metal3.Resource("baremetalhosts"), host.Name, fmt.Errorf("resourceVersion is %s, not %s", old.ResourceVersion, host.ResourceVersion))
	case equality.Semantic.DeepEqual(old, host):
		return old.DeepCopy(), nil
	}
	m.Version++
	host.ResourceVersion = strconv.Itoa(m.Version)
	if m.Recorded != nil {
		m.Recorded(old, host)
	}
	if !host.DeletionTimestamp.IsZero() && len(host.Finalizers) == 0 {
		delete(m.ByName, key)
		delete(m.older, key)
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

// States are the provisioning states of a host in the order in which they were recorded.
func (m *Hosts) States(name string) []metal3.ProvisioningState {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	return slices.Clone(m.history[name])
}

// Edit writes the spec as a user does, editStatus the status.
func (m *Hosts) Edit(t *testing.T, name string, change func(*metal3.BareMetalHost)) {
	m.write(t, name, func(host *metal3.BareMetalHost) { change(host); host.Generation++ })
}

func (m *Hosts) EditStatus(t *testing.T, name string, change func(*metal3.BareMetalHost)) {
	m.write(t, name, change)
}

func (m *Hosts) write(t *testing.T, name string, change func(*metal3.BareMetalHost)) {
	t.Helper()
	m.Mu.Lock()
	defer m.Mu.Unlock()
	host := m.Stored(types.NamespacedName{Namespace: Namespace, Name: name})
	if host == nil {
		t.Fatalf("there is no host %s", name)
	}
	host = host.DeepCopy()
	change(host)
	if _, err := m.Swap(host); err != nil {
		t.Fatal(err)
	}
}

func (m *Hosts) tell(event watch.EventType, host *metal3.BareMetalHost) {
	copied := host.DeepCopy()
	report := func() {
		for _, w := range m.watchers {
			w.Action(event, copied.DeepCopy())
		}
	}
	if m.WatchLag == 0 && len(m.late) == 0 {
		report()
		return
	}
	m.late = append(m.late, report)
	time.AfterFunc(m.WatchLag, func() { // in their order, whichever of those that are due at a moment is called first
		m.Mu.Lock()
		defer m.Mu.Unlock()
		m.late[0]()
		m.late = m.late[1:]
	})
}

// Add creates a host, as a user does but for the status.
func (m *Hosts) Add(host *metal3.BareMetalHost) {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	m.Version++
	host = host.DeepCopy()
	host.Generation, host.ResourceVersion = 1, strconv.Itoa(m.Version)
	host.UID = types.UID(fmt.Sprintf("uid-%d", m.Version))
	m.store(host)
	m.tell(watch.Added, host)
}

// Restore replaces all hosts by those of a backup, as somebody does who restores etcd while no server runs. The resourceVersions go on.
func (m *Hosts) Restore(backup map[types.NamespacedName]*metal3.BareMetalHost) {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	clear(m.ByName)
	clear(m.written)
	clear(m.older)
	for _, host := range backup {
		m.Version++
		host = host.DeepCopy()
		host.ResourceVersion = strconv.Itoa(m.Version)
		m.store(host)
	}
}

// Remove marks a host as deleted.
func (m *Hosts) Remove(t *testing.T, name string) {
	t.Helper()
	m.Mu.Lock()
	defer m.Mu.Unlock()
	host, ok := m.ByName[types.NamespacedName{Namespace: Namespace, Name: name}]
	if !ok {
		t.Fatalf("there is no host %s", name)
	}
	host = host.DeepCopy()
	host.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	if _, err := m.Swap(host); err != nil {
		t.Fatal(err)
	}
}

func (m *Hosts) Host(t *testing.T, name string) *metal3.BareMetalHost {
	t.Helper()
	host, err := m.Get(context.Background(), Namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return host
}
