package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// BMCEventSubscription has the BMC of a host send its Redfish events to a URL. The
// spec cannot be changed: delete the subscription and create it again.
type BMCEventSubscription struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which events go where.
	// +optional
	Spec BMCEventSubscriptionSpec `json:"spec,omitempty"`

	// What became of the subscription.
	// +optional
	Status BMCEventSubscriptionStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// BMCEventSubscriptionList is a list of subscriptions.
type BMCEventSubscriptionList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The subscriptions.
	Items []BMCEventSubscription `json:"items"`
}

// BMCEventSubscriptionSpec says which events go where.
type BMCEventSubscriptionSpec struct {
	// The host whose events are wanted, in the namespace of the subscription.
	// Required.
	// +optional
	HostName string `json:"hostName,omitempty"`

	// The URL that the BMC sends the events to. It needs a path, be it only /.
	// Required.
	// +optional
	Destination string `json:"destination,omitempty"`

	// Any text, which comes back in each event.
	// +optional
	Context string `json:"context,omitempty"`

	// A Secret, in the namespace of the subscription, whose keys and values are
	// HTTP headers that the BMC sends along.
	// +optional
	HTTPHeadersRef *corev1.SecretReference `json:"httpHeadersRef,omitempty"`
}

// BMCEventSubscriptionStatus is what became of a subscription.
type BMCEventSubscriptionStatus struct {
	// The name that the BMC gave the subscription.
	// +optional
	SubscriptionID string `json:"subscriptionID,omitempty"`

	// Why there is no subscription.
	// +optional
	Error string `json:"error,omitempty"`
}
