// Package v1alpha1 has the types of the metal3.io/v1alpha1 API: hosts, requests for actions
// on them, and the other kinds of the group.
//
// +k8s:openapi-gen=true
// +k8s:deepcopy-gen=package
// +k8s:defaulter-gen=TypeMeta
// +k8s:openapi-model-package=io.metal3.v1alpha1
// +groupName=metal3.io
package v1alpha1
