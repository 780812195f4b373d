// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

const (
	// listPage is the largest page that Ironic gives by default ([api]max_limit).
	listPage = 1000
	// listRestarts is how often a LIST begins anew because the node at the end
	// of a page was deleted meanwhile.
	listRestarts = 3
	// changedPage is the least first page of ChangedSince; each further one is five
	// times as large. Most polls find nothing new, and then its size is the cost.
	changedPage = 10
	// changedPages bounds the pages that ChangedSince reads: where more has changed, all
	// nodes are read at a lower price each.
	changedPages = 4
)

// listing is a LIST of nodes.
type listing struct {
	op, text string
	// query asks for the form of the nodes and their order, but for no page.
	query func(ironic.Features) url.Values
	// single asks for the same form of one node.
	single func(ironic.Features) url.Values
}

// allNodes are in the order in which Ironic has made them.
var allNodes = listing{op: "ListNodes", text: "list nodes", query: queryOfStatus, single: queryOfStatus}

// changedNodes are in the order of their last change, newest first. Ironic does not show updated_at in a list of fields.
var changedNodes = listing{
	op: "ChangedSince", text: "list changed nodes",
	query: func(ironic.Features) url.Values {
		return url.Values{"detail": {"True"}, "sort_key": {"updated_at"}, "sort_dir": {"desc"}}
	},
	single: func(ironic.Features) url.Values { return nil },
}

// nodePage is the answer to a LIST.
type nodePage struct {
	Nodes []ironic.Node `json:"nodes"`
	// Next is set when there may be more. Only that it is there counts: the
	// host in it is the one that Ironic believes to have.
	Next string `json:"next"`

	// more is set if there may be another page. Its marker is then the last one of Nodes.
	more       bool
	answeredAt time.Time
}

func (p *nodePage) received(date time.Time) {
	p.answeredAt = date
	for i := range p.Nodes {
		p.Nodes[i].AnsweredAt = date
		p.Nodes[i].DropConcealed()
	}
}

// MaskPasswords implements masked.
func (p *nodePage) MaskPasswords() {
	for i := range p.Nodes {
		p.Nodes[i].MaskPasswords()
	}
}

// list reads the page of a LIST that begins after the marker. fields replaces the form of the nodes, if it is not empty.
func (c *nodeReader) list(ctx context.Context, l listing, fields, marker string, limit int) (page nodePage, err error) {
	err = c.do(ctx, request{
		op: l.op, text: l.text, class: reads, method: http.MethodGet, path: "nodes",
		build: func(features ironic.Features) (url.Values, any, error) {
			query := l.query(features)
			if fields != "" {
				query.Del("detail")
				query.Set("fields", fields)
			}
			return pageOf(query, features, marker, limit), nil, nil
		},
		into: &page,
	})
	page.more = more(len(page.Nodes), limit, page.Next)
	return page, err
}

// more reports whether another page has to be asked for.
func more(got, limit int, next string) bool { return got > 0 && (next != "" || got >= limit) }

// pageOf adds to the query of a LIST what asks for a page of all nodes.
func pageOf(query url.Values, features ironic.Features, marker string, limit int) url.Values {
	query.Set("limit", strconv.Itoa(limit))
	if marker != "" {
		query.Set("marker", marker)
	}
	if features.ParentNodes {
		// Without it a LIST leaves out the nodes that have a parent, which may be
		// any; see Node.IsOwnParent.
		query.Set("include_children", "True")
	}
	return query
}

// readPage reads a page of a LIST, and returns how many nodes it has asked for: limit, or fewer if the answer would be too long.
// How long some texts of a node are is decided by its tenant: a BMC can answer with an error of any length, and the network data of
// the ramdisk are a Secret. The nodes of all others must be read all the same, and so they must if Ironic cannot show one.
func (c *nodeReader) readPage(ctx context.Context, l listing, marker string, limit int) (page nodePage, asked int, err error) {
	if c.damaged.isOnPage(l, marker, c.clock.Now()) {
		if page, err := c.readAround(ctx, l, marker, limit, nil); err == nil {
			return page, limit, nil
		}
		c.damaged.addPage(l, marker, false, c.clock.Now())
	}
	for {
		page, err = c.list(ctx, l, "", marker, limit)
		if isTooLong(err) && limit > 1 {
			limit = max(limit/10, 1)
			continue
		}
		if ironic.MayBeOfOneNode(err) {
			page, err = c.readAround(ctx, l, marker, limit, err)
		}
		if ironic.MayBeOfOneNode(err) { // it is not
			c.noteOutage(ctx, l.op, err)
		}
		return page, limit, err
	}
}

func isTooLong(err error) bool {
	var tooLong *http.MaxBytesError
	return errors.As(err, &tooLong)
}

// ListNodes reads all nodes, in pages. Those that Ironic cannot show are among them; see ironic.Node.Unreadable.
func (c *nodeReader) ListNodes(ctx context.Context) ([]ironic.Node, error) {
	var nodes []ironic.Node
	limit := listPage
	for restarts := 0; ; {
		marker := ""
		if len(nodes) > 0 {
			marker = nodes[len(nodes)-1].UUID
		}
		page, asked, err := c.readPage(ctx, allNodes, marker, limit)
		limit = asked
		if ironic.IsNotFound(err) && restarts < listRestarts {
			restarts++
			nodes = nil
			continue
		}
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(page.Nodes, isUnreadable) {
			limit = listPage // what was too long is behind
		}
		if nodes == nil {
			nodes = page.Nodes
		} else {
			nodes = append(nodes, page.Nodes...)
		}
		if !page.more {
			return nodes, nil
		}
	}
}

// ChangedSince reads the nodes whose record changed at or after the given time,
// newest first, with UpdatedAt set. It costs Ironic little when there are few, and
// the price of a request goes with the size of its page: expected is how many nodes the
// caller expects. It cannot see deleted nodes, nor new ones that nothing has happened
// to yet: those need a ListNodes from time to time. A lock taken or released is a
// change too, so equal contents are normal. Nodes that Ironic cannot show, of which it is not
// known when they have changed, may be among them; see ironic.Node.Unreadable.
func (c *nodeReader) ChangedSince(ctx context.Context, since time.Time, expected int) (*ironic.Changes, error) {
	changes, pages, err := c.readChanges(ctx, since, expected)
	for again := 1; err == nil && pages > 1 && !changes.Truncated; again++ {
		// A node that changes after the first page was read moves to the front, and is then on none of the others.
		var newer *ironic.Changes
		if newer, pages, err = c.readChanges(ctx, changes.Newest, changedPage); err != nil {
			return nil, err
		}
		replaced := map[string]bool{}
		for i := range newer.Nodes {
			replaced[newer.Nodes[i].UUID] = true
		}
		changes.Nodes = append(newer.Nodes, slices.DeleteFunc(changes.Nodes, func(n ironic.Node) bool { return replaced[n.UUID] })...)
		changes.Newest = latest(changes.Newest, newer.Newest)
		changes.Truncated = newer.Truncated || pages > 1 && again == changedPages
	}
	return changes, err
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// readChanges is ChangedSince for nodes that do not change meanwhile. It returns how many pages it has read.
func (c *nodeReader) readChanges(ctx context.Context, since time.Time, expected int) (changes *ironic.Changes, pages int, err error) {
	changes = &ironic.Changes{}
	seen := map[string]bool{}
	marker := ""
	restarts := 0
	limit := min(max(expected, changedPage), listPage)
	for pages = 1; ; pages++ {
		page, asked, err := c.readPage(ctx, changedNodes, marker, limit)
		limit = asked
		if ironic.IsNotFound(err) && restarts < listRestarts {
			restarts++
			marker = ""
			continue
		}
		if err != nil {
			return nil, pages, err
		}
		if changes.AnsweredAt.IsZero() {
			changes.AnsweredAt = page.answeredAt
		}
		for _, node := range page.Nodes {
			if node.UpdatedAt != nil && node.UpdatedAt.After(changes.Newest) {
				changes.Newest = *node.UpdatedAt
			}
			if !isUnreadable(node) && (node.UpdatedAt == nil || node.UpdatedAt.Before(since)) {
				return changes, pages, nil // Nodes that never changed come last.
			}
			marker = node.UUID
			// A node that changes between two pages moves to the front, and
			// the others may then come twice.
			if !seen[node.UUID] {
				seen[node.UUID] = true
				changes.Nodes = append(changes.Nodes, node)
			}
		}
		if !page.more {
			return changes, pages, nil
		}
		if pages >= changedPages {
			changes.Truncated = true
			return changes, pages, nil
		}
		limit = min(5*limit, listPage)
	}
}
