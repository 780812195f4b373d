// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has the types of the ironic.metal3-apiserver.io/v1alpha1 API, which shows
// administrators what Ironic has beside the hosts. The group is this server's own, so that its
// kinds can never collide with kinds of metal3.io.
//
// +k8s:openapi-gen=true
// +k8s:deepcopy-gen=package
// +k8s:openapi-model-package=io.metal3-apiserver.ironic.v1alpha1
// +groupName=ironic.metal3-apiserver.io
package v1alpha1
