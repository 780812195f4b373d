// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"mime"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// Custom resources cannot be patched with a strategic merge patch, because kube-apiserver does not have
// their Go types. Here, k8s.io/apiserver would accept it, and OpenAPI announce it: kubectl would then
// merge lists in one installation and replace them in another. It is refused as kube-apiserver refuses
// it for custom resources, and kubectl does what it does for these.

// patchTypes are the accepted types, in the order in which kube-apiserver names them.
var patchTypes = []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.ApplyYAMLPatchType)}

// refuseStrategicMergePatch answers strategic merge patches of this API with 415.
func refuseStrategicMergePatch(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if ok && info.IsResourceRequest && info.Verb == "patch" && info.APIGroup == v1alpha1.GroupName {
			if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && media == string(types.StrategicMergePatchType) {
				responsewriters.ErrorNegotiated(negotiation.NewUnsupportedMediaTypeError(patchTypes), Codecs, v1alpha1.SchemeGroupVersion, w, r)
				return
			}
		}
		api.ServeHTTP(w, r)
	})
}

// withoutStrategicMergePatch removes what is refused from OpenAPI, by which kubectl apply chooses its
// patches.
func withoutStrategicMergePatch(doc *spec.Swagger) (*spec.Swagger, error) {
	if doc.Paths == nil {
		return doc, nil
	}
	for path := range doc.Paths.Paths {
		if patch := doc.Paths.Paths[path].Patch; patch != nil { // the slice is also that of the route
			patch.Consumes = slices.DeleteFunc(slices.Clone(patch.Consumes), func(media string) bool { return media == string(types.StrategicMergePatchType) })
		}
	}
	return doc, nil
}

// withoutStrategicMergePatchV3 does what withoutStrategicMergePatch does, for OpenAPI v3.
func withoutStrategicMergePatchV3(doc *spec3.OpenAPI) (*spec3.OpenAPI, error) {
	if doc.Paths == nil {
		return doc, nil
	}
	for path := range doc.Paths.Paths {
		if patch := doc.Paths.Paths[path].Patch; patch != nil && patch.RequestBody != nil {
			delete(patch.RequestBody.Content, string(types.StrategicMergePatchType))
		}
	}
	return doc, nil
}
