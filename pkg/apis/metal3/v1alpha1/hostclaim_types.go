// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/selection"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostClaim requests a host, in this or another namespace, and says what to deploy on it.
// The HostDeployPolicy of a namespace determines from which namespaces its hosts may be
// claimed.
type HostClaim struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The requested host and what to deploy on it.
	// +optional
	Spec HostClaimSpec `json:"spec,omitempty"`

	// The host that was assigned to the claim.
	// +optional
	Status HostClaimStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostClaimList is a list of host claims.
type HostClaimList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The host claims.
	Items []HostClaim `json:"items"`
}

// HostClaimSpec describes the requested host and what to deploy on it.
type HostClaimSpec struct {
	// Whether the host should be powered on.
	PoweredOn bool `json:"poweredOn"`

	// The image to provision the host with. Setting it starts the provisioning.
	// +optional
	Image *Image `json:"image,omitempty"`

	// A Secret, in the namespace of the claim, with user data for the first boot, for example
	// for cloud-init.
	// +optional
	UserData *corev1.SecretReference `json:"userData,omitempty"`

	// A Secret, in the namespace of the claim, with the network configuration for
	// the first boot.
	// +optional
	NetworkData *corev1.SecretReference `json:"networkData,omitempty"`

	// A Secret, in the namespace of the claim, with metadata for the first boot.
	// +optional
	MetaData *corev1.SecretReference `json:"metaData,omitempty"`

	// A deploy procedure of a custom ramdisk, instead of an image.
	// +optional
	CustomDeploy *CustomDeploy `json:"customDeploy,omitempty"`

	// A selector for hosts. An empty selector matches all hosts.
	// +optional
	HostSelector HostSelector `json:"hostSelector,omitempty"`

	// The object that uses the host, for example a Machine of Cluster API.
	// +optional
	ConsumerRef *corev1.ObjectReference `json:"consumerRef,omitempty"`

	// The preferred failure domain. Hosts in it have this value in their label
	// infrastructure.cluster.x-k8s.io/failure-domain.
	// +optional
	FailureDomain string `json:"failureDomain,omitempty"`
}

// HostSelector selects hosts. A host must meet all of its criteria.
type HostSelector struct {
	// The labels, with their values, that a host must have.
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`

	// Requirements that the labels of a host must meet.
	// +optional
	// +listType=atomic
	MatchExpressions []HostSelectorRequirement `json:"matchExpressions,omitempty"`

	// The namespace of the host. If it is empty, hosts of all namespaces whose policies allow
	// the claim are considered.
	// +optional
	InNamespace string `json:"inNamespace,omitempty"`
}

// HostSelectorRequirement is a requirement for a label of a host.
type HostSelectorRequirement struct {
	// The name of the label.
	Key string `json:"key"`

	// How the label is compared with the values. =, == and != require exactly one value; in
	// and notin require at least one; exists and ! require none.
	Operator selection.Operator `json:"operator"`

	// The values with which the label is compared. Must be empty with the operators exists
	// and !.
	// +listType=atomic
	Values []string `json:"values"`
}

// HostClaimStatus has the host that was assigned to a claim.
type HostClaimStatus struct {
	// When the status was last written.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// The progress of the claim: Associated, Synchronized, Provisioned, Ready.
	// +optional
	// +listType=atomic
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// The host that was assigned to the claim.
	// +optional
	BareMetalHost *ObjectReference `json:"bareMetalHost,omitempty"`

	// The HardwareData of the host.
	// +optional
	HardwareData *ObjectReference `json:"hardwareData,omitempty"`

	// Whether the host is powered on.
	// +optional
	PoweredOn bool `json:"poweredOn,omitempty"`
}

// ObjectReference refers to an object that may be in another namespace.
type ObjectReference struct {
	// The namespace of the object.
	Namespace string `json:"namespace"`

	// The name of the object.
	Name string `json:"name"`
}
