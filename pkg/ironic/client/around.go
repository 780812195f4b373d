// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// Ironic answers 500 to each LIST that has a node in it which it cannot show: the JSON in a column of its database is cut off,
// because MySQL has taken 64 KiB of more, or is what another release has written. The nodes around that one are read all the same.
//
// Ironic reads the columns of the fields that it is asked for, so that it lists such a node by the few fields that identify it.
// It does not take it for the marker of a page, though, because it reads all columns of that.

const (
	// identity are the fields that say which node it is, which BMC it has, and whose it is.
	identity = ownership + "uuid,name,driver,driver_info,extra"
	// maxUnreadable bounds the nodes that are left out of a page: if there are more, it is Ironic that fails.
	maxUnreadable = 32
	// split is into how many parts a page is divided that cannot be read as a whole.
	split = 8
	// damagedFor is how long a node that Ironic could not show is left out of lists without asking again: a poll each second would
	// fill Ironic's log, and each sweep, which are 25 seconds apart, would search for it anew.
	damagedFor = time.Minute
)

// damaged are the nodes that Ironic could not show a moment ago, by UUID.
type damaged struct {
	mu    sync.Mutex
	nodes map[string]damagedNode
	// pages are those that had such nodes on them, and until when they are not asked for as a whole.
	pages map[damagedPage]time.Time
}

// damagedPage is a page of a LIST, by what it begins after.
type damagedPage struct{ op, marker string }

type damagedNode struct {
	reason string
	until  time.Time
}

// add notes that Ironic could not show a node, and forgets those of which that was long ago.
func (d *damaged) add(id, reason string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.nodes == nil {
		d.nodes = map[string]damagedNode{}
	}
	maps.DeleteFunc(d.nodes, func(_ string, n damagedNode) bool { return !now.Before(n.until) })
	d.nodes[id] = damagedNode{reason, now.Add(damagedFor)}
}

// forget notes that Ironic shows a node.
func (d *damaged) forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.nodes, id)
}

// addPage notes whether there are nodes on a page that Ironic could not show.
func (d *damaged) addPage(l listing, marker string, has bool, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pages == nil {
		d.pages = map[damagedPage]time.Time{}
	}
	maps.DeleteFunc(d.pages, func(_ damagedPage, until time.Time) bool { return !now.Before(until) })
	if page := (damagedPage{l.op, marker}); has {
		d.pages[page] = now.Add(damagedFor)
	} else {
		delete(d.pages, page)
	}
}

// isOnPage reports whether such nodes were on a page a moment ago.
func (d *damaged) isOnPage(l listing, marker string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return now.Before(d.pages[damagedPage{l.op, marker}])
}

// reason returns why Ironic could not show a node; empty if it is to be asked.
func (d *damaged) reason(id string, now time.Time) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.nodes[id]; now.Before(n.until) {
		return n.reason
	}
	return ""
}

func isUnreadable(node ironic.Node) bool { return node.Unreadable != "" }

// errNotAround says that a page cannot be read around the nodes that were damaged a moment ago.
var errNotAround = errors.New("ironic: the page has to be asked for as a whole")

// readAround reads a page that Ironic cannot answer as a whole, for the cause, without the nodes that it cannot show. It has no
// cause if the page was not asked for, because it had such nodes a moment ago. The page may be somewhat longer, or shorter, than
// the limit.
func (c *nodeReader) readAround(ctx context.Context, l listing, marker string, limit int, cause error) (nodePage, error) {
	failed := cause != nil
	if !failed {
		cause = errNotAround
	}
	known, err := c.identify(ctx, l, marker, min(limit+maxUnreadable, listPage), cause)
	if err != nil {
		return nodePage{}, err
	}
	around := around{reader: c, listing: l, known: known.Nodes, end: len(known.Nodes), marker: marker, isMarker: true}
	if known.more { // the page has to end with a marker for the next
		around.end = max(around.end-maxUnreadable, 1)
	}
	if failed && around.untilDamaged() == around.end {
		around.divide(min(limit, around.end))
	}
	for around.next < around.end || !around.isMarker && around.next < len(known.Nodes) {
		if err := around.read(ctx); err != nil {
			return nodePage{}, err
		}
	}
	more := known.more || around.next < len(known.Nodes)
	if more && !around.isMarker {
		return nodePage{}, cause
	}
	c.damaged.addPage(l, marker, around.unreadable > 0, c.clock.Now())
	return nodePage{Nodes: around.nodes, more: more, answeredAt: known.answeredAt}, nil
}

// identify lists nodes by the fields that identify them, or by UUID if Ironic cannot show these fields of one. If it shows no node,
// the error is the cause.
func (c *nodeReader) identify(ctx context.Context, l listing, marker string, limit int, cause error) (nodePage, error) {
	for _, fields := range []string{identity, "uuid"} {
		if page, err := c.list(ctx, l, fields, marker, limit); err == nil && len(page.Nodes) > 0 {
			return page, nil
		}
	}
	return nodePage{}, cause
}

// around is a page that is read in parts.
type around struct {
	reader  *nodeReader
	listing listing
	// known are the nodes of the page, and those that follow, as far as Ironic shows them all.
	known []ironic.Node
	// next is the first one of known that was not read yet, and end the one that need not be read.
	next, end int
	// Up to suspects, parts of at most this size are read, because all of that cannot be read as a whole.
	suspects, size int
	// marker is the last node that was read. It is no marker for Ironic unless isMarker is set.
	marker   string
	isMarker bool

	nodes      []ironic.Node
	unreadable int
}

// divide notes that a part of the page, of a size, cannot be read as a whole.
func (a *around) divide(size int) { a.suspects, a.size = a.next+size, size/split }

// read reads the next part: as many nodes as possible, or a single one.
func (a *around) read(ctx context.Context) error {
	size := a.untilDamaged()
	if a.next < a.suspects {
		size = min(size, a.size)
	}
	if !a.isMarker || size <= 1 {
		return a.readOne(ctx)
	}
	part, err := a.reader.list(ctx, a.listing, "", a.marker, size)
	switch {
	case ironic.MayBeOfOneNode(err):
		a.divide(size)
	case err != nil:
		return err
	case len(part.Nodes) == 0: // what follows was deleted meanwhile
		a.next = len(a.known)
	default:
		a.nodes = append(a.nodes, part.Nodes...)
		a.marker = part.Nodes[len(part.Nodes)-1].UUID
		a.next = 1 + slices.IndexFunc(a.known, func(n ironic.Node) bool { return n.UUID == a.marker })
		if a.next == 0 { // one that has come meanwhile, at the end
			a.next = len(a.known)
		}
	}
	return nil
}

// untilDamaged returns how many nodes come before the next one that Ironic could not show a moment ago, or before the end.
func (a *around) untilDamaged() int {
	rest := a.known[min(a.next, a.end):a.end]
	now := a.reader.clock.Now()
	if i := slices.IndexFunc(rest, func(n ironic.Node) bool { return a.reader.damaged.reason(n.UUID, now) != "" }); i >= 0 {
		return i
	}
	return len(rest)
}

// leaveOut adds a node that Ironic cannot show.
func (a *around) leaveOut(node ironic.Node, reason string) {
	node.Unreadable = reason
	a.nodes, a.isMarker = append(a.nodes, node), false
	a.unreadable++
	a.suspects = a.next // the culprit is found
	a.next++
}

func (a *around) readOne(ctx context.Context) error {
	node := a.known[a.next]
	if reason := a.reader.damaged.reason(node.UUID, a.reader.clock.Now()); reason != "" && a.unreadable < maxUnreadable {
		a.leaveOut(node, reason)
		return nil
	}
	read, err := a.reader.getNode(ctx, node.UUID, a.listing.single)
	switch {
	case ironic.IsNotFound(err): // deleted meanwhile
		a.next++
	case err == nil:
		a.nodes, a.marker, a.isMarker = append(a.nodes, *read), node.UUID, true
		a.next++
	case ironic.MayBeOfOneNode(err) && a.unreadable < maxUnreadable:
		a.reader.damaged.add(node.UUID, ironic.ReasonOf(err), a.reader.clock.Now())
		a.leaveOut(node, ironic.ReasonOf(err))
	default:
		return err
	}
	return nil
}
