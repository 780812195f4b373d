// Package client is the only package that talks to OpenStack Ironic. It wraps gophercloud
// with what the bare metal service needs and gophercloud does not do: field lists,
// correct paging, bounded connections, readable errors and request metrics.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/klog/v2"

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
	retryDelay  = 50 * time.Millisecond
	// relayedConnections bounds the requests under way that Ironic answers only when it has
	// asked a BMC or an image server.
	relayedConnections = 8
)

// Client asks Ironic. It is safe for concurrent use.
type Client struct {
	auth      authenticator
	transport *transport
	timeout   time.Duration
	// A slot is held for each request under way. Reads and writes have their
	// own, so that slow writes do not hold up reads, and so have requests that
	// Ironic answers only when it has asked somebody else, who may not answer.
	reads, writes, relayed chan struct{}
	// version is what was negotiated; nil when Ironic has to be asked again.
	version atomic.Pointer[Version]
}

// New makes a client. It reads the files of the configuration, but does not use
// the network: Ironic may be away when this process starts.
func New(cfg Config) (*Client, error) {
	if errs := cfg.Validate(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	registerMetrics()
	cfg = cfg.withDefaults()
	t, err := newTransport(cfg)
	if err != nil {
		return nil, err
	}
	auth, err := newAuthenticator(cfg, t)
	if err != nil {
		return nil, err
	}
	return &Client{
		auth:      auth,
		transport: t,
		timeout:   cfg.Timeout,
		reads:     make(chan struct{}, cfg.ReadConnections),
		writes:    make(chan struct{}, cfg.WriteConnections),
		relayed:   make(chan struct{}, relayedConnections),
	}, nil
}

// Close closes the connections that are not in use.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// request is one request to Ironic.
type request struct {
	op     string // name of the operation, for metrics
	text   string // the same for people, with the thing's name, for errors
	method string
	path   string // below /v1/, escaped
	// build returns the query and the body in the given version; nil means neither.
	build func(Version) (url.Values, any, error)
	// into receives the decoded answer; nil drops it.
	into any
	// call makes the request by a function of gophercloud, instead of build and into.
	call func(context.Context, *gophercloud.ServiceClient) error
	// relayed is set if Ironic asks a BMC or an image server before it answers.
	relayed bool
	// secrets were sent and must not come back in an error.
	secrets []string
	// versionOnly asks for nothing but the negotiated version.
	versionOnly *Version
}

// do sends a request in one of the slots, with authentication, negotiation and
// retries.
func (c *Client) do(ctx context.Context, r request) error {
	slots := c.writes
	switch {
	case r.relayed:
		slots = c.relayed
	case r.method == http.MethodGet:
		slots = c.reads
	}
	if err := acquire(ctx, slots, r); err != nil {
		return err
	}
	defer func() { <-slots }()
	requestsInFlight.Inc()
	defer requestsInFlight.Dec()

	var renewed, renegotiated bool
	for attempt := 0; ; {
		sc, err := c.try(ctx, r)
		if err == nil {
			return nil
		}
		var api *ironic.APIError
		status := 0
		if errors.As(err, &api) {
			status = api.Status
		}
		switch {
		case status == http.StatusUnauthorized && !renewed && c.auth.renew(ctx, sc):
			renewed = true
		case status == http.StatusNotAcceptable && !renegotiated:
			// Ironic was replaced by an older one, or is being upgraded.
			c.version.Store(nil)
			renegotiated = true
		case r.method == http.MethodGet && attempt < readRetries && (ironic.IsConnectionReset(err) || status == http.StatusServiceUnavailable):
			attempt++
			if !pause(ctx, time.Duration(attempt)*(retryDelay+rand.N(2*retryDelay))) {
				return err
			}
		default:
			return err
		}
	}
}

// try sends a request once, and returns the gophercloud client that it used.
func (c *Client) try(caller context.Context, r request) (sc *gophercloud.ServiceClient, err error) {
	ctx, cancel := context.WithTimeout(caller, c.timeout)
	defer cancel()
	start := time.Now()
	code := "error"
	defer func() {
		if err != nil && errors.Is(caller.Err(), context.Canceled) {
			err = fmt.Errorf("%s: %w", r.text, context.Canceled)
		}
		took := time.Since(start)
		requestDuration.WithLabelValues(r.op, code).Observe(took.Seconds())
		if ironic.IsUnavailable(err) {
			requestErrors.WithLabelValues(r.op, classOf(err)).Inc()
			// Whatever answers next may be another release.
			c.version.Store(nil)
			if classOf(err) == "tls" {
				// clouds.yaml may name certificates that have changed meanwhile.
				if err := c.transport.reload(); err != nil {
					klog.FromContext(caller).Error(err, "Cannot read the TLS files for Ironic again")
				}
			}
		}
		klog.FromContext(caller).V(5).Info("Ironic request", "operation", r.op, "method", r.method, "path", r.path, "code", code, "took", took)
	}()

	sc, err = c.auth.client(ctx)
	if err != nil {
		return nil, authError(r.text, err, time.Since(start))
	}
	version, err := c.negotiated(ctx, sc, r.text)
	if err != nil {
		code = codeOf(err)
		return sc, err
	}
	if r.versionOnly != nil {
		*r.versionOnly, code = version, "200"
		return sc, nil
	}
	if r.method != http.MethodGet {
		if err = ironic.CheckPrecondition(ctx); err != nil {
			return sc, fmt.Errorf("%s: not requested: %w", r.text, err)
		}
	}
	versioned := *sc
	versioned.Microversion = version.String()
	if r.call != nil {
		if err = r.call(ctx, &versioned); err != nil {
			err = requestError(r.text, err, r.secrets, time.Since(start))
			code = codeOf(err)
			return sc, err
		}
		code = "200"
		return sc, nil
	}
	var query url.Values
	var body any
	if r.build != nil {
		if query, body, err = r.build(version); err != nil {
			return sc, err
		}
	}
	target := sc.ServiceURL(r.path)
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	resp, err := versioned.Request(ctx, r.method, target, &gophercloud.RequestOpts{
		JSONBody: body,
		// Decoded here: gophercloud stops reading after the JSON value, and a
		// chunked answer then costs the connection.
		KeepResponseBody: true,
		OkCodes:          []int{http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent},
	})
	if err != nil {
		err = requestError(r.text, err, r.secrets, time.Since(start))
		code = codeOf(err)
		return sc, err
	}
	defer resp.Body.Close()
	code = strconv.Itoa(resp.StatusCode)
	var answer bytes.Buffer
	answer.Grow(int(min(max(resp.ContentLength, 0)+bytes.MinRead, maxBuffer)))
	if _, err = answer.ReadFrom(resp.Body); err != nil {
		code = "error"
		return sc, ironic.NewUnavailableError(r.text, err, time.Since(start))
	}
	if r.into == nil {
		return sc, nil
	}
	if err = json.Unmarshal(answer.Bytes(), r.into); err != nil {
		return sc, &ironic.UnavailableError{Op: r.text, Class: ironic.ClassNotIronic, Reason: "the answer is not what Ironic sends: " + err.Error(), Err: err}
	}
	if words, ok := r.into.(masked); ok {
		words.MaskPasswords()
	}
	if answer, ok := r.into.(nodesAnswer); ok {
		date, err := http.ParseTime(resp.Header.Get("Date"))
		if err != nil {
			date = time.Time{}
		}
		answer.received(date)
	}
	return sc, nil
}

// acquire waits for a free slot as long as the caller does.
func acquire(ctx context.Context, slots chan struct{}, r request) error {
	select {
	case slots <- struct{}{}:
		return nil
	default:
	}
	start := time.Now()
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) {
			return fmt.Errorf("%s: %w", r.text, context.Canceled)
		}
		err := &ironic.UnavailableError{Op: r.text, Class: ironic.ClassBusy, Err: ctx.Err(),
			Reason: fmt.Sprintf("all %d connections busy for %s", cap(slots), ironic.RoundForPeople(time.Since(start)))}
		requestErrors.WithLabelValues(r.op, err.Class).Inc()
		return err
	}
}

// pause waits before a retry; false when the caller's time would be over first.
func pause(ctx context.Context, delay time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= delay {
		return false
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// requestError turns an error of gophercloud into one of this package.
func requestError(op string, err error, secrets []string, waited time.Duration) error {
	var answer gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answer) {
		return ironic.NewAPIError(op, answer.Actual, answer.Body, secrets)
	}
	return ironic.NewUnavailableError(op, err, waited)
}

func codeOf(err error) string {
	var api *ironic.APIError
	if errors.As(err, &api) {
		return strconv.Itoa(api.Status)
	}
	return "error"
}

func classOf(err error) string {
	var unavailable *ironic.UnavailableError
	if errors.As(err, &unavailable) {
		return unavailable.Class
	}
	return "http_" + codeOf(err)
}

// nodesAnswer is an answer with nodes.
type nodesAnswer interface {
	// received says what Ironic's clock said when it answered; zero if that is not known.
	received(date time.Time)
}

// masked is an answer with texts of Ironic's that may quote a password.
type masked interface{ MaskPasswords() }
