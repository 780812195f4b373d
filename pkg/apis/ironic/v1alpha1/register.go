// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of every kind in this package.
const GroupName = "ironic.metal3-apiserver.io"

// SchemeGroupVersion is the group and version of every kind in this package.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// Resource returns the group-qualified form of a resource of this group.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

// AddToScheme registers the external kinds.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &Candidate{}, &CandidateList{}, &IronicInstance{}, &IronicInstanceList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}

// Install registers the external kinds, and the same Go types again as the internal version, as
// the install package of metal3.io does.
func Install(scheme *runtime.Scheme) error {
	if err := AddToScheme(scheme); err != nil {
		return err
	}
	internal := schema.GroupVersion{Group: GroupName, Version: runtime.APIVersionInternal}
	scheme.AddKnownTypes(internal, &Candidate{}, &CandidateList{}, &IronicInstance{}, &IronicInstanceList{})
	return scheme.SetVersionPriority(SchemeGroupVersion)
}
