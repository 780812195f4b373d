package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/selection"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostClaim asks for a host, of this or another namespace, and says what to make
// of it. Which namespaces may claim the hosts of a namespace is in that one's
// HostDeployPolicy.
type HostClaim struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which host is wanted, and what of it.
	// +optional
	Spec HostClaimSpec `json:"spec,omitempty"`

	// Which host it is.
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

// HostClaimSpec says which host is wanted, and what of it.
type HostClaimSpec struct {
	// Whether the host has to be powered on.
	PoweredOn bool `json:"poweredOn"`

	// The image to provision the host with. Setting it starts the provisioning.
	// +optional
	Image *Image `json:"image,omitempty"`

	// A Secret, in the namespace of the claim, with user data for the first boot,
	// for instance of cloud-init.
	// +optional
	UserData *corev1.SecretReference `json:"userData,omitempty"`

	// A Secret, in the namespace of the claim, with the network configuration for
	// the first boot.
	// +optional
	NetworkData *corev1.SecretReference `json:"networkData,omitempty"`

	// A Secret, in the namespace of the claim, with metadata for the first boot.
	// +optional
	MetaData *corev1.SecretReference `json:"metaData,omitempty"`

	// A deploy procedure of a custom ramdisk, in place of an image.
	// +optional
	CustomDeploy *CustomDeploy `json:"customDeploy,omitempty"`

	// Which hosts come into question. Empty takes any.
	// +optional
	HostSelector HostSelector `json:"hostSelector,omitempty"`

	// What uses the host, for instance a Machine of Cluster API.
	// +optional
	ConsumerRef *corev1.ObjectReference `json:"consumerRef,omitempty"`

	// The failure domain that is preferred: hosts whose label
	// infrastructure.cluster.x-k8s.io/failure-domain has this value.
	// +optional
	FailureDomain string `json:"failureDomain,omitempty"`
}

// HostSelector chooses hosts. All that is given must match.
type HostSelector struct {
	// Labels that a host must have, with these values.
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`

	// What the labels of a host must be like.
	// +optional
	// +listType=atomic
	MatchExpressions []HostSelectorRequirement `json:"matchExpressions,omitempty"`

	// The namespace of the host. Empty looks in all namespaces whose policies allow
	// the claim.
	// +optional
	InNamespace string `json:"inNamespace,omitempty"`
}

// HostSelectorRequirement is what a label of a host must be like.
type HostSelectorRequirement struct {
	// The name of the label.
	Key string `json:"key"`

	// How the label is compared with the values: =, == or != with the only one; in
	// or notin the list of them; exists or ! without any.
	Operator selection.Operator `json:"operator"`

	// The values. An empty list with the operators exists and !.
	// +listType=atomic
	Values []string `json:"values"`
}

// HostClaimStatus says which host it is.
type HostClaimStatus struct {
	// When the status was last written.
	// +optional
	LastUpdated *metav1.Time `json:"lastUpdated,omitempty"`

	// How far the claim is: Associated, Synchronized, Provisioned, Ready.
	// +optional
	// +listType=atomic
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// The host.
	// +optional
	BareMetalHost *ObjectReference `json:"bareMetalHost,omitempty"`

	// The HardwareData of the host.
	// +optional
	HardwareData *ObjectReference `json:"hardwareData,omitempty"`

	// Whether the host is powered on.
	// +optional
	PoweredOn bool `json:"poweredOn,omitempty"`
}

// ObjectReference names an object of another namespace.
type ObjectReference struct {
	// The namespace of the object.
	Namespace string `json:"namespace"`

	// The name of the object.
	Name string `json:"name"`
}
