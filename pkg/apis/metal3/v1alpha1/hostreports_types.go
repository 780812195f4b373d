// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostValidation reports which of the interfaces of a host's driver Ironic could use (GET of
// the validate subresource). Ironic checks what it was told about the host, and asks the
// image server for the image; the BMC is not asked. The answer takes at most 25 seconds.
type HostValidation struct {
	metav1.TypeMeta `json:",inline"`
	// The name and namespace of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What Ironic reports.
	// +optional
	Status HostValidationStatus `json:"status,omitempty"`
}

// HostValidationStatus is the result of a validation.
type HostValidationStatus struct {
	// The interfaces, ordered by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	Interfaces []InterfaceValidation `json:"interfaces,omitempty"`
}

// InterfaceValidation is the result for one interface of the driver.
type InterfaceValidation struct {
	// The name of the interface, for example power, management, boot or deploy.
	Name string `json:"name"`

	// Whether Ironic could use it: usable, unusable or unsupported.
	Result InterfaceResult `json:"result"`

	// Why it could not be used, in Ironic's words.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// InterfaceResult reports whether Ironic could use an interface of a driver.
// +enum
type InterfaceResult string

// The results of a validation.
const (
	// InterfaceUsable is an interface that Ironic could use.
	InterfaceUsable InterfaceResult = "usable"
	// InterfaceUnusable is an interface for which something is missing or wrong.
	InterfaceUnusable InterfaceResult = "unusable"
	// InterfaceUnsupported is an interface that the driver does not have, or that is
	// disabled.
	InterfaceUnsupported InterfaceResult = "unsupported"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostHistory is what went wrong with a host's node, and when, newest first (GET of the
// history subresource, with limit and continue as query parameters). It is Ironic's own
// record, which goes back as far as Ironic keeps it (300 events of each node by default).
// Ironic 33 and later also record what was done. The BMC is not asked.
type HostHistory struct {
	metav1.TypeMeta `json:",inline"`
	// The name and namespace of the host.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What Ironic reports.
	// +optional
	Status HostHistoryStatus `json:"status,omitempty"`
}

// HostHistoryStatus is a page of the history of a node.
type HostHistoryStatus struct {
	// The events, newest first.
	// +optional
	// +listType=map
	// +listMapKey=id
	Events []HistoryEvent `json:"events,omitempty"`

	// The value of the query parameter continue for the next page. Empty if there are no
	// older events.
	// +optional
	Continue string `json:"continue,omitempty"`
}

// HistoryEvent is something that Ironic has recorded of a node.
type HistoryEvent struct {
	// The UUID of the event.
	ID string `json:"id"`

	// When it happened, by Ironic's clock.
	Time metav1.Time `json:"time"`

	// How bad it is, in Ironic's words: ERROR or INFO.
	// +optional
	Severity string `json:"severity,omitempty"`

	// What kind of operation it belongs to, in Ironic's words, for example cleaning,
	// deploying or power.
	// +optional
	Type string `json:"type,omitempty"`

	// What happened.
	// +optional
	Message string `json:"message,omitempty"`

	// The conductor that has recorded it.
	// +optional
	Conductor string `json:"conductor,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostHistoryOptions are the query parameters of the history subresource.
type HostHistoryOptions struct {
	metav1.TypeMeta `json:",inline"`

	// The maximum number of events. The default, and the maximum, is 500.
	// +optional
	Limit int64 `json:"limit,omitempty"`

	// Where the page begins: status.continue of the page before it.
	// +optional
	Continue string `json:"continue,omitempty"`
}
