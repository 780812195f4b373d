// SPDX-License-Identifier: Apache-2.0

package install

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// Install registers the external kinds, and the same Go types again as the internal version.
// k8s.io/apiserver works on internal objects, and with a single version there is nothing to
// convert. OpenAPI must be generated from a scheme that has only the external kinds
// (v1alpha1.AddToScheme); otherwise it would show clients the version "__internal".
func Install(scheme *runtime.Scheme) {
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	internal := schema.GroupVersion{Group: v1alpha1.GroupName, Version: runtime.APIVersionInternal}
	scheme.AddKnownTypes(internal, v1alpha1.KnownTypes()...)
	utilruntime.Must(scheme.SetVersionPriority(v1alpha1.SchemeGroupVersion))
}
