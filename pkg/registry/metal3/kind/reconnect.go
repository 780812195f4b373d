package apiserver

import (
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// reconnectAfterUnavailable closes the connection after a 503, so that what the client repeats can reach another replica, such as
// the later version during an upgrade. kube-apiserver sends all requests through one connection, which would lead to the same replica
// each time. Over HTTP/2, Go's server turns the header into a GOAWAY: requests that are under way, and watches, go on.
func reconnectAfterUnavailable(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(responsewriter.WrapForHTTP1Or2(unavailableWriter{w}), r)
	})
}

type unavailableWriter struct{ http.ResponseWriter }

func (w unavailableWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w unavailableWriter) WriteHeader(status int) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(status)
}
