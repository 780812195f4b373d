// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// Sim is a simulated Ironic. All of its methods may be called at any time from
// any goroutine; after Close they have no effect.
type Sim struct {
	opts  Options
	minor int // of the highest version served
	// machine is the state machine of the release that serves that.
	machine fsm.Machine

	// ctx ends with Close; work counts the goroutines that it ends.
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	// mu guards the database: everything below it. Nodes themselves are never
	// changed, so a reader holds mu only while it collects them.
	mu         sync.RWMutex
	clock      Clock
	nextID     int64
	nodes      []*entry // ascending id
	byUUID     map[string]*entry
	byName     map[string]*entry
	byInstance map[string]*entry
	ports      map[string]*port // by UUID
	portIDs    []*port          // ascending id
	byMAC      map[string]*port
	bmcs       map[string]*BMC
	targets    map[string][]string // of accepted PUT states/provision, by UUID
	diskWrites map[string][]DiskWrite

	// conductor is replaced when the conductor is killed; nil while it is dead.
	conductor *conductor

	threads chan struct{} // holds one item for each request that is worked on

	stats  stats
	faults faultSwitch
	server server
	admin  http.Handler
}

// New makes a Sim and starts its conductor. It panics on a MaxVersion that is
// no version: a mistake in the program that calls it.
func New(o Options) *Sim {
	o, minor, err := o.withDefaults()
	if err != nil {
		panic(err)
	}
	s := &Sim{
		opts: o, minor: minor, machine: fsm.Of(minor),
		byUUID: map[string]*entry{}, byName: map[string]*entry{}, byInstance: map[string]*entry{},
		ports: map[string]*port{}, byMAC: map[string]*port{}, bmcs: map[string]*BMC{},
		targets: map[string][]string{}, diskWrites: map[string][]DiskWrite{},
		threads: make(chan struct{}, requestThreads),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.faults.init()
	s.stats.reset()
	s.admin = s.adminHandler()
	s.mu.Lock()
	s.startConductor()
	s.mu.Unlock()
	s.loop(o.PowerSyncInterval, s.syncPower)
	s.loop(o.PowerRecoveryInterval, s.recoverPower)
	return s
}

// Handler is the HTTP API with the admin paths under /_sim/, for those who bring
// their own server. Faults that concern connections need Start.
func (s *Sim) Handler() http.Handler { return http.HandlerFunc(s.serveHTTP) }

// Close stops the server, the conductor and every timer, and waits for them.
func (s *Sim) Close() {
	s.cancel()
	s.faults.set(Faults{})
	s.server.close()
	s.work.Wait()
}

// sleep waits for d; it reports false when ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// spawn runs f until it returns, which it must do soon after s.ctx has ended.
func (s *Sim) spawn(f func()) {
	if s.ctx.Err() != nil {
		return
	}
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		f()
	}()
}

// loop calls f each interval until Close. A negative interval means never.
func (s *Sim) loop(interval time.Duration, f func()) {
	if interval <= 0 {
		return
	}
	s.spawn(func() {
		for sleep(s.ctx, interval) {
			f()
		}
	})
}

// find returns the entry for a UUID or name. s.mu must be held.
func (s *Sim) find(ident string) *entry {
	if isUUID(ident) {
		return s.byUUID[ident]
	}
	return s.byName[ident]
}

// lookup is find with its own lock; it returns the node as it is now.
func (s *Sim) lookup(ident string) (*entry, *node) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if e := s.find(ident); e != nil {
		return e, e.n
	}
	return nil, nil
}

// current returns the node of e as it is now.
func (s *Sim) current(e *entry) *node {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return e.n
}

// update replaces the node of e by a changed copy, as one write to the database:
// updated_at moves. It does nothing when the node is gone. s.mu must be held.
func (s *Sim) update(e *entry, change func(n *node)) {
	if e.gone {
		return
	}
	old, n := e.n, *e.n
	change(&n)
	n.updatedAt = s.timeFor(e)
	if n.ProvisionState != old.ProvisionState {
		// The database layer does this on each write of provision_state.
		n.provisionUpdatedAt = n.updatedAt
		wasInspecting := old.ProvisionState == fsm.Inspecting || old.ProvisionState == fsm.InspectWait
		switch {
		case n.ProvisionState == fsm.Inspecting:
			n.inspectionStartedAt, n.inspectionFinishedAt = n.updatedAt, time.Time{}
		case wasInspecting && n.ProvisionState == fsm.Manageable:
			n.inspectionStartedAt, n.inspectionFinishedAt = time.Time{}, n.updatedAt
		case wasInspecting && n.ProvisionState == fsm.InspectFail:
			n.inspectionStartedAt = time.Time{}
		}
		if e.waitCancel != nil {
			e.waitCancel()
			e.waitCancel = nil
		}
	}
	reindex(s.byName, old.name, n.name, e)
	reindex(s.byInstance, old.InstanceUUID, n.InstanceUUID, e)
	e.n = &n
	s.tellNode(e.n, false)
}

func reindex(index map[string]*entry, old, new string, e *entry) {
	if old == new {
		return
	}
	delete(index, old)
	if new != "" {
		index[new] = e
	}
}

// insert adds a node to the database, or says which of its keys is taken.
// s.mu must be held.
func (s *Sim) insert(n *node) (*entry, error) {
	if n.name != "" && s.byName[n.name] != nil {
		return nil, conflict("A node with name %s already exists.", n.name)
	}
	if n.InstanceUUID != "" && s.byInstance[n.InstanceUUID] != nil {
		return nil, errInstanceAssociated(n.InstanceUUID, n.UUID)
	}
	if s.byUUID[n.UUID] != nil {
		return nil, conflict("A node with UUID %s already exists.", n.UUID)
	}
	s.nextID++
	n.id, n.createdAt = s.nextID, s.now()
	e := &entry{n: n, failNext: map[string]string{}}
	s.nodes = append(s.nodes, e)
	s.byUUID[n.UUID] = e
	reindex(s.byName, "", n.name, e)
	reindex(s.byInstance, "", n.InstanceUUID, e)
	s.tellNode(n, false)
	return e, nil
}

// remove takes a node and its ports out of the database. s.mu must be held.
func (s *Sim) remove(e *entry) {
	if e.gone {
		return
	}
	e.gone = true
	if e.waitCancel != nil {
		e.waitCancel()
	}
	i, _ := slices.BinarySearchFunc(s.nodes, e.n.id, func(e *entry, id int64) int { return int(e.n.id - id) })
	s.nodes = slices.Delete(s.nodes, i, i+1)
	delete(s.byUUID, e.n.UUID)
	reindex(s.byName, e.n.name, "", e)
	reindex(s.byInstance, e.n.InstanceUUID, "", e)
	s.tellNode(e.n, true)
	for _, p := range slices.Clone(s.portIDs) {
		if p.nodeUUID == e.n.UUID {
			s.removePort(p)
		}
	}
}

func errInstanceAssociated(instance, uuid string) *apiError {
	return conflict("Instance %s is already associated with a node, it cannot be associated with this other node %s", instance, uuid)
}

// record records an error in the history; the caller stores it in last_error.
// s.mu must be held.
func (s *Sim) record(e *entry, eventType, event string) {
	if len(e.history) >= 300 { // node_history_max_entries
		e.history = e.history[1:]
	}
	e.history = append(e.history, historyEvent{UUID: newUUID(), CreatedAt: s.timeFor(e), EventType: eventType, Event: event, Conductor: conductorName})
}
