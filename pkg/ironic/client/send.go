// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/klog/v2"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// The codes in metrics of requests that no HTTP status tells about.
const (
	noAnswer = "error"
	answered = "200"
)

// try sends a request once, and returns the gophercloud client that it used.
func (c *connection) try(caller context.Context, r request) (*gophercloud.ServiceClient, error) {
	timeout := c.timeout
	if r.class.waitsForTenant() {
		timeout = min(timeout, tenantTimeout)
	}
	ctx, cancel := context.WithTimeout(caller, timeout)
	defer cancel()
	start := c.clock.Now()
	sc, code, err := c.send(ctx, r, start)
	if err != nil && errors.Is(caller.Err(), context.Canceled) {
		err = fmt.Errorf("%s: %w", r.text, context.Canceled)
	}
	took := c.clock.Since(start)
	requestDuration.WithLabelValues(c.name, r.op, code).Observe(took.Seconds())
	switch {
	case r.class.waitsForTenant() && (ironic.IsTimeout(err) || ironic.IsInternal(err)):
		// It is what the request waited for that has not answered, and not Ironic.
		requestErrors.WithLabelValues(c.name, r.op, classOf(err)).Inc()
	case r.isOfNodes() && ironic.MayBeOfOneNode(err):
		// Whether it is about one node is known when the others were read, or not; see readPage.
	case ironic.IsUnavailable(err):
		c.noteOutage(caller, r.op, err)
	}
	klog.FromContext(caller).V(5).Info("Ironic request", "operation", r.op, "method", r.method, "path", r.path, "code", code, "took", took, "decidedAt", r.fence.ResourceVersion)
	return sc, err
}

// noteOutage counts a request that Ironic as a whole has not served, and forgets what may be different when
// it is there again.
func (c *connection) noteOutage(ctx context.Context, op string, err error) {
	class := classOf(err)
	requestErrors.WithLabelValues(c.name, op, class).Inc()
	if class == ironic.ClassTimeout || statusOf(err) != 0 {
		return // An Ironic that is busy, or fails at something, is the same afterwards, and has no time to be asked for its version each time.
	}
	// Whatever answers next may be another release.
	c.features.Store(nil)
	if class == "tls" {
		// clouds.yaml may name certificates that have changed meanwhile.
		if err := c.transport.reload(); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot read the TLS files for Ironic again")
		}
	}
}

// send authenticates, negotiates the version, checks the fence and sends the request. code is that of the
// answer, for metrics.
func (c *connection) send(ctx context.Context, r request, start time.Time) (sc *gophercloud.ServiceClient, code string, err error) {
	sc, err = c.auth.client(ctx)
	if err != nil {
		return nil, noAnswer, authError(r.text, err, c.clock.Since(start))
	}
	features, err := c.negotiate(ctx, sc, r.text)
	if err != nil {
		return sc, codeOf(err), err
	}
	if r.featuresOnly != nil {
		*r.featuresOnly = features
		return sc, answered, nil
	}
	if r.method != http.MethodGet {
		if err := r.fence.Check(); err != nil {
			return sc, noAnswer, fmt.Errorf("%s: not requested: %w", r.text, err)
		}
	}
	versioned := *sc
	versioned.Microversion = features.APIVersion.String()
	if r.call != nil {
		if err := r.call(ctx, &versioned); err != nil {
			err = requestError(ctx, r.text, err, r.secrets, c.clock.Since(start))
			return sc, codeOf(err), err
		}
		return sc, answered, nil
	}
	code, err = c.exchange(ctx, &versioned, r, features, start)
	return sc, code, err
}

// exchange builds and sends a request, and decodes the answer.
func (c *connection) exchange(ctx context.Context, sc *gophercloud.ServiceClient, r request, features ironic.Features, start time.Time) (code string, err error) {
	var query url.Values
	var body any
	if r.build != nil {
		if query, body, err = r.build(features); err != nil {
			return noAnswer, err
		}
	}
	target := sc.ServiceURL(r.path)
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	resp, err := sc.Request(ctx, r.method, target, &gophercloud.RequestOpts{
		JSONBody: body,
		// Decoded here: gophercloud stops reading after the JSON value, and a
		// chunked answer then costs the connection.
		KeepResponseBody: true,
		OkCodes:          []int{http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent},
	})
	if err != nil {
		err = requestError(ctx, r.text, err, r.secrets, c.clock.Since(start))
		return codeOf(err), err
	}
	defer resp.Body.Close()
	c.noteOffer(resp.Header)
	var answer bytes.Buffer
	answer.Grow(int(min(max(resp.ContentLength, 0)+bytes.MinRead, maxBuffer)))
	if _, err := answer.ReadFrom(resp.Body); err != nil {
		return noAnswer, ironic.NewUnavailableError(r.text, err, c.clock.Since(start))
	}
	return strconv.Itoa(resp.StatusCode), r.decode(answer.Bytes(), resp.Header)
}

// decode puts an answer where the request wants it.
func (r *request) decode(answer []byte, header http.Header) error {
	if r.into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, r.into); err != nil {
		return &ironic.UnavailableError{Op: r.text, Class: ironic.ClassNotIronic, Reason: "the answer is not what Ironic sends: " + err.Error(), Err: err}
	}
	if words, ok := r.into.(masked); ok {
		words.MaskPasswords()
	}
	if nodes, ok := r.into.(nodesAnswer); ok {
		date, err := http.ParseTime(header.Get("Date"))
		if err != nil {
			date = time.Time{}
		}
		nodes.received(date)
	}
	return nil
}

// requestError turns an error of gophercloud into one of this package.
func requestError(ctx context.Context, op string, err error, secrets []string, waited time.Duration) error {
	var answer gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answer) {
		api := ironic.NewAPIError(ctx, op, answer.Actual, answer.Body, secrets)
		api.RetryAfter = retryAfter(answer.ResponseHeader)
		return api
	}
	return ironic.NewUnavailableError(op, err, waited)
}

// retryAfter returns for how long an answer asks the client to wait; 0 if it does not.
func retryAfter(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	answered, err := http.ParseTime(header.Get("Date")) // by the same clock
	if err != nil {
		return 0
	}
	return max(until.Sub(answered), 0)
}

// statusOf returns the HTTP status of Ironic's answer; 0 if there was none.
func statusOf(err error) int {
	if api := (*ironic.APIError)(nil); errors.As(err, &api) {
		return api.Status
	}
	return 0
}

func codeOf(err error) string {
	if status := statusOf(err); status != 0 {
		return strconv.Itoa(status)
	}
	return noAnswer
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
