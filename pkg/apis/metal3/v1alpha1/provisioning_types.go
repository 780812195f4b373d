// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Provisioning is the configuration of OpenShift's cluster-baremetal-operator, which is the
// object provisioning-configuration. That operator defines the fields, and acts on them.
type Provisioning struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The configuration.
	// +optional
	Spec *Fields `json:"spec,omitempty"`

	// What the operator has made of the configuration.
	// +optional
	Status *Fields `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ProvisioningList is a list of provisioning configurations.
type ProvisioningList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The provisioning configurations.
	Items []Provisioning `json:"items"`
}

// Fields are the fields of an object in JSON, whatever they are.
type Fields struct {
	// ByName has the fields, with the types that decoding of JSON gives.
	ByName map[string]any `json:"-"`
}

// MarshalJSON returns the fields as an object.
func (f Fields) MarshalJSON() ([]byte, error) {
	if f.ByName == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(f.ByName)
}

// UnmarshalJSON decodes an object. Integers stay integers.
func (f *Fields) UnmarshalJSON(text []byte) error {
	f.ByName = nil
	return json.Unmarshal(text, &f.ByName)
}

// DeepCopyInto copies the fields into out.
func (f *Fields) DeepCopyInto(out *Fields) { out.ByName = runtime.DeepCopyJSON(f.ByName) }

// OpenAPISchemaType describes the fields in OpenAPI.
func (Fields) OpenAPISchemaType() []string { return []string{"object"} }

// OpenAPISchemaFormat describes the fields in OpenAPI.
func (Fields) OpenAPISchemaFormat() string { return "" }
