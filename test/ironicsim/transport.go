// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
)

// Transport carries requests to the Sim within the process, without a connection,
// so that a client of Ironic can be tested in a bubble of testing/synctest, where
// nothing may wait for a socket. What counts as waiting there is a request that
// the Sim holds up: the bubble's time passes.
//
// A client that goes away gets its answer at once, and the request is worked off
// nevertheless, as Ironic does.
func (s *Sim) Transport() http.RoundTripper { return inProcess{s} }

type inProcess struct{ s *Sim }

// RoundTrip implements http.RoundTripper.
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	// The body is the client's, which may take it back when it has its answer.
	var sent []byte
	if r.Body != nil {
		var err error
		sent, err = io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	if err := context.Cause(t.s.ctx); err != nil {
		return nil, errors.New("ironicsim: closed: connection refused")
	}
	received := r.Clone(r.Context())
	received.Host, received.RequestURI = r.URL.Host, r.URL.RequestURI()
	received.Body = io.NopCloser(bytes.NewReader(sent))
	answered := make(chan *http.Response, 1)
	t.s.spawn(func() {
		w := &recorder{header: http.Header{}}
		defer func() {
			p := recover()
			if err, _ := p.(error); errors.Is(err, http.ErrAbortHandler) {
				answered <- nil
			} else if p != nil {
				panic(p)
			}
		}()
		t.s.serveHTTP(w, received)
		answered <- w.response(r)
	})
	select {
	case response := <-answered:
		if response == nil {
			return nil, io.ErrUnexpectedEOF // the connection was closed
		}
		return response, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// recorder is an http.ResponseWriter that keeps the answer.
type recorder struct {
	header http.Header
	sent   http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status, w.sent = status, w.header.Clone()
	}
}

func (w *recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

func (w *recorder) response(r *http.Request) *http.Response {
	w.WriteHeader(http.StatusOK)
	return &http.Response{
		Status: strconv.Itoa(w.status) + " " + http.StatusText(w.status), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.sent, Request: r,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()),
	}
}
