package apiserver

import (
	"mime"
	"net/http"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// withPatchesOfCRDs refuses strategic merge patches as CustomResourceDefinitions do. k8s.io/apiserver
// accepts them for all Go types, and then merges lists in other ways than clients of the CRDs expect.
func withPatchesOfCRDs(api http.Handler) http.Handler {
	accepted := []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.ApplyYAMLPatchType)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if ok && info.IsResourceRequest && info.Verb == "patch" {
			if given, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && given == string(types.StrategicMergePatchType) {
				responsewriters.ErrorNegotiated(negotiation.NewUnsupportedMediaTypeError(accepted), Codecs, v1alpha1.SchemeGroupVersion, w, r)
				return
			}
		}
		api.ServeHTTP(w, r)
	})
}
