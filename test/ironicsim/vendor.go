// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"net/http"
	"slices"
	"strconv"
)

// vendorPassthru is a method of the vendor interface of a node. Those for event subscriptions, which only Redfish has, lock the
// node and ask the BMC before they are answered.
func (s *Sim) vendorPassthru(c *call) error {
	method := c.stringArg("method")
	if c.refused != nil {
		return c.refused
	}
	e, n, err := s.nodeArg(c)
	if err != nil {
		return err
	}
	known := map[string]string{http.MethodPost: "create_subscription", http.MethodDelete: "delete_subscription", http.MethodGet: "get_all_subscriptions"}
	if n.vendorInterface != "redfish" || method != known[c.r.Method] {
		return badRequest("No handler for method %s", method)
	}
	t, err := s.acquire(e, false)
	if err != nil {
		return err
	}
	defer t.release()
	if c.r.Method == http.MethodDelete {
		return s.unsubscribe(c, t.node())
	}
	var ids []string
	err = s.command(s.ctx, t.node(), method, func(b *BMC) {
		if c.r.Method == http.MethodPost {
			b.lastSubscription++
			b.subscriptions = append(b.subscriptions, strconv.Itoa(b.lastSubscription))
		}
		ids = slices.Clone(b.subscriptions)
	})
	if err != nil {
		return err
	}
	if c.r.Method == http.MethodPost {
		return c.json(http.StatusOK, map[string]any{"Id": ids[len(ids)-1], "Protocol": "Redfish"})
	}
	members := make([]map[string]any, 0, len(ids))
	for _, id := range ids {
		members = append(members, map[string]any{"@odata.id": "/redfish/v1/EventService/Subscriptions/" + id})
	}
	return c.json(http.StatusOK, map[string]any{"Members": members})
}

// unsubscribe deletes a subscription. Ironic answers 404 whatever the reason for which the BMC has not done it.
func (s *Sim) unsubscribe(c *call, n *node) error {
	body, _ := c.body.(map[string]any)
	found := false
	err := s.command(s.ctx, n, "delete_subscription", func(b *BMC) {
		i := slices.Index(b.subscriptions, textOf(body["id"]))
		if found = i >= 0; found {
			b.subscriptions = slices.Delete(b.subscriptions, i, i+1)
		}
	})
	if err != nil || !found {
		return fault(http.StatusNotFound, "Resource not found: %v", body["id"])
	}
	return c.noContent()
}
