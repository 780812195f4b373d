// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// conductors are asked about with the drivers that they have enabled.
type conductors struct{ *connection }

// ListConductors reads the conductors, including those that are not alive. They are not read in pages: even
// a large Ironic has some dozens of them, and a page has a thousand.
func (c conductors) ListConductors(ctx context.Context) ([]ironic.Conductor, error) {
	var page struct {
		Conductors []ironic.Conductor `json:"conductors"`
	}
	err := c.do(ctx, request{op: "ListConductors", text: "list conductors", class: reads, method: http.MethodGet, path: "conductors", into: &page})
	return page.Conductors, err
}

// ListDrivers returns the names of the drivers that a conductor has enabled.
func (c conductors) ListDrivers(ctx context.Context) ([]string, error) {
	var answer struct {
		Drivers []struct {
			Name  string   `json:"name"`
			Hosts []string `json:"hosts"`
		} `json:"drivers"`
	}
	err := c.do(ctx, request{op: "ListDrivers", text: "list drivers", class: reads, method: http.MethodGet, path: "drivers", into: &answer})
	names := []string{} // none is an answer, too
	for _, driver := range answer.Drivers {
		if len(driver.Hosts) > 0 {
			names = append(names, driver.Name)
		}
	}
	return names, err
}
