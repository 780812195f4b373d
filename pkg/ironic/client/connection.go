// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

const (
	// maxAnswer bounds what is read of one answer: 1000 nodes with details take 3 MB.
	maxAnswer = 64 << 20
	// maxErrorAnswer bounds an answer that is an error. Ironic's own take a few KB, also where
	// they quote what a BMC said.
	maxErrorAnswer = 256 << 10
	// maxBuffer bounds the buffer that is made for an answer before it arrives.
	maxBuffer = 4 << 20
	// readRetries is how often a GET is tried again after a broken connection
	// or a 503. Writes are never tried again here: whoever plans them looks at
	// what Ironic has first.
	readRetries = 2
	// retryDelay is the least delay before the first retry after a broken connection; with the jitter, it is up to three
	// times as long. After a 503 it is busyFactor times as long as that: Ironic has too much to do, and a request that
	// follows at once adds to it. Both retries together leave time for an answer while a reader of hosts waits.
	retryDelay = 50 * time.Millisecond
	busyFactor = 4
	// maxRetryAfter bounds the Retry-After of a 503 that is waited for here, in a connection that others wait for. An
	// Ironic that asks for more time is left alone until the caller comes again. With the jitter, it is up to half as
	// long again: all who were refused are told the same.
	maxRetryAfter    = 2 * time.Second
	retryAfterJitter = 0.5
)

// connection sends requests to an Ironic.
type connection struct {
	name      string // for metrics
	auth      authenticator
	transport *transport
	timeout   time.Duration
	clock     clock.Clock
	slots     [classes]*slots
	pace      pace // of reads
	// features are what was negotiated; nil when Ironic has to be asked again.
	features atomic.Pointer[negotiated]
}

// Close closes the connections that are not in use.
func (c *connection) Close() { c.transport.CloseIdleConnections() }

// request is one request to Ironic.
type request struct {
	op     string // name of the operation, for metrics
	text   string // the same for people, with the thing's name, for errors
	class  class
	method string
	path   string // below /v1/, escaped
	// build returns the query and the body for an Ironic with these features; nil means neither.
	build func(ironic.Features) (url.Values, any, error)
	// into receives the decoded answer; nil drops it.
	into any
	// call makes the request by a function of gophercloud, instead of build and into.
	call func(context.Context, *gophercloud.ServiceClient) error
	// fence is checked before the request is sent, each time. It is not used for GET.
	fence ironic.Fence
	// secrets were sent and must not come back in an error.
	secrets []string
	// featuresOnly asks for nothing but the negotiated features.
	featuresOnly *ironic.Features
}

// isOfNodes reports whether the request reads nodes, or what Ironic has of one.
func (r *request) isOfNodes() bool { return r.class == reads && strings.HasPrefix(r.path, "nodes") }

var errEmptyID = errors.New("ironic: the name or UUID of a node is empty, or a step in a path")

// leadsToOne reports whether no part of a path is empty or a step, with which it would lead to a list, or to something else. Such an ID can
// come from a status that somebody brings along.
func leadsToOne(path string) bool {
	return !slices.ContainsFunc(strings.Split(path, "/"), func(part string) bool { return part == "" || part == "." || part == ".." })
}

// do sends a request in one of the slots, with authentication, negotiation and
// retries.
func (c *connection) do(ctx context.Context, r request) error {
	if r.class <= unclassified || r.class >= classes {
		return fmt.Errorf("%s: this is a bug of metal3-apiserver, please report it: the request has no class", r.text)
	}
	if r.featuresOnly == nil && !leadsToOne(r.path) {
		return errEmptyID
	}
	slots, namespace := c.slots[r.class.in(ctx)], ironic.TenantOf(ctx)
	if err := c.acquire(ctx, slots, namespace, r); err != nil {
		return err
	}
	defer slots.release(namespace)
	inFlight := requestsInFlight.WithLabelValues(c.name) // also if its series is removed meanwhile
	inFlight.Inc()
	defer inFlight.Dec()

	began := c.clock.Now()
	err := c.untilAnswered(ctx, r)
	if r.class.in(ctx) == reads {
		c.pace.note(began, c.clock.Now(), err)
	}
	return err
}

// untilAnswered sends a request until it is answered, or there is no sense in sending it again.
func (c *connection) untilAnswered(ctx context.Context, r request) error {
	var renewed, renegotiated bool
	retries := &wait.Backoff{Duration: retryDelay, Factor: 2, Jitter: 2, Steps: readRetries}
	for {
		sc, err := c.try(ctx, r)
		switch status := statusOf(err); {
		case err == nil:
			return nil
		case status == http.StatusUnauthorized && !renewed && c.auth.renew(ctx, sc):
			renewed = true
		case status == http.StatusNotAcceptable && !renegotiated:
			// Ironic was replaced by an older one, or is being upgraded.
			c.features.Store(nil)
			renegotiated = true
		case r.method == http.MethodGet && c.mayRetry(ctx, err, retries):
		default:
			return err
		}
	}
}

// mayRetry reports whether a GET that has failed is to be sent again now. Before, it waits.
func (c *connection) mayRetry(ctx context.Context, err error, retries *wait.Backoff) bool {
	var answer *ironic.APIError
	switch isBusy := errors.As(err, &answer) && answer.Status == http.StatusServiceUnavailable; {
	case retries.Steps == 0:
		return false
	case isBusy && answer.RetryAfter <= maxRetryAfter:
		return c.pause(ctx, max(busyFactor*retries.Step(), wait.Jitter(answer.RetryAfter, retryAfterJitter)))
	}
	return ironic.IsConnectionReset(err) && c.pause(ctx, retries.Step())
}

// acquire waits for a free slot as long as the caller does.
func (c *connection) acquire(ctx context.Context, slots *slots, namespace string, r request) error {
	start := c.clock.Now()
	if slots.acquire(ctx, namespace) == nil {
		return c.keepPace(ctx, start, slots, namespace, r)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%s: %w", r.text, context.Canceled)
	}
	err := &ironic.UnavailableError{Op: r.text, Class: ironic.ClassBusy, Err: ctx.Err(),
		Reason: fmt.Sprintf("all %d connections busy for %s", slots.size, ironic.RoundForPeople(c.clock.Since(start)))}
	requestErrors.WithLabelValues(c.name, r.op, err.Class).Inc()
	return err
}

// keepPace releases the slot again if a read whose caller came at a time may not be sent now.
func (c *connection) keepPace(ctx context.Context, came time.Time, slots *slots, namespace string, r request) error {
	if r.class.in(ctx) != reads {
		return nil
	}
	deadline, _ := ctx.Deadline()
	may, reason := c.pace.mayAsk(came, c.clock.Now(), deadline)
	if may {
		return nil
	}
	slots.release(namespace)
	return &ironic.UnavailableError{Op: r.text, Class: ironic.ClassBusy, Err: context.DeadlineExceeded,
		Reason: reason + " lately, so it is asked less often until it answers"}
}

// pause waits before a retry; false when the caller's time would be over first.
func (c *connection) pause(ctx context.Context, delay time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && deadline.Sub(c.clock.Now()) <= delay {
		return false
	}
	timer := c.clock.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}
