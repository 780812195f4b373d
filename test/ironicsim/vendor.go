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
	methods := map[string]func(*call, *node) error{
		"POST create_subscription": s.subscribe, "DELETE delete_subscription": s.unsubscribe,
		"GET get_subscription": s.subscription, "GET get_all_subscriptions": s.subscriptions,
	}
	do, known := methods[c.r.Method+" "+method]
	if n.vendorInterface != "redfish" || !known {
		return badRequest("No handler for method %s", method)
	}
	t, err := s.acquire(e, false)
	if err != nil {
		return err
	}
	defer t.release()
	return do(c, t.node())
}

func (s *Sim) subscribe(c *call, n *node) error {
	body, _ := c.body.(map[string]any)
	var made map[string]any
	err := s.command(s.ctx, n, "create_subscription", func(b *BMC) {
		b.lastSubscription++
		made = map[string]any{"Id": strconv.Itoa(b.lastSubscription), "Protocol": "Redfish", "Destination": body["Destination"], "Context": body["Context"]}
		b.subscriptions = append(b.subscriptions, made)
	})
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, made)
}

func (s *Sim) subscription(c *call, n *node) error {
	body, _ := c.body.(map[string]any)
	var found map[string]any
	err := s.command(s.ctx, n, "get_subscription", func(b *BMC) {
		if i := b.subscriptionOf(body["id"]); i >= 0 {
			found = b.subscriptions[i]
		}
	})
	switch {
	case err != nil:
		return err
	case found == nil:
		return fault(http.StatusInternalServerError, "Redfish exception occurred. Error: Redfish get_subscription failed for subscription %v", body["id"])
	}
	return c.json(http.StatusOK, found)
}

func (s *Sim) subscriptions(c *call, n *node) error {
	members := []map[string]any{}
	err := s.command(s.ctx, n, "get_all_subscriptions", func(b *BMC) {
		for _, subscription := range b.subscriptions {
			members = append(members, map[string]any{"@odata.id": "/redfish/v1/EventService/Subscriptions/" + textOf(subscription["Id"])})
		}
	})
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, map[string]any{"Members": members})
}

// subscriptionOf returns the index of the subscription of an ID, or -1.
func (b *BMC) subscriptionOf(id any) int {
	return slices.IndexFunc(b.subscriptions, func(s map[string]any) bool { return s["Id"] == id })
}

// unsubscribe deletes a subscription. Ironic answers 404 whatever the reason for which the BMC has not done it.
func (s *Sim) unsubscribe(c *call, n *node) error {
	body, _ := c.body.(map[string]any)
	found := false
	err := s.command(s.ctx, n, "delete_subscription", func(b *BMC) {
		i := b.subscriptionOf(body["id"])
		if found = i >= 0; found {
			b.subscriptions = slices.Delete(b.subscriptions, i, i+1)
		}
	})
	if err != nil || !found {
		return fault(http.StatusNotFound, "Resource not found: %v", body["id"])
	}
	return c.noContent()
}
