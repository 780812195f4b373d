// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostDeployPolicy determines from which namespaces the hosts of its own namespace may be
// claimed.
type HostDeployPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The policy.
	// +optional
	Spec HostDeployPolicySpec `json:"spec,omitempty"`

	// The status, which is always empty.
	// +optional
	Status HostDeployPolicyStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostDeployPolicyList is a list of host deploy policies.
type HostDeployPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The host deploy policies.
	Items []HostDeployPolicy `json:"items"`
}

// HostDeployPolicySpec determines who may claim hosts.
type HostDeployPolicySpec struct {
	// The namespaces whose HostClaims may claim the hosts.
	// +optional
	HostClaimNamespaces *HostClaimNamespaces `json:"hostClaimNamespaces,omitempty"`
}

// HostClaimNamespaces selects namespaces.
type HostClaimNamespaces struct {
	// The names of the namespaces. An empty list selects none. Without a list, the name does not matter.
	// +optional
	// +listType=atomic
	Names []string `json:"names,omitzero"` // omitempty would turn an empty list into none

	// A regular expression that the name must match. It is not anchored: prod also matches
	// not-production, whereas ^prod$ matches only prod.
	// +optional
	NameMatches string `json:"nameMatches,omitempty"`

	// Labels that the namespace must have. All of them are required.
	// +optional
	// +listType=atomic
	HasLabels []NameValuePair `json:"hasLabels,omitempty"`
}

// NameValuePair is a required label.
type NameValuePair struct {
	// The name of the label.
	Name string `json:"name"`

	// The value of the label. If it is empty, any value is accepted.
	// +optional
	Value string `json:"value,omitempty"`
}

// HostDeployPolicyStatus is always empty.
type HostDeployPolicyStatus struct{}
