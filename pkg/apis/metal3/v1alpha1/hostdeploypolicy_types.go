package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostDeployPolicy says from which namespaces the hosts of its own namespace may
// be claimed.
type HostDeployPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The policy.
	// +optional
	Spec HostDeployPolicySpec `json:"spec,omitempty"`

	// There is nothing in it.
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

// HostDeployPolicySpec says who may claim hosts.
type HostDeployPolicySpec struct {
	// The namespaces whose HostClaims may have the hosts.
	// +optional
	HostClaimNamespaces *HostClaimNamespaces `json:"hostClaimNamespaces,omitempty"`
}

// HostClaimNamespaces chooses namespaces.
type HostClaimNamespaces struct {
	// The names of the namespaces.
	// +optional
	// +listType=atomic
	Names []string `json:"names,omitempty"`

	// A regular expression that the name must match. It is not anchored: prod also
	// matches not-production; ^prod$ matches nothing else.
	// +optional
	NameMatches string `json:"nameMatches,omitempty"`

	// Labels that the namespace must have, all of them.
	// +optional
	// +listType=atomic
	HasLabels []NameValuePair `json:"hasLabels,omitempty"`
}

// NameValuePair is a label that is wanted.
type NameValuePair struct {
	// The name of the label.
	Name string `json:"name"`

	// The value of the label. Empty takes any.
	// +optional
	Value string `json:"value,omitempty"`
}

// HostDeployPolicyStatus has nothing in it.
type HostDeployPolicyStatus struct{}
