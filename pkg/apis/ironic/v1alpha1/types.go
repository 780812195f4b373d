// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Candidate is a node in Ironic that no BareMetalHost has, so that a host can be made for it.
// It is read from Ironic at the moment of reading, and cannot be changed. Its name is the UUID
// of the node.
type Candidate struct {
	metav1.TypeMeta `json:",inline"`
	// The name, which is the UUID of the node in Ironic.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What Ironic reports about the node.
	// +optional
	Status CandidateStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// CandidateList is a list of nodes that no host has.
type CandidateList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The nodes.
	Items []Candidate `json:"items"`
}

// CandidateStatus is what Ironic reports about a node, in Ironic's own words. Credentials are not
// part of it.
type CandidateStatus struct {
	// The name of the IronicInstance in whose Ironic the node is. Empty for the Ironic of the server's
	// flags.
	// +optional
	Ironic string `json:"ironic,omitempty"`

	// The name of the node in Ironic. Empty if it has none.
	// +optional
	NodeName string `json:"nodeName,omitempty"`

	// The provision state, for example active or manageable.
	// +optional
	ProvisionState string `json:"provisionState,omitempty"`

	// The power state: power on or power off. Empty if Ironic does not know it.
	// +optional
	PowerState string `json:"powerState,omitempty"`

	// Ironic's driver, for example redfish or ipmi.
	// +optional
	Driver string `json:"driver,omitempty"`

	// The address of the BMC, in the form that spec.bmc.address of a host accepts. Empty if
	// the driver has none that a host can have.
	// +optional
	BMCAddress string `json:"bmcAddress,omitempty"`

	// The MAC addresses of the node's ports.
	// +optional
	// +listType=atomic
	MACAddresses []string `json:"macAddresses,omitempty"`

	// The instance_uuid of the node. Empty if nothing is deployed on it, or if whoever has
	// deployed it gave it none.
	// +optional
	InstanceUUID string `json:"instanceUUID,omitempty"`

	// The UID of the host that the node is marked with. A server of this kind has marked it:
	// the host was deleted since, or belongs to another cluster.
	// +optional
	MarkedHost string `json:"markedHost,omitempty"`

	// The UID of the cluster that the node is marked with. If it is not this one, the server
	// of another cluster uses the node.
	// +optional
	MarkedCluster string `json:"markedCluster,omitempty"`

	// Whether the node is in maintenance.
	// +optional
	Maintenance bool `json:"maintenance,omitempty"`

	// Why the node is in maintenance.
	// +optional
	MaintenanceReason string `json:"maintenanceReason,omitempty"`
}
