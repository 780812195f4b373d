// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic/client"
)

// ironicRequest is a request that somebody made to Ironic.
type ironicRequest struct{ method, uri, version string }

// ironicProxy notes the requests that it passes on to Ironic.
type ironicProxy struct {
	*httptest.Server
	mu       sync.Mutex
	requests []ironicRequest
}

// newIronicProxy starts a proxy. End it with Close.
func newIronicProxy(endpoint string) (*ironicProxy, error) {
	target, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	p := &ironicProxy{}
	ironic := httputil.NewSingleHostReverseProxy(target)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.requests = append(p.requests, ironicRequest{r.Method, r.URL.RequestURI(), r.Header.Get("X-OpenStack-Ironic-API-Version")})
		p.mu.Unlock()
		ironic.ServeHTTP(w, r)
	}))
	return p, nil
}

// noted are the requests so far.
func (p *ironicProxy) noted() []ironicRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// recordRequests notes the requests for nodes that call makes, so that the same
// ones can be made past all our code.
func recordRequests(endpoint string, call func(*client.Client) error) ([]ironicRequest, error) {
	proxy, err := newIronicProxy(endpoint)
	if err != nil {
		return nil, err
	}
	defer proxy.Close()
	c, err := client.New(client.Config{Endpoint: proxy.URL})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := call(c); err != nil {
		return nil, err
	}
	requests := slices.DeleteFunc(proxy.noted(), func(r ironicRequest) bool { return !strings.HasPrefix(r.uri, "/v1/nodes") })
	if len(requests) == 0 {
		return nil, errors.New("no request for nodes was made")
	}
	return requests, nil
}

// ask makes requests to Ironic and reads the answers.
func (b *bed) ask(ctx context.Context, requests []ironicRequest) error {
	for _, r := range requests {
		if err := r.make(ctx, b.raw, b.endpoint); err != nil {
			return err
		}
	}
	return nil
}

// make makes the request to the Ironic at endpoint, and reads the answer.
func (r ironicRequest) make(ctx context.Context, through *http.Client, endpoint string) error {
	request, err := http.NewRequestWithContext(ctx, r.method, endpoint+r.uri, nil)
	if err != nil {
		return err
	}
	request.Header.Set("X-OpenStack-Ironic-API-Version", r.version)
	_, err = readAll(through, request, io.Discard)
	return err
}

// askNode is the raw request for node i.
func (b *bed) askNode(ctx context.Context, i int) error {
	r := b.getNode[0]
	r.uri = strings.Replace(r.uri, b.nodes[0], b.nodes[i], 1)
	return b.ask(ctx, []ironicRequest{r})
}

// askAll is the raw short list of all nodes.
func (b *bed) askAll(ctx context.Context) error { return b.ask(ctx, b.listNodes) }
