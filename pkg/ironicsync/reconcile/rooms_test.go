// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/firmware"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// roomLabel is the label of hosts that says in which Ironic they are to be registered.
const roomLabel = "room"

// rooms are a world with several simulated Ironics, which can be used or not while the controller runs. It is the
// reconcile.Ironics of its processes.
type rooms struct {
	*world
	sims     map[string]*enginetest.Ironic
	settings reconcile.Settings
	wired    context.Context // of the process that runs

	mu      sync.Mutex
	members map[string]*reconcile.Member
	changed chan struct{}
	// asksOwner, if it is not nil, is called after each OwnerOf has found its answer, and before it is returned.
	asksOwner func()
	// unsure is what OwnerOf says of hosts without a node.
	unsure string
	asked  map[string]map[string]int // requests, by Ironic and name
	// uses counts the calls of use, and acted has by Ironic which of them the drivers were of that polled or wrote, in order.
	uses  int
	acted map[string][]int
}

// newRooms returns a world with the Ironic of the flags, "", and one for each name. The controller does not run yet.
func newRooms(t *testing.T, names ...string) *rooms {
	r := &rooms{
		sims: map[string]*enginetest.Ironic{}, members: map[string]*reconcile.Member{}, changed: make(chan struct{}), asked: map[string]map[string]int{}, acted: map[string][]int{},
		settings: reconcile.Settings{BMCs: anywhere, Images: anywhere, MaxProvisioningRetries: 3, Workers: 4, PollInterval: time.Second, Cluster: "this-cluster"},
	}
	for _, name := range append(names, "") {
		r.sims[name] = enginetest.NewIronic(t, ironicsim.Options{BMCTimeout: time.Second})
		r.intercept(name, nil)
	}
	r.world = newWorldOf(t, r.sims[""])
	// Each host's settings are those that its own Ironic reports.
	r.firmware.keeper = firmware.NewSettingsKeeper(r.firmware.memoryObjects, r.firmware.schemas, func(host *metal3.BareMetalHost) (firmware.Ironic, error) { return r.of(host) }, clock.RealClock{})
	r.components.keeper = firmware.NewComponentKeeper(r.components.memoryObjects, func(host *metal3.BareMetalHost) (firmware.Ironic, error) { return r.of(host) }, clock.RealClock{})
	return r
}

func inRooms(t *testing.T, test func(t *testing.T, r *rooms), names ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRooms(t, names...)
		r.secret("secret")
		r.begin(0)
		defer func() { r.stop() }()
		for _, name := range names {
			r.use(name)
		}
		test(t, r)
	})
}

// begin begins a process with the Ironic of the flags, which is killed at the given step; at 0, never.
func (r *rooms) begin(killedAt int) {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.fuse = &fuse{at: killedAt, kill: cancel}
	r.secrets.mu.Lock()
	r.secrets.fuse = r.fuse
	r.secrets.mu.Unlock()
	r.mu.Lock()
	r.wired = ctx
	clear(r.members)
	r.mu.Unlock()
	r.use("")
	planner := reconcile.NewPlanner()
	hold, watch := r.newHold()
	controller := reconcile.New(reconcile.Deps{
		Planner: planner, RestoredAt: func() int64 { return 0 }, Hold: hold, Operator: watch, Clock: clock.RealClock{}, Hosts: mortalHosts{r.hosts, r.fuse}, Ironics: r,
		Secrets:  secrets.New(r.secrets.client, r.secrets.metadata, nil),
		Hardware: r.hardware, Firmware: firmware.Deps{Settings: r.firmware.keeper, Components: r.components.keeper, Policies: r.policies}, Events: r.events,
	}, r.settings)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.active.Run(ctx, controller) // an error is that of a killed process
	}()
	r.stop = func() { cancel(); <-ended; synctest.Wait() }
}

// use has an Ironic be used from now on, with another Member than before. It returns what ends its observations.
func (r *rooms) use(name string) {
	r.mu.Lock()
	r.uses++
	use := r.uses
	r.mu.Unlock()
	act := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.acted[name] = append(r.acted[name], use)
	}
	fuse := r.fuse
	client := r.sims[name].Process(func(do func() error) error { act(); return fuse.step(do) })
	settings := r.settings
	m := &reconcile.Member{Name: name, Ironic: client, Settings: settings, Refresher: watchedRefresher{act: act, Refresher: live.NewRefresher(r.wired, live.Deps{
		Ironic: name, Hosts: mortalHosts{r.hosts, r.fuse}, Nodes: client, Secrets: enginetest.NoSecret, Clock: clock.RealClock{}, Wait: enginetest.ReaderWait,
		Cluster: func() string { return settings.Cluster },
	})}}
	r.change(func() { r.members[name] = m })
}

// watchedRefresher reports when its driver polls.
type watchedRefresher struct {
	*live.Refresher
	act func()
}

func (w watchedRefresher) Poll(ctx context.Context) error {
	w.act()
	return w.Refresher.Poll(ctx)
}

// disuse has an Ironic not be used any more.
func (r *rooms) disuse(name string) { r.change(func() { delete(r.members, name) }) }

// change changes something that Members or OwnerOf say.
func (r *rooms) change(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *rooms) HasSynced() bool { return true }

func (r *rooms) Members() (members []*reconcile.Member, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.members)), r.changed
}

// Known are all that there could be.
func (r *rooms) Known() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.sims))
}

// OwnerOf goes by the host's label, as fleet.Fleet goes by selectors.
func (r *rooms) OwnerOf(host *metal3.BareMetalHost) (name, problem string) {
	defer func() {
		r.mu.Lock()
		ask := r.asksOwner
		r.mu.Unlock()
		if ask != nil {
			ask()
		}
	}()
	r.mu.Lock()
	defer r.mu.Unlock()
	record := &host.Status.Record
	name = record.Ironic
	if host.Status.Provisioning.ID == "" || !record.Observed && record.Ironic == "" {
		if r.unsure != "" {
			return "", r.unsure
		}
		name = host.Labels[roomLabel]
	}
	if r.members[name] == nil {
		return "", "the server cannot use IronicInstance " + name
	}
	return name, ""
}

// of returns the client for the settings of a host.
func (r *rooms) of(host *metal3.BareMetalHost) (*enginetest.Ironic, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := host.Status.Record.Ironic
	if r.members[name] == nil {
		return nil, &ironic.UnavailableError{Op: "find the host's Ironic", Reason: "it is not used"}
	}
	return r.sims[name], nil
}

// intercept counts the requests to an Ironic, and has a function see them if it is not nil.
func (r *rooms) intercept(name string, also func(call string, request *http.Request) error) {
	r.sims[name].Intercept(func(call string, request *http.Request) error {
		r.mu.Lock()
		if r.asked[name] == nil {
			r.asked[name] = map[string]int{}
		}
		r.asked[name][call]++
		r.mu.Unlock()
		if also != nil {
			return also(call, request)
		}
		return nil
	})
}

// hang has an Ironic accept requests and answer none.
func (r *rooms) hang(name string) {
	r.intercept(name, func(_ string, request *http.Request) error {
		<-request.Context().Done()
		return request.Context().Err()
	})
}

// requests are how many there were to an Ironic: polls, and all others.
func (r *rooms) requests(name string) (polls, others int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for call, n := range r.asked[name] {
		if call == "ChangedSince" || call == "ListNodes" || call == "GET " {
			polls += n
		} else {
			others += n
		}
	}
	return polls, others
}

// in is host number i, which is to be registered in an Ironic.
func in(room string, i int) *metal3.BareMetalHost {
	host := enrolled(i)
	if room != "" {
		host.Labels = map[string]string{roomLabel: room}
	}
	return host
}

func (r *rooms) at(i int) *metal3.BareMetalHost { return r.hosts.Host(r.t, enginetest.HostName(i)) }

// is reports whether host number i has arrived in a state.
func (r *rooms) is(i int, state metal3.ProvisioningState) func() bool {
	return func() bool { return arrived(state)(r.at(i)) }
}

func (r *rooms) isGone(i int) func() bool {
	return func() bool {
		_, err := r.hosts.Get(context.Background(), enginetest.Namespace, enginetest.HostName(i))
		return err != nil
	}
}

// nodes are all nodes of all Ironics.
func (r *rooms) nodes() (all []string) {
	for _, sim := range r.sims {
		all = append(all, sim.Sim.NodeUUIDs()...)
	}
	return all
}

func conditionOf(host *metal3.BareMetalHost, kind string) metav1.Condition {
	for _, c := range host.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}
