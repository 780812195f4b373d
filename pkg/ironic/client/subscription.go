// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// eventSubscriptions have BMCs send their events.
type eventSubscriptions struct{ *connection }

// CreateSubscription has the BMC of a node send its events to a URL, and returns the ID that the BMC
// gives the subscription. Ironic locks the node, and answers when the BMC has.
func (c eventSubscriptions) CreateSubscription(ctx context.Context, fence ironic.Fence, uuid string, subscription ironic.Subscription) (id string, err error) {
	if uuid == "" {
		return "", errEmptyID
	}
	var secrets []string // Ironic repeats the headers in its errors
	for _, header := range subscription.Headers {
		for _, value := range header {
			secrets = append(secrets, value)
		}
	}
	var answer struct {
		ID ironic.Text `json:"Id"`
	}
	err = c.do(ctx, vendorPassthru(fence, "CreateSubscription", "create an event subscription of node ", http.MethodPost, uuid, "create_subscription", subscription, secrets, &answer))
	return string(answer.ID), err
}

// DeleteSubscription has the BMC forget a subscription. Ironic answers 404 whatever the reason for
// which the BMC has not done it.
func (c eventSubscriptions) DeleteSubscription(ctx context.Context, fence ironic.Fence, uuid, id string) error {
	if uuid == "" || id == "" {
		return errEmptyID
	}
	return c.do(ctx, vendorPassthru(fence, "DeleteSubscription", "delete an event subscription of node ", http.MethodDelete, uuid, "delete_subscription", map[string]string{"id": id}, nil, nil))
}

// ListSubscriptions returns the IDs of the event subscriptions that the BMC of a node has, whoever
// made them.
func (c eventSubscriptions) ListSubscriptions(ctx context.Context, uuid string) ([]string, error) {
	if uuid == "" {
		return nil, errEmptyID
	}
	var answer struct {
		Members []struct {
			Path string `json:"@odata.id"`
		} `json:"Members"`
	}
	if err := c.do(ctx, vendorPassthru(ironic.Fence{}, "ListSubscriptions", "list the event subscriptions of node ", http.MethodGet, uuid, "get_all_subscriptions", nil, nil, &answer)); err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(answer.Members))
	for _, member := range answer.Members {
		ids = append(ids, ironic.SubscriptionIDOf(member.Path))
	}
	return ids, nil
}

// GetSubscription returns an event subscription that the BMC of a node has, as far as the BMC tells: not its headers.
func (c eventSubscriptions) GetSubscription(ctx context.Context, uuid, id string) (subscription ironic.Subscription, err error) {
	if uuid == "" || id == "" {
		return subscription, errEmptyID
	}
	var answer struct{ Destination, Context ironic.Text }
	err = c.do(ctx, vendorPassthru(ironic.Fence{}, "GetSubscription", "read an event subscription of node ", http.MethodGet, uuid, "get_subscription", map[string]string{"id": id}, nil, &answer))
	return ironic.Subscription{Destination: string(answer.Destination), Context: string(answer.Context)}, err
}

// vendorPassthru returns a request for a method of the vendor interface of a node's driver, which
// asks the BMC.
func vendorPassthru(fence ironic.Fence, op, text, httpMethod, uuid, method string, body any, secrets []string, into any) request {
	return request{
		op: op, text: text + uuid, class: subscriptions, method: httpMethod, path: nodePath(uuid, "vendor_passthru"), fence: fence, secrets: secrets, into: into,
		build: func(ironic.Features) (url.Values, any, error) { return url.Values{"method": {method}}, body, nil },
	}
}
