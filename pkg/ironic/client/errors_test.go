// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// The bodies are those of Ironic 29.0.
func TestAnswers(t *testing.T) {
	const id = "11111111-0000-4000-8000-000000000001"
	type is struct{ notFound, conflict, locked, duplicate, badRequest, unavailable bool }
	for name, test := range map[string]struct {
		status  int
		body    string
		message string
		reason  string
		is      is
	}{
		"no such node": {
			status: 404, body: fault("Node nope could not be found."),
			message: "Node nope could not be found.", reason: "HTTP 404", is: is{notFound: true},
		},
		"unknown URL": {
			status: 404, body: frameworkError(404, "Not Found", ""),
			message: "Not Found", reason: "HTTP 404", is: is{unavailable: true},
		},
		"page of a proxy": {
			status: 404, body: "<html>not here</html>",
			reason: "HTTP 404", is: is{unavailable: true},
		},
		"Keystone's address": {
			status: 404, body: `{"error":{"code":404,"message":"The resource could not be found.","title":"Not Found"}}`,
			message: "The resource could not be found.", reason: "HTTP 404", is: is{unavailable: true},
		},
		"locked": {
			status: 409, body: fault("Node " + id + " is locked by host conductor-0, please retry after the current operation is completed."),
			message: "Node " + id + " is locked by host conductor-0, please retry after the current operation is completed.",
			reason:  "HTTP 409", is: is{conflict: true, locked: true},
		},
		"in transition": {
			status: 409, body: fault("Node d1 can not be updated while a state transition is in progress."),
			message: "Node d1 can not be updated while a state transition is in progress.",
			reason:  "HTTP 409", is: is{conflict: true, locked: true},
		},
		"update during inspection": {
			status: 409, body: fault(`Cannot update node "` + id + `" while it is in state "inspecting".`),
			message: `Cannot update node "` + id + `" while it is in state "inspecting".`,
			reason:  "HTTP 409", is: is{conflict: true, locked: true},
		},
		"name taken": {
			status: 409, body: fault("A node with name metal3~host-1 already exists."),
			message: "A node with name metal3~host-1 already exists.", reason: "HTTP 409", is: is{conflict: true, duplicate: true},
		},
		"MAC taken": {
			status: 409, body: fault("A port with MAC address 52:54:00:aa:00:01 already exists."),
			message: "A port with MAC address 52:54:00:aa:00:01 already exists.", reason: "HTTP 409", is: is{conflict: true, duplicate: true},
		},
		"wrong state": {
			status: 400, body: fault(`The requested action "active" can not be performed on node "` + id + `" while it is in state "enroll".`),
			message: `The requested action "active" can not be performed on node "` + id + `" while it is in state "enroll".`,
			reason:  "HTTP 400", is: is{badRequest: true},
		},
		"inner object not encoded": {
			status: 400, body: `{"error_message": {"faultcode": "Client", "faultstring": "Bad.", "debuginfo": null}}`,
			message: "Bad.", reason: "HTTP 400", is: is{badRequest: true},
		},
		"inner text plain": {
			status: 400, body: `{"error_message": "Just words"}`,
			message: "Just words", reason: "HTTP 400", is: is{badRequest: true},
		},
		"no credentials": {
			status: 401, body: `{"error":{"message":"Incorrect username or password","code":401}}`,
			message: "Incorrect username or password", reason: "credentials refused (HTTP 401)", is: is{unavailable: true},
		},
		"protected": {
			status: 403, body: fault("Node " + id + " is protected and cannot be undeployed, rebuilt or deleted"),
			message: "Node " + id + " is protected and cannot be undeployed, rebuilt or deleted", reason: "Node " + id + " is protected",
		},
		"no rights": {
			status: 403, body: fault("Access was denied to the following resource: baremetal:node:get"),
			message: "Access was denied to the following resource: baremetal:node:get", reason: "not permitted by Ironic's policy (HTTP 403)", is: is{unavailable: true},
		},
		"internal error": {
			status: 500, body: fault("Unable to establish connection to http://127.0.0.1:8089"),
			message: "Unable to establish connection to http://127.0.0.1:8089", reason: "HTTP 500", is: is{unavailable: true},
		},
		"bad gateway": {
			status: 502, body: "<html>bad gateway</html>", reason: "HTTP 502", is: is{unavailable: true},
		},
		"no worker": {
			status: 503, body: fault("Requested action cannot be performed due to lack of free conductor workers."),
			message: "Requested action cannot be performed due to lack of free conductor workers.", reason: "HTTP 503", is: is{unavailable: true},
		},
		"no conductor": {
			status: 404, body: fault(`No valid host was found. Reason: No conductor service registered which supports driver ipmi for conductor group "".`),
			message: `No valid host was found. Reason: No conductor service registered which supports driver ipmi for conductor group "".`, reason: "HTTP 404", is: is{unavailable: true},
		},
		"moved": {status: 301, reason: "HTTP 301", is: is{unavailable: true}},
		"not JSON at all": {
			status: 200, body: "<html>log in</html>", reason: "the answer is not what Ironic sends", is: is{unavailable: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, newestMinor, answer(test.status, test.body))
			_, err := f.client().GetNode(t.Context(), "nope")
			if err == nil {
				t.Fatal("no error")
			}
			// Callers wrap.
			wrapped := fmt.Errorf("host default/a: %w", err)
			got := is{ironic.IsNotFound(wrapped), ironic.IsConflict(wrapped), ironic.IsLocked(wrapped), ironic.IsDuplicate(wrapped), ironic.IsBadRequest(wrapped), ironic.IsUnavailable(wrapped)}
			if got != test.is {
				t.Errorf("%v: is %+v, want %+v", err, got, test.is)
			}
			if !strings.HasPrefix(ironic.ReasonOf(wrapped), test.reason) {
				t.Errorf("reason %q, want %q", ironic.ReasonOf(wrapped), test.reason)
			}
			var api *ironic.APIError
			if test.message != "" && (!errors.As(wrapped, &api) || api.Message != test.message || api.Status != test.status) {
				t.Errorf("got %#v, want status %d and message %q", api, test.status, test.message)
			}
			if !strings.HasPrefix(err.Error(), "get node nope: ") {
				t.Errorf("the error does not say what was tried: %v", err)
			}
		})
	}
	if got := (&ironic.APIError{Status: 404}); !ironic.IsNotFound(got) || ironic.IsUnavailable(got) {
		t.Error("an APIError made elsewhere must be what its status says")
	}
	for _, ok := range []bool{ironic.IsNotFound(nil), ironic.IsUnavailable(nil), ironic.IsLocked(nil), ironic.ReasonOf(nil) != ""} {
		if ok {
			t.Error("nil is no error")
		}
	}
}

func TestNoAnswer(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	hangs := make(chan struct{})
	hung := newFake(t, newestMinor, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hangs:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(hangs) })
	plain := newFake(t, newestMinor, answer(200, "{}"))
	tlsServer := httptest.NewTLSServer(plain.Config.Handler)
	t.Cleanup(tlsServer.Close)
	mutual := httptest.NewUnstartedServer(plain.Config.Handler)
	// With TLS 1.3, the client may have sent its request when it is refused, and then the alert can be lost.
	mutual.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12}
	mutual.StartTLS()
	t.Cleanup(mutual.Close)

	for name, test := range map[string]struct {
		config Config
		limit  time.Duration
		want   string
	}{
		"nobody listens":       {Config{Endpoint: closed.URL}, time.Minute, "connection refused"},
		"hangs, caller's time": {Config{Endpoint: hung.URL}, 100 * time.Millisecond, "no answer within "},
		"hangs, own time-out":  {Config{Endpoint: hung.URL, Timeout: 100 * time.Millisecond}, time.Minute, "no answer within 1"},
		"unknown authority":    {Config{Endpoint: tlsServer.URL}, time.Minute, "certificate not accepted: x509: certificate signed by unknown authority"},
		"no certificate":       {Config{Endpoint: mutual.URL, Insecure: true}, time.Minute, "TLS: remote error: tls: "}, // the files are read again after it
		"plain text for TLS":   {Config{Endpoint: strings.Replace(plain.URL, "http:", "https:", 1)}, time.Minute, "http: server gave HTTP response to HTTPS client"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, test.config)
			_, err := c.GetNode(within(t, test.limit), "a")
			if !ironic.IsUnavailable(err) {
				t.Fatalf("got %v, want unavailable", err)
			}
			if reason := ironic.ReasonOf(err); !strings.HasPrefix(reason, test.want) {
				t.Errorf("reason %q, want %q", reason, test.want)
			}
		})
	}
}

func TestReasonOfDNS(t *testing.T) {
	err := ironic.NewUnavailableError("list nodes", &net.DNSError{Err: "no such host", Name: "ironic.example", IsNotFound: true}, 0)
	if got, want := ironic.ReasonOf(err), `host name "ironic.example" cannot be resolved`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCancelledByCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := newFake(t, newestMinor, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	_, err := f.client().GetNode(ctx, "a")
	if !errors.Is(err, context.Canceled) || ironic.IsUnavailable(err) {
		t.Errorf("got %v, want a cancellation, which is no failure of Ironic", err)
	}
}

// Ironic repeats a patch that it cannot apply in its error, with the password.
func TestSecretsStaySecret(t *testing.T) {
	const password = `it's a\s3cret`
	echo := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		if r.Method == http.MethodPatch {
			fmt.Fprint(w, fault(`Couldn't apply patch '{'op': 'replace', 'path': '/driver_info/redfish_password', 'value': "it's a\\s3cret"}'. Reason: can't replace a non-existent object 'redfish_password'`))
			return
		}
		fmt.Fprint(w, fault("Schema error for node: "+password+" is not of type 'object'"))
	}
	c := newFake(t, newestMinor, echo).client()
	_, patchErr := c.UpdateNode(t.Context(), ironic.NoFence, "a", []ironic.Patch{{Op: ironic.PatchAdd, Path: "/driver_info/redfish_password", Value: password}})
	_, wholeErr := c.UpdateNode(t.Context(), ironic.NoFence, "a", []ironic.Patch{{Op: ironic.PatchAdd, Path: "/driver_info", Value: map[string]any{"redfish_password": password}}})
	_, createErr := c.CreateNode(t.Context(), ironic.NoFence, ironic.NodeCreate{Name: "a", DriverInfo: map[string]any{"ipmi_password": password}})
	for _, err := range []error{patchErr, wholeErr, createErr} {
		if !ironic.IsBadRequest(err) || strings.Contains(fmt.Sprintf("%v %#v", err, err), "s3cret") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
	if want := "update node a: Couldn't apply patch. Reason: can't replace a non-existent object 'redfish_password' (HTTP 400)"; patchErr.Error() != want {
		t.Errorf("got %q, want %q", patchErr, want)
	}
}

// Decisions hang on what Ironic said, not on what is left of it.
func TestStruckWordsAreStillUnderstood(t *testing.T) {
	body := `{"error_message": "{\"faultstring\": \"Node x is locked by host y, please retry\"}"}`
	if err := ironic.NewAPIError(t.Context(), "update", 409, []byte(body), []string{"host"}); !ironic.IsLocked(err) || strings.Contains(err.Error(), "host") {
		t.Errorf("%v, locked: %t", err, ironic.IsLocked(err))
	}
}

// TestIsNotCarriedOut: only what Ironic itself has refused, or what was never sent, is certain not to be carried out.
func TestIsNotCarriedOut(t *testing.T) {
	unavailable := func(err error) error { return ironic.NewUnavailableError("test", err, time.Second) }
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"carried out":          {nil, false},
		"locked":               {ironic.NewAPIError(t.Context(), "test", 409, []byte(fault("Node a is locked by host b")), nil), true},
		"wrong state":          {ironic.NewAPIError(t.Context(), "test", 400, []byte(fault("not valid")), nil), true},
		"no rights":            {ironic.NewAPIError(t.Context(), "test", 403, []byte(fault("Access was denied")), nil), true},
		"no free worker":       {ironic.NewAPIError(t.Context(), "test", 503, []byte(fault("Requested action cannot be performed due to lack of free conductor workers.")), nil), true},
		"an internal error":    {ironic.NewAPIError(t.Context(), "test", 500, []byte(fault("Unexpected error raised by RPC")), nil), false},
		"a balancer's 503":     {ironic.NewAPIError(t.Context(), "test", 503, []byte("<html>no server</html>"), nil), false},
		"a balancer's 504":     {ironic.NewAPIError(t.Context(), "test", 504, []byte("<html>timeout</html>"), nil), false},
		"a proxy's 404":        {ironic.NewAPIError(t.Context(), "test", 404, []byte("<html>not here</html>"), nil), false},
		"no connection":        {unavailable(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), true},
		"no such host":         {unavailable(&net.DNSError{Name: "ironic"}), true},
		"closed before answer": {unavailable(io.EOF), false},
		"no answer":            {unavailable(context.DeadlineExceeded), false},
		"cancelled":            {context.Canceled, false},
		"not sent in time":     {fmt.Errorf("wrapped: %w", ironic.ErrLookedTooLongAgo), true},
		"not sent by a leader": {ironic.ErrNotLeading, true},
	} {
		if got := ironic.IsNotCarriedOut(test.err); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
