// Package subscription creates the event subscriptions that BMCEventSubscriptions ask for at the BMCs
// of hosts, and deletes them.
//
// A BMC forgets its subscriptions when it is reset or replaced, without any notice. So a subscription
// is looked for again when the host or its BMC returns: when the host is registered again or
// re-attached, when Ironic reaches its BMC again, and once after the start of the leader. BMCs are not
// polled.
//
//	controller.go  what is done for a subscription
//	hosts.go       which changes of a host matter
package subscription

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/events"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// Ironic has the requests to Ironic.
type Ironic interface {
	CreateSubscription(ctx context.Context, fence ironic.Fence, uuid string, subscription ironic.Subscription) (id string, err error)
	DeleteSubscription(ctx context.Context, fence ironic.Fence, uuid, id string) error
	ListSubscriptions(ctx context.Context, uuid string) (ids []string, err error)
}

// Deps are what a Controller works with.
type Deps struct {
	Subscriptions kinds.Store[*metal3.BMCEventSubscription]
	Hosts         kinds.Getter[*metal3.BareMetalHost]
	Ironic        Ironic
	Events        kinds.Events
	Clock         clock.PassiveClock
	// Fence has the term of leadership in which the controller runs.
	Fence ironic.Fence
	// Secret returns the contents of a Secret, or a NotFound error.
	Secret func(ctx context.Context, namespace, name string) (map[string][]byte, error)
	// Namespaces are those whose hosts are managed; none means all.
	Namespaces []string
}

// Controller reconciles BMCEventSubscriptions.
type Controller struct {
	Deps
	*kinds.Controller[*metal3.BMCEventSubscription]

	mu sync.Mutex
	// due has, by the UIDs of subscriptions that exist, when the BMC is to be asked whether it still has
	// them. Zero is when something happens to the host.
	due map[types.UID]time.Time
}

// The indexes of the informer: subscriptions by their host and by their Secret, as NAMESPACE/NAME.
const (
	byHost   = "host"
	bySecret = "secret"
)

// New returns a Controller.
func New(deps Deps) *Controller {
	c := &Controller{Deps: deps, due: map[types.UID]time.Time{}}
	c.Controller = kinds.New(kinds.Config[*metal3.BMCEventSubscription]{
		Name: "bmceventsubscriptions", Objects: deps.Subscriptions, Example: &metal3.BMCEventSubscription{}, Namespaces: deps.Namespaces,
		Indexers: cache.Indexers{
			byHost: func(obj any) ([]string, error) {
				s := obj.(*metal3.BMCEventSubscription)
				return []string{s.Namespace + "/" + s.Spec.HostName}, nil
			},
			bySecret: func(obj any) ([]string, error) {
				s := obj.(*metal3.BMCEventSubscription)
				if s.Spec.HTTPHeadersRef == nil {
					return nil, nil
				}
				return []string{s.Namespace + "/" + s.Spec.HTTPHeadersRef.Name}, nil
			},
		},
		Reconcile: c.reconcile,
	})
	return c
}

const (
	// firstLook is within what time subscriptions that exist already are looked for after the leader
	// has started: a BMC may have lost them while nobody led. It is long because each costs a request to
	// a BMC.
	firstLook = time.Hour
	// bmcTimeout bounds a request that Ironic answers when it has asked the BMC.
	bmcTimeout = 45 * time.Second
)

func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	subscription, err := c.Subscriptions.Get(ctx, key.Namespace, key.Name)
	if err != nil {
		return 0, kinds.IgnoreNotFound(err)
	}
	host, err := c.Hosts.Get(ctx, key.Namespace, subscription.Spec.HostName)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	if err != nil {
		host = nil
	}
	ctx, cancel := context.WithTimeout(ctx, bmcTimeout)
	defer cancel()
	switch {
	case !subscription.DeletionTimestamp.IsZero():
		return 0, c.delete(ctx, subscription, host)
	case !controllerutil.ContainsFinalizer(subscription, metal3.BMCEventSubscriptionFinalizer):
		_, err := kinds.AddFinalizer(ctx, c.Subscriptions, subscription, metal3.BMCEventSubscriptionFinalizer)
		return 0, kinds.IgnoreNotFound(err) // the change requeues it
	case host == nil:
		return 0, c.report(ctx, subscription, fmt.Sprintf("there is no host %s in this namespace", subscription.Spec.HostName))
	case metal3.IsPaused(host):
		return 0, nil
	case host.ForeignNode() != "":
		return 0, c.report(ctx, subscription, fmt.Sprintf("the BMC of host %s is not asked: %s", host.Name, host.ForeignNode()))
	case !isReady(host):
		return 0, c.report(ctx, subscription, fmt.Sprintf("waiting for host %s to be registered in Ironic", host.Name))
	}
	return c.subscribe(ctx, subscription, host)
}

// subscribe creates the subscription, unless the BMC has it.
func (c *Controller) subscribe(ctx context.Context, subscription *metal3.BMCEventSubscription, host *metal3.BareMetalHost) (time.Duration, error) {
	if id := subscription.Status.SubscriptionID; id != "" {
		after, found, err := c.verify(ctx, subscription, host, id)
		if found || err != nil {
			return after, err
		}
		c.event(subscription, corev1.EventTypeWarning, "SubscriptionLost", "The BMC has lost subscription "+id+", which is created again")
	}
	headers, err := c.headers(ctx, subscription)
	if apierrors.IsNotFound(err) {
		// When the Secret is created, the subscription is reconciled again.
		return 0, c.report(ctx, subscription, fmt.Sprintf("Secret %s with the HTTP headers does not exist", subscription.Spec.HTTPHeadersRef.Name))
	}
	if err != nil {
		return 0, fmt.Errorf("reading the Secret with the HTTP headers: %w", err)
	}
	id, err := c.Ironic.CreateSubscription(ctx, c.Fence.At(host.ResourceVersion), host.Status.Provisioning.ID, ironic.Subscription{
		Destination: subscription.Spec.Destination, Context: subscription.Spec.Context, Headers: headers,
	})
	if err != nil {
		return 0, c.failed(ctx, subscription, "failed to create a subscription", err)
	}
	if id == "" {
		return 0, c.failed(ctx, subscription, "failed to create a subscription", fmt.Errorf("the BMC gave it no ID"))
	}
	updated := subscription.DeepCopy()
	updated.Status.SubscriptionID, updated.Status.Error = id, ""
	if _, err := c.Subscriptions.UpdateStatus(ctx, updated); err != nil {
		// Without its ID, nobody could delete it.
		c.abandon(ctx, host, id)
		return 0, kinds.IgnoreNotFound(err)
	}
	c.setDue(subscription.UID, time.Time{})
	c.event(subscription, corev1.EventTypeNormal, "Subscribed", "The BMC sends its events to "+subscription.Spec.Destination+", subscription "+id)
	return 0, nil
}

// verify tells whether the BMC still has a subscription. It asks the BMC only when that is due, and
// otherwise returns when it is.
func (c *Controller) verify(ctx context.Context, subscription *metal3.BMCEventSubscription, host *metal3.BareMetalHost, id string) (after time.Duration, found bool, err error) {
	if after, isDue := c.isDue(subscription.UID, c.Clock.Now()); !isDue {
		return after, true, c.report(ctx, subscription, "")
	}
	ids, err := c.Ironic.ListSubscriptions(ctx, host.Status.Provisioning.ID)
	if err != nil {
		return 0, false, c.failed(ctx, subscription, "failed to look for the subscription", err)
	}
	c.setDue(subscription.UID, time.Time{})
	if slices.Contains(ids, id) {
		return 0, true, c.report(ctx, subscription, "")
	}
	return 0, false, nil
}

// isDue tells whether the BMC is to be asked for a subscription now. If not, left is after what time it
// is to be asked; 0 is when something happens to the host.
func (c *Controller) isDue(uid types.UID, now time.Time) (left time.Duration, isDue bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	due, known := c.due[uid]
	if !known {
		due = now.Add(rand.N(firstLook))
		c.due[uid] = due
	}
	if due.IsZero() {
		return 0, false
	}
	left = due.Sub(now)
	return left, left <= 0
}

// delete deletes the subscription from the BMC, and lets the object go. It does not wait for a host or
// a node that is gone, and asks nothing of a node that may be somebody else's.
func (c *Controller) delete(ctx context.Context, subscription *metal3.BMCEventSubscription, host *metal3.BareMetalHost) error {
	if !controllerutil.ContainsFinalizer(subscription, metal3.BMCEventSubscriptionFinalizer) {
		return nil // somebody else's finalizer keeps it
	}
	id := subscription.Status.SubscriptionID
	if id != "" && host != nil && lifecycle.HasOwnNode(host) && !lifecycle.IsDetached(host) {
		if err := c.unsubscribe(ctx, host, id); err != nil {
			return c.failed(ctx, subscription, "failed to delete a subscription", err)
		}
	}
	if err := kinds.RemoveFinalizer(ctx, c.Subscriptions, subscription, metal3.BMCEventSubscriptionFinalizer); err != nil {
		return err
	}
	c.forget(subscription.UID)
	return nil
}

// unsubscribe deletes a subscription from the BMC. One that the BMC does not have, or whose node is
// gone, is deleted already.
func (c *Controller) unsubscribe(ctx context.Context, host *metal3.BareMetalHost, id string) error {
	node := host.Status.Provisioning.ID
	err := c.Ironic.DeleteSubscription(ctx, c.Fence.At(host.ResourceVersion), node, id)
	if err == nil || !ironic.IsNotFound(err) {
		return err
	}
	// Ironic answers 404 for each error of the BMC, also if it does not answer.
	ids, listErr := c.Ironic.ListSubscriptions(ctx, node)
	if ironic.IsNotFound(listErr) || listErr == nil && !slices.Contains(ids, id) {
		return nil
	}
	return err
}

// abandon deletes a subscription that could not be recorded.
func (c *Controller) abandon(ctx context.Context, host *metal3.BareMetalHost, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bmcTimeout)
	defer cancel()
	_ = c.unsubscribe(ctx, host, id) // what is left behind is one subscription too many
}

// headers returns the HTTP headers for the events, one in each map, in the order of their names.
func (c *Controller) headers(ctx context.Context, subscription *metal3.BMCEventSubscription) ([]map[string]string, error) {
	ref := subscription.Spec.HTTPHeadersRef
	if ref == nil {
		return nil, nil
	}
	data, err := c.Secret(ctx, subscription.Namespace, ref.Name)
	if err != nil {
		return nil, err
	}
	var headers []map[string]string
	for _, name := range slices.Sorted(maps.Keys(data)) {
		headers = append(headers, map[string]string{name: string(data[name])})
	}
	return headers, nil
}

// failed records why something failed, and returns err, so that it is tried again.
func (c *Controller) failed(ctx context.Context, subscription *metal3.BMCEventSubscription, what string, err error) error {
	if ironic.IsLocked(err) || errors.Is(err, ironic.ErrNotLeading) {
		return err
	}
	if reportErr := c.report(ctx, subscription, what+": "+ironic.MessageOf(err)); reportErr != nil {
		return reportErr
	}
	return err
}

// report records what is wrong with a subscription; an empty text says that nothing is.
func (c *Controller) report(ctx context.Context, subscription *metal3.BMCEventSubscription, problem string) error {
	problem = lifecycle.CutMessage(problem)
	if subscription.Status.Error == problem {
		return nil
	}
	updated := subscription.DeepCopy()
	updated.Status.Error = problem
	if _, err := c.Subscriptions.UpdateStatus(ctx, updated); err != nil {
		return kinds.IgnoreNotFound(err)
	}
	if problem != "" {
		c.event(subscription, corev1.EventTypeWarning, "SubscriptionFailed", problem)
	}
	return nil
}

func (c *Controller) event(subscription *metal3.BMCEventSubscription, eventType, reason, message string) {
	c.Events.RecordObject(kinds.ReferenceTo("BMCEventSubscription", subscription), events.Event{Type: eventType, Reason: reason, Message: message})
}

// setDue sets when the BMC is to be asked whether it still has a subscription.
func (c *Controller) setDue(uid types.UID, due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due[uid] = due
}

func (c *Controller) forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.due, uid)
}
