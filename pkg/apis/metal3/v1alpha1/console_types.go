package v1alpha1

import (
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
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

// Convert_url_Values_To_HostConsoleOptions reads the options from a query.
func Convert_url_Values_To_HostConsoleOptions(in *url.Values, out *HostConsoleOptions, s conversion.Scope) error {
	for name, into := range map[string]*bool{"force": &out.Force, "share": &out.Share} {
		values := (*in)[name]
		if err := runtime.Convert_Slice_string_To_bool(&values, into, s); err != nil {
			return err
		}
	}
	return nil
}
