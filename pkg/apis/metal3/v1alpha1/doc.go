// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has the types of the metal3.io/v1alpha1 API: hosts, requests for actions
// on them, and the other kinds of the group. Names that nothing here uses, such as those of disk sizes, are there
// for programs that were written for the package of this name of the Bare Metal Operator.
//
// +k8s:openapi-gen=true
// +k8s:deepcopy-gen=package
// +k8s:defaulter-gen=TypeMeta
// +k8s:openapi-model-package=io.metal3.v1alpha1
// +groupName=metal3.io
package v1alpha1
