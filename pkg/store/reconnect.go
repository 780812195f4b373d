// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"net/http"
)

type reconnectKey struct{}

// WithReconnect closes the connection of a client after the answer to a request for which reconnect was called.
func WithReconnect(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), reconnectKey{}, w.Header())))
	})
}

// reconnect has the client open another connection, so that what it repeats can reach another replica: kube-apiserver sends all
// requests through one connection, which would lead to the same replica each time. It is called before the answer is written. Over
// HTTP/2, Go's server turns the header into a GOAWAY: requests that are under way, and watches, go on. A write that is just being sent
// meanwhile fails in kube-apiserver without having reached this server, so this is not for what happens often.
func reconnect(ctx context.Context) {
	if header, ok := ctx.Value(reconnectKey{}).(http.Header); ok {
		header.Set("Connection", "close")
	}
}
