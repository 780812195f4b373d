// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// IronicInstance is an Ironic, beside the one of the server's flags, with hosts of its own. Its status is
// read from that Ironic at the moment of reading.
type IronicInstance struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Where the Ironic is, and which hosts are its own.
	Spec IronicInstanceSpec `json:"spec"`

	// What the server knows of the Ironic. Only a GET or a LIST has it: it is not stored, and a watch, such as that of
	// kubectl get -w after its first rows, has none.
	// +optional
	Status IronicInstanceStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// IronicInstanceList is a list of IronicInstances.
type IronicInstanceList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The IronicInstances.
	Items []IronicInstance `json:"items"`
}

// IronicInstanceSpec says where an Ironic is, how the server authenticates with it, and which hosts are its
// own. A host that is registered stays where its node is, whatever the selectors say later.
type IronicInstanceSpec struct {
	// The URL of Ironic, with or without /v1, for example https://ironic.room-b.example:6385. With cloud, it
	// replaces the URL of the service catalog.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`

	// The Ironic object of the Ironic Standalone Operator that describes the Ironic, in place of endpoint, cloud
	// and credentialsName. The address, the credentials and, without caBundle, the certificate are those that
	// the object says, and are followed when they change.
	// +optional
	IronicRef *IronicReference `json:"ironicRef,omitempty"`

	// The entry of clouds.yaml, which the Secret has, by which the server authenticates with Keystone and
	// finds Ironic.
	// +optional
	Cloud string `json:"cloud,omitempty"`

	// The name of a Secret in the namespace of the server with username and password for HTTP basic
	// authentication, or, with cloud, with clouds.yaml. Without it, the server does not authenticate.
	// +optional
	CredentialsName string `json:"credentialsName,omitempty"`

	// The certificates, in PEM, of the authorities that may have signed Ironic's certificate. Without it,
	// those that the system of the server trusts, or, with ironicRef, those in the Secret with the certificate.
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`

	// The namespaces whose hosts are the Ironic's own. An empty selector selects all namespaces.
	// With selector, a host has to match both.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// The hosts that are the Ironic's own, by their labels. An empty selector selects all hosts.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// Whether the hosts that no IronicInstance selects are the Ironic's own. Without any default, they
	// are those of the Ironic of the server's flags.
	// +optional
	Default bool `json:"default,omitempty"`

	// The ramdisk with which the hosts are inspected, cleaned and provisioned, in place of that of the
	// server's flags.
	// +optional
	Ramdisk *IronicRamdisk `json:"ramdisk,omitempty"`

	// How many hosts are inspected, provisioned and deprovisioned at a time, in place of the server's flag
	// --provisioning-limit. 0 is no limit.
	// +optional
	ProvisioningLimit *int32 `json:"provisioningLimit,omitempty"`

	// The time limit for one request to the Ironic, in place of that of the server's flag --ironic-timeout, for example
	// 1m. From 1s to 10m.
	// +optional
	RequestTimeout *metav1.Duration `json:"requestTimeout,omitempty"`

	// How long a read of hosts waits for the Ironic before their last recorded status is served with a warning, in place
	// of the server's flag --ironic-read-timeout, for example 5s. From 100ms to 30s. A list of the hosts of several Ironics
	// waits for the slowest of them.
	// +optional
	ReadTimeout *metav1.Duration `json:"readTimeout,omitempty"`

	// Which conductors of Ironic look after which hosts, by their failure domains. Without it, the server leaves
	// the conductor groups of nodes alone.
	// +optional
	ConductorGroups *IronicConductorGroups `json:"conductorGroups,omitempty"`
}

// IronicConductorGroups says to which conductor group the node of a host belongs. It is set when the node is
// created. Later, it is changed only while the node is in the state enroll, manageable or available: the
// conductor of a host with a running deployment does not change.
type IronicConductorGroups struct {
	// The label of the hosts that has their failure domain; by default,
	// infrastructure.cluster.x-k8s.io/failure-domain.
	// +optional
	Label string `json:"label,omitempty"`

	// The conductor group for each failure domain, that is, for each value of the label. Ironic refuses a
	// group in which no conductor is alive.
	// +optional
	ByFailureDomain map[string]string `json:"byFailureDomain,omitempty"`

	// The conductor group of the hosts of other failure domains, and of those without the label. Without it,
	// their nodes keep the group that they have, and new ones get that which Ironic gives them.
	// +optional
	Default string `json:"default,omitempty"`
}

// FailureDomainLabel is the label with the failure domain of a host, as Cluster API names it.
const FailureDomainLabel = "infrastructure.cluster.x-k8s.io/failure-domain"

// GroupOf returns the conductor group of a host with these labels; empty means that its group is left alone.
func (g *IronicConductorGroups) GroupOf(labels map[string]string) string {
	if g == nil {
		return ""
	}
	if domain, has := labels[cmp.Or(g.Label, FailureDomainLabel)]; has && g.ByFailureDomain[domain] != "" {
		return g.ByFailureDomain[domain]
	}
	return g.Default
}

// IronicReference names an Ironic object of the Ironic Standalone Operator (group ironic.metal3.io).
type IronicReference struct {
	// The namespace of the Ironic object; by default, that of the server. The server has to be permitted to get
	// Ironic objects, and the Secrets that they name, in another namespace.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// The name of the Ironic object.
	Name string `json:"name"`
}

// IronicRamdisk says what the hosts of an Ironic boot to be inspected, cleaned and provisioned.
type IronicRamdisk struct {
	// The URL of the kernel.
	// +optional
	KernelURL string `json:"kernelURL,omitempty"`

	// The URL of the initial RAM disk.
	// +optional
	RamdiskURL string `json:"ramdiskURL,omitempty"`

	// The URL of an ISO image, for virtual media and UEFI HTTP boot.
	// +optional
	ISOURL string `json:"isoURL,omitempty"`

	// What is appended to the command line of the kernel.
	// +optional
	KernelParams string `json:"kernelParams,omitempty"`
}

// The types of the conditions of an IronicInstance.
const (
	// IronicInstanceAccepted reports whether the server can use the IronicInstance: its Secret exists, and
	// no other IronicInstance is of the same Ironic.
	IronicInstanceAccepted = "Accepted"
	// IronicInstanceReachable reports whether Ironic answers the server.
	IronicInstanceReachable = "Reachable"
	// IronicInstanceIronicReady repeats the condition Ready of the Ironic object that spec.ironicRef names, with
	// its reason and message. Without ironicRef, an IronicInstance does not have the condition.
	IronicInstanceIronicReady = "IronicReady"
)

// The reasons of the condition Accepted.
const (
	// AcceptedReason is that of an IronicInstance that the server can use.
	AcceptedReason = "Accepted"
	// NotKnownYetReason is that of an IronicInstance that the replica that answers has not taken up yet.
	NotKnownYetReason = "NotKnownYet"
	// SecretNotFoundReason is that of an IronicInstance whose Secret does not exist, or could never be read.
	SecretNotFoundReason = "SecretNotFound"
	// SecretInvalidReason is that of an IronicInstance whose Secret does not have what is needed.
	SecretInvalidReason = "SecretInvalid"
	// SameEndpointReason is that of an IronicInstance that is of the same Ironic as another one.
	SameEndpointReason = "SameEndpoint"
	// IronicNotFoundReason is that of an IronicInstance whose Ironic object does not exist, or could never be read.
	IronicNotFoundReason = "IronicNotFound"
	// IronicNotReadyReason is that of an IronicInstance whose Ironic object does not say yet how to log in.
	IronicNotReadyReason = "IronicNotReady"
	// UnusableReason is that of an IronicInstance that the server cannot use for another reason.
	UnusableReason = "Unusable"
)

// The reasons of the condition Reachable.
const (
	// AnswersReason is that of an Ironic that has answered.
	AnswersReason = "Answers"
	// UnreachableReason is that of an Ironic that has not answered.
	UnreachableReason = "Unreachable"
	// RefusedReason is that of an Ironic that does not accept the server's credentials.
	RefusedReason = "Refused"
	// NotAcceptedReason is that of an Ironic that is not asked, because the IronicInstance is not accepted.
	NotAcceptedReason = "NotAccepted"
)

// IronicInstanceStatus is what the server knows of an Ironic. It is not stored.
type IronicInstanceStatus struct {
	// Whether the server can use the IronicInstance (Accepted), whether Ironic answers (Reachable), and, with
	// spec.ironicRef, whether the Ironic object is ready (IronicReady).
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// The URL at which the server reaches Ironic. It is empty if the service catalog of spec.cloud has the URL.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`

	// The latest version of Ironic's API that both Ironic and the server have, for example 1.96.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// How many conductors of Ironic are alive.
	// +optional
	Conductors *int32 `json:"conductors,omitempty"`

	// How many nodes Ironic has, those without a host included.
	// +optional
	Nodes *int32 `json:"nodes,omitempty"`

	// How many hosts have their nodes in the Ironic.
	Hosts int32 `json:"hosts"`

	// How many hosts are in each provisioning state.
	// +optional
	HostsByState map[string]int32 `json:"hostsByState,omitempty"`

	// When all hosts of the Ironic were last observed by the replica that answers.
	// +optional
	ObservedAt *metav1.Time `json:"observedAt,omitempty"`

	// How many milliseconds Ironic took to answer when the status was read.
	// +optional
	LatencyMilliseconds *int64 `json:"latencyMilliseconds,omitempty"`
}
