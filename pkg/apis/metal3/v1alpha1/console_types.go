// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// HostConsoleOptions are the query parameters of a connection to the serial console of a host (the
// console subresource, by WebSocket).
type HostConsoleOptions struct {
	metav1.TypeMeta `json:",inline"`

	// Disconnect whoever uses the console now. By default, a console that is in use is refused.
	// +optional
	Force bool `json:"force,omitempty"`

	// Share the console with all who ask for the same: everybody sees and may type. The console
	// is refused if its present user does not share it.
	// +optional
	Share bool `json:"share,omitempty"`
}
