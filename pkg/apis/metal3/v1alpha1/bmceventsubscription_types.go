// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// BMCEventSubscription makes the BMC of a host send its Redfish events to a URL. The spec
// cannot be changed: delete the subscription and create it again.
type BMCEventSubscription struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired subscription.
	// +optional
	Spec BMCEventSubscriptionSpec `json:"spec,omitempty"`

	// The observed state of the subscription.
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

// BMCEventSubscriptionSpec says which host sends its events where.
type BMCEventSubscriptionSpec struct {
	// The name of the host whose BMC sends the events, in the namespace of the subscription.
	// Required.
	// +optional
	HostName string `json:"hostName,omitempty"`

	// The URL to which the BMC sends the events. It must have a path, which can be /.
	// Required.
	// +optional
	Destination string `json:"destination,omitempty"`

	// Any text. The BMC includes it in each event.
	// +optional
	Context string `json:"context,omitempty"`

	// A Secret, in the namespace of the subscription, whose keys and values are HTTP headers
	// that the BMC sends with each event.
	// +optional
	HTTPHeadersRef *corev1.SecretReference `json:"httpHeadersRef,omitempty"`
}

// BMCEventSubscriptionStatus is the observed state of a subscription.
type BMCEventSubscriptionStatus struct {
	// The identifier that the BMC assigned to the subscription.
	// +optional
	SubscriptionID string `json:"subscriptionID,omitempty"`

	// Why the subscription could not be created.
	// +optional
	Error string `json:"error,omitempty"`
}
