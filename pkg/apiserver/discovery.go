// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	genericapiserver "k8s.io/apiserver/pkg/server"

	ironicv1alpha1 "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// discoveryPaths are the discovery endpoints of the API groups.
var discoveryPaths = []string{
	genericapiserver.APIGroupPrefix + "/" + v1alpha1.SchemeGroupVersion.String(),
	genericapiserver.APIGroupPrefix + "/" + ironicv1alpha1.SchemeGroupVersion.String(),
}

// finishDiscovery completes requests for discoveryPaths whether or not the client waits for the
// whole answer. kube-apiserver uses these paths to check whether the APIServices are available: every
// 30 seconds, it sends five requests at once and resets each HTTP/2 stream as soon as it has the
// header of the answer. The generic server logs five errors for each answer that it cannot write.
// The answer is small and available in memory, so nothing is gained by cancelling the request.
func finishDiscovery(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(discoveryPaths, r.URL.Path) {
			client := r.Context()
			w = responsewriter.WrapForHTTP1Or2(discoveryWriter{w, client})
			r = r.WithContext(context.WithoutCancel(client))
		}
		handler.ServeHTTP(w, r)
	})
}

// discoveryWriter discards what is written after the client has gone.
type discoveryWriter struct {
	http.ResponseWriter
	// client is the context of the request, which ends when the client has gone.
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
