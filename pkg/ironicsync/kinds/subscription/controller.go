// SPDX-License-Identifier: Apache-2.0

package subscription

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/redact"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/events"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// Ironic has the requests to Ironic.
type Ironic interface {
	kinds.NodeGetter
	CreateSubscription(ctx context.Context, fence ironic.Fence, uuid string, subscription ironic.Subscription) (id string, err error)
	DeleteSubscription(ctx context.Context, fence ironic.Fence, uuid, id string) error
	ListSubscriptions(ctx context.Context, uuid string) (ids []string, err error)
	GetSubscription(ctx context.Context, uuid, id string) (ironic.Subscription, error)
}

// Deps are what a Controller works with.
type Deps struct {
	kinds.Nodes[Ironic]
	Subscriptions kinds.Store[*metal3.BMCEventSubscription]
	Hosts         kinds.Hosts
	Events        kinds.Events
	Clock         clock.PassiveClock
	// CheckURL returns why a BMC may not send events to a URL, or nil.
	CheckURL func(ctx context.Context, url string) error
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
	// due has, by the names of subscriptions that exist, when the BMC is to be asked whether it still has
	// them.
	due map[types.NamespacedName]look
	// bmcs has the BMCs that have not answered. There may be many subscriptions of one.
	bmcs *kinds.Breaker
}

// look is when a BMC is to be asked for a subscription; zero is when something happens to the host.
type look struct {
	subscription types.UID
	at           time.Time
}

// The indexes of the informer: subscriptions by their host and by their Secret, as NAMESPACE/NAME.
const (
	byHost   = "host"
	bySecret = "secret"
)

// New returns a Controller.
func New(deps Deps) *Controller {
	c := &Controller{Deps: deps, due: map[types.NamespacedName]look{}, bmcs: kinds.NewBreaker(deps.Clock)}
	c.Controller = kinds.New(kinds.Config[*metal3.BMCEventSubscription]{
		Name: "bmceventsubscriptions", IgnoreStatus: true, Objects: deps.Subscriptions, Example: &metal3.BMCEventSubscription{}, Namespaces: deps.Namespaces,
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
		IronicOf: c.ironicOf, Places: ironic.SubscriptionConnections, Reconcile: c.reconcile,
	})
	return c
}

// ironicOf returns the name of the Ironic that is asked for a subscription.
func (c *Controller) ironicOf(ctx context.Context, key types.NamespacedName) string {
	subscription, exists := c.Cached(key)
	if !exists {
		return ""
	}
	return kinds.IronicOf(c.Hosts)(ctx, types.NamespacedName{Namespace: key.Namespace, Name: subscription.Spec.HostName})
}

const (
	// firstLook is within what time subscriptions that exist already are looked for after the leader
	// has started: a BMC may have lost them while nobody led. It is long because each costs a request to
	// a BMC.
	firstLook = time.Hour
	// destinationRetry is when a destination that is not allowed is looked at again: its name may have other
	// addresses by then. So are Secrets that cannot be used.
	destinationRetry = 10 * time.Minute
	// notCreated and notDeleted begin status.error, in the words of the Bare Metal Operator.
	notCreated, notDeleted = "failed to create a subscription", "failed to delete a subscription"
	// notAnswered says that the BMC may have the subscription all the same, and is looked at before anything else is done.
	notAnswered = notCreated + " (the BMC may have it all the same)"
	// beingCreated says so while there is no answer yet. What was wrong before follows.
	beingCreated = notAnswered + ": it has not answered yet"
)

func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	subscription, err := c.Subscriptions.Get(ctx, key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		c.forget(key)
	}
	if err != nil {
		return 0, kinds.IgnoreNotFound(err)
	}
	host, err := kinds.Find(ctx, c.Hosts, key.Namespace, subscription.Spec.HostName)
	if err != nil {
		return 0, err
	}
	if host != nil {
		ctx = redact.With(c.Guard(ctx, host), c.known(subscription))
	}
	switch {
	case !subscription.DeletionTimestamp.IsZero():
		return 0, c.delete(ctx, subscription, host)
	case !slices.Contains(subscription.Finalizers, metal3.BMCEventSubscriptionFinalizer):
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
		if subscription.Status.Error == "" { // otherwise it was told before the last try
			c.event(subscription, corev1.EventTypeWarning, "SubscriptionLost", "The BMC has lost subscription "+id+", which is created again")
		}
	}
	if err := c.CheckURL(ctx, subscription.Spec.Destination); err != nil {
		return destinationRetry, c.report(ctx, subscription, "spec.destination: "+err.Error())
	}
	headers, err := c.headers(ctx, subscription)
	if apierrors.IsNotFound(err) {
		// When the Secret is created, the subscription is reconciled again; also if it was just before the informer has this error.
		return destinationRetry, c.report(ctx, subscription, fmt.Sprintf("Secret %s with the HTTP headers does not exist", subscription.Spec.HTTPHeadersRef.Name))
	}
	if err == nil {
		err = checkHeaders(headers)
	}
	if wrong := new(headersError); errors.As(err, &wrong) {
		return destinationRetry, c.report(ctx, subscription, fmt.Sprintf("Secret %s: %s", subscription.Spec.HTTPHeadersRef.Name, err))
	}
	if err != nil {
		return 0, fmt.Errorf("reading the Secret with the HTTP headers: %w", err)
	}
	id, mayExist, err := c.create(ctx, subscription, host, headers)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err): // somebody has written it: it is looked at again
		return 0, kinds.IgnoreNotFound(err)
	case err != nil && mayExist:
		return 0, c.failed(ctx, subscription, notAnswered, err)
	case err != nil:
		return 0, c.failed(ctx, subscription, notCreated, err)
	}
	updated := subscription.DeepCopy()
	updated.Status.SubscriptionID, updated.Status.Error = id, ""
	if _, err := c.Subscriptions.UpdateStatus(ctx, updated); err != nil {
		_ = c.remove(context.WithoutCancel(ctx), host, id) // without its ID, nobody could; what is left is one too many
		return 0, kinds.IgnoreNotFound(err)
	}
	c.setDue(subscription, time.Time{})
	c.event(subscription, corev1.EventTypeNormal, "Subscribed", "The BMC sends its events to "+subscription.Spec.Destination+", subscription "+id)
	return 0, nil
}

// verify reports whether the BMC still has a subscription. It asks the BMC only when that is due, and
// otherwise returns when it is.
func (c *Controller) verify(ctx context.Context, subscription *metal3.BMCEventSubscription, host *metal3.BareMetalHost, id string) (after time.Duration, found bool, err error) {
	if after, isDue := c.isDue(subscription, c.Clock.Now()); !isDue {
		return after, true, c.report(ctx, subscription, "")
	}
	found, err = c.has(ctx, subscription, host, id)
	if err != nil {
		return 0, false, c.failed(ctx, subscription, "failed to look for the subscription", err)
	}
	if !found {
		return 0, false, nil // it remains due until the BMC has it again
	}
	c.setDue(subscription, time.Time{})
	return 0, true, c.report(ctx, subscription, "")
}

// isDue reports whether the BMC is to be asked for a subscription now. If not, left is after what time it
// is to be asked; 0 is when something happens to the host.
func (c *Controller) isDue(subscription *metal3.BMCEventSubscription, now time.Time) (left time.Duration, isDue bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := kinds.KeyOf(subscription)
	due, known := c.due[key]
	if !known || due.subscription != subscription.UID {
		due = look{subscription.UID, now.Add(rand.N(firstLook))}
		if subscription.Status.Error != "" { // which another leader has found, and which stays until the BMC has it
			due.at = now
		}
		c.due[key] = due
	}
	if due.at.IsZero() {
		return 0, false
	}
	left = due.at.Sub(now)
	return left, left <= 0
}

// delete deletes the subscription from the BMC, and lets the object go. It does not wait for a host that is gone or may not have
// the node, nor for the node of one that is going. A host that stays gets a node again that Ironic has lost.
func (c *Controller) delete(ctx context.Context, subscription *metal3.BMCEventSubscription, host *metal3.BareMetalHost) error {
	if !slices.Contains(subscription.Finalizers, metal3.BMCEventSubscriptionFinalizer) {
		return nil // another controller's finalizer keeps it
	}
	mayExist := subscription.Status.SubscriptionID != "" || mayBeCreated(subscription)
	switch {
	case !mayExist, host == nil, host.IsDetached():
	case lifecycle.MayGetOwnNode(host):
		return c.report(ctx, subscription, fmt.Sprintf("%s: waiting for host %s to have its BMC registered in Ironic", notDeleted, host.Name))
	case lifecycle.HasOwnNode(host):
		if metal3.IsPaused(host) {
			return nil // somebody else may be at work on its BMC. The end of the pause requeues the subscription
		}
		err := c.unsubscribe(ctx, subscription, host)
		var unproven *kinds.UnprovenError
		var gone *goneError
		isGone := errors.As(err, &unproven) || errors.As(err, &gone) && !host.DeletionTimestamp.IsZero()
		if err != nil && !isGone {
			return c.failed(ctx, subscription, notDeleted, err)
		}
	}
	if err := kinds.RemoveFinalizer(ctx, c.Subscriptions, subscription, metal3.BMCEventSubscriptionFinalizer); err != nil {
		return err
	}
	c.forget(kinds.KeyOf(subscription))
	return nil
}

// known returns what Ironic may repeat of a subscription: the values of its headers, and what its user wrote.
func (c *Controller) known(subscription *metal3.BMCEventSubscription) redact.Source {
	return func(ctx context.Context) (redact.Known, error) {
		known := redact.Known{Written: []string{subscription.Spec.Destination}}
		headers, err := c.headers(ctx, subscription)
		for _, header := range headers {
			known.Secrets = slices.AppendSeq(known.Secrets, maps.Values(header))
		}
		return known, kinds.IgnoreNotFound(err)
	}
}

// maxHeaders bounds the HTTP headers of a subscription, in bytes. Servers accept less, and the values are looked for in all that Ironic says of it.
const maxHeaders = 64 << 10

// headersError is what is wrong with the Secret that has the HTTP headers, without their values.
type headersError struct{ message string }

func (e *headersError) Error() string { return e.message }

// checkHeaders returns an error if the value of a header cannot arrive at the BMC.
func checkHeaders(headers []map[string]string) error {
	for _, header := range headers {
		for name, value := range header {
			if wrong := bmc.Unsendable(value); wrong != "" {
				return &headersError{fmt.Sprintf("the HTTP header %s %s: it has to be one line of text in UTF-8, without a byte order mark", name, wrong)}
			}
		}
	}
	return nil
}

// headers returns the HTTP headers for the events, one in each map, in the order of their names. White space around a
// value, such as the line break at the end of a file, is no part of it for HTTP either.
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
	left := maxHeaders
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if left -= len(name) + len(data[name]); left < 0 {
			return nil, &headersError{fmt.Sprintf("it has HTTP headers of more than %d KiB in all", maxHeaders>>10)}
		}
		headers = append(headers, map[string]string{name: strings.TrimSpace(string(data[name]))})
	}
	return headers, nil
}

// failed records why something failed, and returns err, so that it is tried again.
func (c *Controller) failed(ctx context.Context, subscription *metal3.BMCEventSubscription, what string, err error) error {
	if ironic.IsLocked(err) || errors.Is(err, ironic.ErrNotLeading) {
		return err
	}
	if subscription.Status.Error != "" && errors.As(err, new(*kinds.SilentError)) {
		return err // what is recorded says why the BMC is left alone
	}
	if reportErr := c.report(ctx, subscription, what+": "+ironic.MessageOf(err)); reportErr != nil {
		return reportErr
	}
	return err
}

// report records what is wrong with a subscription; an empty text says that nothing is. That it may be created, and has no ID, stays
// with any other problem.
func (c *Controller) report(ctx context.Context, subscription *metal3.BMCEventSubscription, problem string) error {
	if problem != "" && mayBeCreated(subscription) && !strings.HasPrefix(problem, notCreated) {
		problem = notAnswered + "; " + problem
	}
	problem = lifecycle.CutMessage(problem)
	if subscription.Status.Error == problem {
		return nil
	}
	said := saidBefore(subscription)
	if err := c.setError(ctx, subscription, problem); err != nil {
		return kinds.IgnoreNotFound(err)
	}
	if problem != "" && problem != said {
		c.event(subscription, corev1.EventTypeWarning, "SubscriptionFailed", problem)
	}
	return nil
}

// setError records status.error, also in subscription.
func (c *Controller) setError(ctx context.Context, subscription *metal3.BMCEventSubscription, text string) error {
	updated := subscription.DeepCopy()
	updated.Status.Error = text
	written, err := c.Subscriptions.UpdateStatus(ctx, updated)
	if err == nil {
		*subscription = *written
	}
	return err
}

func (c *Controller) event(subscription *metal3.BMCEventSubscription, eventType, reason, message string) {
	c.Events.RecordObject(kinds.ReferenceTo("BMCEventSubscription", subscription), events.Event{Type: eventType, Reason: reason, Message: message})
}

// setDue sets when the BMC is to be asked whether it still has a subscription.
func (c *Controller) setDue(subscription *metal3.BMCEventSubscription, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due[kinds.KeyOf(subscription)] = look{subscription.UID, at}
}

func (c *Controller) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.due, key)
}
