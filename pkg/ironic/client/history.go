// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// errHistoryTooLong is for an Ironic that keeps more of a node than it returns at once.
var errHistoryTooLong = errors.New("ironic: the history of the node does not end")

// History returns what Ironic has recorded of a node, oldest first. It asks the database only.
func (c *nodeReader) History(ctx context.Context, uuid string) ([]ironic.HistoryEvent, error) {
	var events []ironic.HistoryEvent
	for range maxHistoryPages {
		query := url.Values{"detail": {"True"}} // otherwise Ironic cuts the text at 255 characters
		if len(events) > 0 {
			query.Set("marker", events[len(events)-1].UUID)
		}
		page := historyPage{}
		err := c.do(ctx, request{
			op: "History", text: "get history of node " + uuid, class: reads, method: http.MethodGet, path: nodePath(uuid, "history"),
			build: func(ironic.Features) (url.Values, any, error) { return query, nil, nil }, into: &page,
		})
		if err != nil {
			return nil, err
		}
		events = append(events, page.History...)
		if len(page.History) == 0 || page.Next == "" {
			return events, nil
		}
	}
	return nil, errHistoryTooLong
}

// maxHistoryPages bounds the pages of a history. Ironic keeps 300 events of a node by default,
// and returns 1000 at once.
const maxHistoryPages = 20

type historyPage struct {
	History []ironic.HistoryEvent `json:"history"`
	Next    string                `json:"next"`
}

// MaskPasswords implements masked.
func (p *historyPage) MaskPasswords() {
	for i := range p.History {
		p.History[i].MaskPasswords()
	}
}
