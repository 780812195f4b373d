package apiserver

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// discoveryPath is where the resources of our API are listed.
var discoveryPath = genericapiserver.APIGroupPrefix + "/" + v1alpha1.SchemeGroupVersion.String()

// finishDiscovery answers requests for discoveryPath to the end, whether or not the
// client waits for it. kube-apiserver probes there whether the APIService is available,
// five times at once every 30 seconds, and resets the HTTP/2 stream as soon as it has
// the header of the answer. The generic server logs each answer that it cannot write as
// five errors. This one is small and at hand, so there is nothing to break off.
func finishDiscovery(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == discoveryPath {
			client := r.Context()
			w = responsewriter.WrapForHTTP1Or2(discoveryWriter{w, client})
			r = r.WithContext(context.WithoutCancel(client))
		}
		handler.ServeHTTP(w, r)
	})
}

// discoveryWriter drops what is written after the client has gone.
type discoveryWriter struct {
	http.ResponseWriter
	// client ends when the client has gone.
	client context.Context
}

func (w discoveryWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w discoveryWriter) Write(data []byte) (int, error) {
	n, err := w.ResponseWriter.Write(data)
	if err != nil && w.client.Err() != nil {
		return len(data), nil
	}
	return n, err
}
