// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// ListConductors reads the conductors, including those that are not alive. They are not read in pages: even
// a large Ironic has some dozens of them, and a page has a thousand.
func (c *Client) ListConductors(ctx context.Context) ([]ironic.Conductor, error) {
	var page struct {
		Conductors []ironic.Conductor `json:"conductors"`
	}
	err := c.do(ctx, request{op: "ListConductors", text: "list conductors", class: reads, method: http.MethodGet, path: "conductors", into: &page})
	return page.Conductors, err
}
