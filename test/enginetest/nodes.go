// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// Nodes is an Ironic whose answers the test can delay, hold back and refuse.
// An answer says what was so when the request arrived.
type Nodes struct {
	Mu   sync.Mutex
	ByID map[string]ironic.Node
	// what was asked
	gets, lists, feeds, Inventories, InFlight, Most int
	// Single and Bulk are how long requests take; one for the nodes that have changed
	// takes as long as one for a single node.
	Single, Bulk func() time.Duration
	// Clock is how far Ironic's clock is ahead of ours, Lag by how much that of the
	// conductor of a node lags behind it.
	Clock time.Duration
	Lag   map[string]time.Duration
	// Unreadable are the nodes that Ironic cannot show; see ironic.Node.Unreadable.
	Unreadable map[string]bool
	// Held, when not nil, holds back the requests that arrive from now on.
	Held chan struct{}
	Err  error
	// BulkErr is why all nodes cannot be listed, while everything else is answered.
	BulkErr error
	// Inventory is what GetInventory answers; nil is a 404.
	Inventory    *ironic.Inventory
	InventoryErr error
}

func NewNodes() *Nodes {
	return &Nodes{ByID: map[string]ironic.Node{}}
}

// Change changes what Ironic knows.
func (f *Nodes) Change(change func()) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	change()
}

// Say makes text the last error of a node, by which the tests tell states apart.
func (f *Nodes) Say(id, text string) {
	f.Change(func() {
		node := f.ByID[id]
		node.UUID, node.LastError = id, text
		if node.ProvisionState == "" {
			node.ProvisionState, node.PowerState = ironic.Manageable, ironic.PowerOn
		}
		if node.Address == (ironic.Address{}) {
			node.Address.IPMIAddress = NodeBMC
		}
		f.Stamp(&node)
		f.ByID[id] = node
	})
}

// Stamp gives a node that is being changed its updated_at. f.Mu is held.
func (f *Nodes) Stamp(node *ironic.Node) {
	now := time.Now().Add(f.Clock - f.Lag[node.UUID])
	node.UpdatedAt = &now
}

// Hold keeps back the requests that arrive from now on, for ever or until the
// test closes the channel. Those that arrive after resume are answered.
func (f *Nodes) Hold() chan struct{} {
	held := make(chan struct{})
	f.Change(func() { f.Held = held })
	return held
}

func (f *Nodes) Resume() { f.Change(func() { f.Held = nil }) }

func (f *Nodes) Asked() (gets, lists int) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return f.gets, f.lists
}

// Feeds is how often the nodes that have changed were asked for.
func (f *Nodes) Feeds() int {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return f.feeds
}

// Wait takes the time of a request.
func (f *Nodes) Wait(ctx context.Context, took func() time.Duration) error {
	f.Mu.Lock()
	held, err := f.Held, f.Err
	f.InFlight++
	f.Most = max(f.Most, f.InFlight)
	var duration time.Duration
	if took != nil {
		duration = took()
	}
	f.Mu.Unlock()
	defer f.Change(func() { f.InFlight-- })
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

func (f *Nodes) GetNode(ctx context.Context, id string) (*ironic.Node, error) {
	f.Mu.Lock()
	f.gets++
	node, ok := f.ByID[id]
	unreadable := f.Unreadable[id]
	f.Mu.Unlock()
	if err := f.Wait(ctx, f.Single); err != nil {
		return nil, err
	}
	if unreadable {
		return nil, &ironic.APIError{Status: 500, Op: "get node " + id}
	}
	if !ok {
		return nil, &ironic.APIError{Status: 404, Message: "Node " + id + " could not be found.", Op: "get node " + id}
	}
	node.AnsweredAt = time.Now().Add(f.Clock).Truncate(time.Second)
	return &node, nil
}

func (f *Nodes) ListNodes(ctx context.Context) ([]ironic.Node, error) {
	f.Mu.Lock()
	f.lists++
	nodes := slices.Collect(maps.Values(f.ByID))
	for i := range nodes {
		nodes[i].UpdatedAt = nil // Ironic has no such field in a field list
		f.hide(&nodes[i])
	}
	refusal := f.BulkErr
	f.Mu.Unlock()
	if err := f.Wait(ctx, f.Bulk); err != nil {
		return nil, err
	}
	return nodes, refusal
}

// hide leaves of an unreadable node what Ironic shows all the same. f.Mu is held.
func (f *Nodes) hide(node *ironic.Node) {
	if f.Unreadable[node.UUID] {
		*node = ironic.Node{UUID: node.UUID, Name: node.Name, Driver: cmp.Or(node.Driver, "ipmi"), Address: node.Address, Marks: node.Marks, Unreadable: "HTTP 500"}
	}
}

// ChangedSince answers as Ironic does, in pages that are large enough.
func (f *Nodes) ChangedSince(ctx context.Context, since time.Time, _ int) (*ironic.Changes, error) {
	f.Mu.Lock()
	f.feeds++
	changes := &ironic.Changes{AnsweredAt: time.Now().Add(f.Clock).Truncate(time.Second)}
	for _, node := range f.ByID {
		if node.UpdatedAt == nil {
			continue
		}
		if node.UpdatedAt.After(changes.Newest) {
			changes.Newest = *node.UpdatedAt
		}
		if !node.UpdatedAt.Before(since) {
			node.AnsweredAt = changes.AnsweredAt
			changes.Nodes = append(changes.Nodes, node)
		}
	}
	slices.SortFunc(changes.Nodes, func(a, b ironic.Node) int { return b.UpdatedAt.Compare(*a.UpdatedAt) })
	for i := range changes.Nodes {
		f.hide(&changes.Nodes[i])
	}
	f.Mu.Unlock()
	if err := f.Wait(ctx, f.Single); err != nil {
		return nil, err
	}
	return changes, nil
}

func (f *Nodes) GetInventory(ctx context.Context, id string) (*ironic.Inventory, error) {
	f.Mu.Lock()
	f.Inventories++
	inventory, refusal := f.Inventory, f.InventoryErr
	f.Mu.Unlock()
	if err := f.Wait(ctx, f.Single); err != nil {
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
