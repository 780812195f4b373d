// SPDX-License-Identifier: Apache-2.0

package subscription

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// bmcTimeout bounds what is asked of a BMC at once. Ironic answers when the BMC has.
const bmcTimeout = 45 * time.Second

// ask makes requests that wait for the BMC of a host. The error is a *kinds.UnprovenError if the BMC may not be the host's.
func (c *Controller) ask(ctx context.Context, host *metal3.BareMetalHost, requests func(ctx context.Context, client Ironic) error) error {
	ctx, cancel := context.WithTimeout(ctx, bmcTimeout)
	defer cancel()
	client, _, err := c.Proven(ctx, host)
	switch {
	case ironic.IsNotFound(err):
		return &goneError{err}
	case err != nil:
		return err
	}
	return c.bmcs.Ask(kinds.NodeOf(host), func() error { return requests(ctx, client) })
}

// goneError says that Ironic does not have the node of a host. Its 404 for a request to the BMC may say anything: Ironic answers so
// for each error of the BMC.
type goneError struct{ error }

// Unwrap returns what Ironic has answered.
func (e *goneError) Unwrap() error { return e.error }

// create creates a subscription, and returns its ID. If there was no answer when that was tried before, the BMC may have it.
// mayExist is set if it may have it after an error. What it records is also in subscription.
func (c *Controller) create(ctx context.Context, subscription *metal3.BMCEventSubscription, host *metal3.BareMetalHost, headers []map[string]string) (id string, mayExist bool, err error) {
	if mayBeCreated(subscription) {
		if id, err = c.find(ctx, subscription, host); id != "" || err != nil {
			return id, true, err
		}
	}
	begun := false
	err = c.ask(ctx, host, func(ctx context.Context, client Ironic) (err error) {
		if begun, err = c.begin(ctx, subscription); err != nil {
			return err
		}
		wanted := wantedOf(subscription)
		wanted.Headers = headers
		id, err = client.CreateSubscription(ctx, c.Fence.At(host.ResourceVersion), host.Status.Provisioning.ID, wanted)
		mayExist = err != nil && !ironic.IsNotCarriedOut(err) && !ironic.IsInternal(err) // with an internal error, Ironic passes on the BMC's refusal
		return err
	})
	if ironic.IsInternal(err) { // also of a BMC that has it, and gives an answer that Ironic does not understand
		found, findErr := c.find(ctx, subscription, host)
		if found != "" {
			return found, false, nil
		}
		mayExist = findErr != nil && !errors.As(findErr, new(*ironic.APIError))
	}
	switch {
	case err == nil && id == "":
		return "", true, errors.New("the BMC gave it no ID")
	case begun && ironic.IsLocked(err): // of which nothing is told
		return "", false, cmp.Or(c.setError(ctx, subscription, saidBefore(subscription)), err)
	}
	return id, mayExist, err
}

// begin records that a subscription is about to be created, unless that is recorded already: nobody knows what has become of the request
// if this process ends before it has recorded the answer. A second subscription would be sent the same headers, and nobody would delete
// the first.
func (c *Controller) begin(ctx context.Context, subscription *metal3.BMCEventSubscription) (begun bool, err error) {
	if err := c.Fence.Check(); err != nil || mayBeCreated(subscription) {
		return false, err
	}
	text := beingCreated
	if said := subscription.Status.Error; said != "" {
		text += "; " + said
	}
	return true, c.setError(ctx, subscription, lifecycle.CutMessage(text))
}

// saidBefore returns what was wrong with a subscription before it was about to be created.
func saidBefore(subscription *metal3.BMCEventSubscription) string {
	return strings.TrimPrefix(strings.TrimPrefix(subscription.Status.Error, beingCreated), "; ")
}

// mayBeCreated reports whether the BMC may have a subscription that has no ID in the status, because no answer was recorded when it was to
// be created.
func mayBeCreated(subscription *metal3.BMCEventSubscription) bool {
	return strings.HasPrefix(subscription.Status.Error, notAnswered)
}

// find returns the ID of a subscription that the BMC has and nobody has recorded; empty if there is none, or if the node's driver knows
// no subscriptions, which Ironic answers with 400. What differs in anything is somebody else's.
func (c *Controller) find(ctx context.Context, subscription *metal3.BMCEventSubscription, host *metal3.BareMetalHost) (id string, err error) {
	var recorded []string
	for _, other := range c.ByIndex(byHost, host.Namespace+"/"+host.Name) {
		if other.UID != subscription.UID {
			recorded = append(recorded, other.Status.SubscriptionID)
		}
	}
	wanted := wantedOf(subscription)
	err = c.ask(ctx, host, func(ctx context.Context, client Ironic) error {
		ids, err := client.ListSubscriptions(ctx, host.Status.Provisioning.ID)
		if ironic.IsBadRequest(err) {
			return nil
		}
		isShown := false
		for _, candidate := range ids {
			if slices.Contains(recorded, candidate) {
				continue
			}
			is, readErr := client.GetSubscription(ctx, host.Status.Provisioning.ID, candidate)
			switch answer := new(ironic.APIError); {
			case errors.As(readErr, &answer) && answer.Status == http.StatusInternalServerError:
				err = readErr // some BMCs have one that they cannot show
			case readErr != nil:
				return readErr
			case spelled(is.Destination) == spelled(wanted.Destination) && is.Context == wanted.Context:
				id = candidate
				return nil
			default:
				isShown = true
			}
		}
		if isShown {
			return nil
		}
		return err
	})
	return id, err
}

// has reports whether the BMC has a subscription, and not another one of its ID: when they are reset, many BMCs forget all, and number
// the next ones from the beginning. A driver that knows no subscriptions is an error: it says nothing of what the BMC has.
func (c *Controller) has(ctx context.Context, subscription *metal3.BMCEventSubscription, host *metal3.BareMetalHost, id string) (found bool, err error) {
	err = c.ask(ctx, host, func(ctx context.Context, client Ironic) error {
		ids, err := client.ListSubscriptions(ctx, host.Status.Provisioning.ID)
		if err != nil || !slices.Contains(ids, id) {
			return err
		}
		is, err := client.GetSubscription(ctx, host.Status.Provisioning.ID, id)
		found = err == nil && mayBe(is, wantedOf(subscription))
		return err
	})
	return found, err
}

// unsubscribe deletes a subscription from the BMC, if that has it.
func (c *Controller) unsubscribe(ctx context.Context, subscription *metal3.BMCEventSubscription, host *metal3.BareMetalHost) error {
	id := subscription.Status.SubscriptionID
	if id != "" {
		found, err := c.has(ctx, subscription, host, id)
		if err != nil && !ironic.IsBadRequest(err) {
			return err // also for what the BMC does not show: to delete it, Ironic reads it, too
		}
		if !found {
			id = ""
		}
	}
	if id == "" && mayBeCreated(subscription) {
		var err error
		if id, err = c.find(ctx, subscription, host); err != nil {
			return err
		}
	}
	if id == "" {
		return nil
	}
	return c.remove(ctx, host, id)
}

// remove deletes what the BMC has under an ID. Ironic answers 404 for each error of the BMC: when it is tried again, it shows whether the
// BMC has it still.
func (c *Controller) remove(ctx context.Context, host *metal3.BareMetalHost, id string) error {
	return c.ask(ctx, host, func(ctx context.Context, client Ironic) error {
		return client.DeleteSubscription(ctx, c.Fence.At(host.ResourceVersion), host.Status.Provisioning.ID, id)
	})
}

// wantedOf returns what the BMC is to have, without the headers, which it does not show.
func wantedOf(subscription *metal3.BMCEventSubscription) ironic.Subscription {
	return ironic.Subscription{Destination: subscription.Spec.Destination, Context: subscription.Spec.Context}
}

// mayBe reports whether what a BMC has under our ID may be what was wanted. It may spell a URL in its own way, or leave out anything.
func mayBe(is, wanted ironic.Subscription) bool {
	return (is.Destination == "" || spelled(is.Destination) == spelled(wanted.Destination)) &&
		(is.Context == "" || wanted.Context == "" || is.Context == wanted.Context)
}

// spelled returns the one way in which a URL is compared.
func spelled(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	u.Host = strings.TrimSuffix(strings.ToLower(u.Host), port)
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), ""
	return u.String()
}
