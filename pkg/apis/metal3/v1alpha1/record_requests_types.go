// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The causes of failures.
const (
	// CallbackTimeout means that a ramdisk has not called Ironic in time.
	CallbackTimeout FailureCause = "CallbackTimeout"
	// RequestFailed means that a request to Ironic or to the cluster keeps failing.
	RequestFailed FailureCause = "RequestFailed"
)

// The causes of errors.
const (
	// BMCSilent means that the BMC may not have answered.
	BMCSilent ErrorCause = "BMCSilent"
	// BMCRefuses means that the BMC answered, and refused its user.
	BMCRefuses ErrorCause = "BMCRefuses"
	// BMCSilentOrRefuses means that the BMC has not answered or has refused its user, and that Ironic does not say which.
	BMCSilentOrRefuses ErrorCause = "BMCSilentOrRefuses"
	// BMCNoAccess means that the BMC is there, but that Ironic and it have no TLS in common, or that Ironic does not take its address or
	// its clock.
	BMCNoAccess ErrorCause = "BMCNoAccess"
	// Interrupted means that the conductor ended while it worked on the node.
	Interrupted ErrorCause = "Interrupted"
)

// Deployment identifies what a host's node runs, or is to run when it is provisioned. What
// would end it rests on this: another deployment on the node is left alone.
type Deployment struct {
	// The UUID of the node.
	NodeUUID string `json:"nodeUUID"`

	// The instance_uuid of the node in Ironic. Each attempt to provision a host has one of
	// its own; Ironic forgets it when the node is undeployed. Empty where whoever deployed
	// the node gave it none.
	// +optional
	InstanceUUID string `json:"instanceUUID,omitempty"`

	// Whether the machine ran when it was taken over although spec.online was false. It is
	// left on until spec.online is changed.
	// +optional
	KeepPower bool `json:"keepPower,omitempty"`

	// The rebuild that was requested of the deployment and has not ended.
	// +optional
	Rebuild *Rebuild `json:"rebuild,omitempty"`

	// Whether Ironic is to adopt the node, because it has lost the node since, or has never had this
	// deployment, or because a person has confirmed that the machine runs it. It ends when
	// the node is active.
	// +optional
	MayAdopt bool `json:"mayAdopt,omitempty"`

	// When the node had become active, by Ironic's clock, as it was last seen so.
	// +optional
	ActiveSince *metav1.MicroTime `json:"activeSince,omitempty"`

	// What somebody has done to the node past this server. The machine may not run the
	// deployment any more. Absent if nothing was noticed. Of a host that is deprovisioning, what cannot be taken back any more: Ironic has
	// begun to undeploy the node, or may have, or the deployment was never complete.
	// +optional
	Gone *GoneDeployment `json:"gone,omitempty"`
}

// AskedChange is a request that begins, repeats or ends a deployment, or begins a manual clean or a service. It is
// recorded before the request is sent. While it is there, the request may still be carried out, also if no answer came
// or the server that sent it was killed.
type AskedChange struct {
	// The UUID of the node.
	NodeUUID string `json:"nodeUUID"`

	// The transition that was requested: active, rebuild, deleted, clean or service.
	Target string `json:"target"`

	// The instance_uuid that the node had then.
	// +optional
	InstanceUUID string `json:"instanceUUID,omitempty"`

	// The provision state of the node then.
	ProvisionState string `json:"provisionState"`

	// When Ironic had last changed that state by then. If the state is another one, or was changed at another
	// time, Ironic has carried out the request, or somebody else's.
	// +optional
	StateChangedAt *metav1.MicroTime `json:"stateChangedAt,omitempty"`

	// When it was last sent.
	At metav1.Time `json:"at"`

	// How often it was sent since the state last changed.
	Times int `json:"times"`
}

// AskedLimit is after what time a request is taken for lost. Ironic gives up on its own requests to conductors after a
// minute, and load balancers on theirs after one or two.
const AskedLimit = 4 * time.Minute

// AskedPower is a request that switches a machine off or reboots it. It is recorded before the request is sent. While it
// is there, the request may still be carried out, also if no answer came or the server that sent it was killed.
type AskedPower struct {
	// The UUID of the node.
	NodeUUID string `json:"nodeUUID"`

	// What was requested: power off, soft power off, rebooting or soft rebooting.
	Target string `json:"target"`

	// When it was last sent.
	At metav1.Time `json:"at"`

	// How often it was sent since the machine was last seen off.
	Times int `json:"times"`
}

// PowerOn is a request that leads to a machine that is on. It is recorded before it is sent, and removed when it is answered.
type PowerOn struct {
	// What tells the request from others.
	ID string `json:"id"`

	// The UUID of the node.
	NodeUUID string `json:"nodeUUID"`

	// When it was sent.
	At metav1.Time `json:"at"`
}

// Reboot is a reboot that Ironic has accepted. Until then, Ironic may still show the error of the one before.
type Reboot struct {
	// The UUID of the node.
	NodeUUID string `json:"nodeUUID"`

	// What Ironic was asked for: rebooting or soft rebooting.
	Target string `json:"target"`

	// The annotations that have asked for it, without those because of which the machine was rebooted before.
	// +optional
	// +listType=atomic
	Annotations []string `json:"annotations,omitempty"`

	// Why it has failed, in Ironic's words. Empty if that is not known yet.
	// +optional
	Failed string `json:"failed,omitempty"`
}

// PowerCut is a hard power-off that was requested with the subresource power. It is recorded before spec.online is
// changed, so that whoever sees that the host is to be off knows that its operating system is not to be asked first.
type PowerCut struct {
	// The UUID of the node.
	NodeUUID string `json:"nodeUUID"`

	// When it was requested.
	RequestedAt metav1.Time `json:"requestedAt"`
}

// GoneDeployment is how it was noticed that a machine may not run its deployment any more.
type GoneDeployment struct {
	// When it was noticed.
	Since metav1.Time `json:"since"`

	// The provision state of the node then. A rescue is over when the node is active again;
	// anything else stays until a person decides. Empty if the node was lost or undeployed while the image was written again, or lost
	// while it was to be undeployed.
	ProvisionState string `json:"provisionState"`
}

// Rebuild is a request to write the image of a deployment again.
type Rebuild struct {
	// When it was requested.
	RequestedAt metav1.Time `json:"requestedAt"`

	// When Ironic had last changed the provision state of the node by then. If that was at
	// another time, the rebuild has begun.
	// +optional
	StateChangedAt *metav1.MicroTime `json:"stateChangedAt,omitempty"`
}

// Preparation is a manual clean in which Ironic applies settings, such as a RAID layout, to
// the machine of a host that runs nothing.
type Preparation struct {
	// The UUID of the node.
	NodeUUID string `json:"nodeUUID"`

	// How far it is: Requested, Running, Succeeded or Failed.
	Phase PreparationPhase `json:"phase"`

	// When it was requested.
	StartedAt metav1.Time `json:"startedAt"`

	// When it ended, as far as this server has seen. Absent until then.
	// +optional
	EndedAt *metav1.Time `json:"endedAt,omitempty"`

	// Why it has failed, if Ironic takes it for a success.
	// +optional
	Problem string `json:"problem,omitempty"`

	// Why it has failed, in Ironic's words, or why it has not begun.
	// +optional
	Message string `json:"message,omitempty"`

	// Set if the steps were requested with the subresource clean.
	// +optional
	IsRequested bool `json:"isRequested,omitempty"`

	// The clean or service steps, for example raid.create_configuration.
	// +listType=atomic
	Steps []string `json:"steps"`

	// How many of the steps have ended, as far as this server has seen before all have.
	// +optional
	StepsDone int `json:"stepsDone,omitempty"`

	// When the node had come into the state in which it was when the steps were requested.
	// +optional
	StateChangedAt *metav1.MicroTime `json:"stateChangedAt,omitempty"`

	// The RAID layout that the machine has if the steps succeed. Absent if they do not
	// change it.
	// +optional
	RAID *RAIDConfig `json:"raid,omitempty"`

	// The BIOS settings that the steps change, with the values that they set. Absent if they
	// change none, and when the machine has these values.
	// +optional
	FirmwareSettings SettingsMap `json:"firmwareSettings,omitempty"`

	// The firmware updates that the steps make, in this order. Absent if they make none.
	// +optional
	// +listType=atomic
	FirmwareUpdates []FirmwareUpdate `json:"firmwareUpdates,omitempty"`
}

// Servicing is a service in which Ironic changes settings of a machine that runs something, in
// the course of a reboot.
type Servicing struct {
	Preparation `json:",inline"`

	// Whether Ironic has been asked to end a service that has failed or is not wanted any more,
	// so that the machine runs again what it ran before.
	// +optional
	Leaving bool `json:"leaving,omitempty"`
}

// PreparationPhase is how far a preparation or a service is.
// +enum
type PreparationPhase string

// The phases of a preparation.
const (
	// PreparationRequested means that Ironic has been asked for the steps, or is about to be,
	// and has not been seen to carry them out.
	PreparationRequested PreparationPhase = "Requested"
	// PreparationRunning means that Ironic carries out the steps.
	PreparationRunning PreparationPhase = "Running"
	// PreparationSucceeded means that Ironic has carried out all steps.
	PreparationSucceeded PreparationPhase = "Succeeded"
	// PreparationFailed means that a step has failed or was aborted.
	PreparationFailed PreparationPhase = "Failed"
)

// Takeover is what a person has confirmed through the subresource takeover: that the node,
// as it was described then, is the host's.
type Takeover struct {
	// When it was confirmed.
	Time metav1.Time `json:"time"`

	// The UUID of the node.
	NodeUUID string `json:"nodeUUID"`

	// The instance_uuid that the node had.
	// +optional
	InstanceUUID string `json:"instanceUUID,omitempty"`

	// The BMC that the node had.
	// +optional
	BMC string `json:"bmc,omitempty"`

	// The UID of the host that the node was marked with.
	// +optional
	MarkedHost string `json:"markedHost,omitempty"`

	// The UID of the cluster that the node was marked with.
	// +optional
	MarkedCluster string `json:"markedCluster,omitempty"`

	// The reason for which the host was held then, if it was. That another node has the BMC is confirmed only by who
	// has seen it.
	// +optional
	Held string `json:"held,omitempty"`
}

// RequestedClean is a request for clean steps that was made with the subresource clean, and that
// has not ended.
type RequestedClean struct {
	// When it was requested.
	RequestedAt metav1.Time `json:"requestedAt"`

	// The UUID of the node.
	NodeUUID string `json:"nodeUUID"`

	// When the node had come into the state from which it is to be cleaned. If the node has been in
	// another state meanwhile, it may hold something else, and is not cleaned.
	// +optional
	StateChangedAt *metav1.MicroTime `json:"stateChangedAt,omitempty"`

	// The steps.
	// +listType=atomic
	Steps []CleanStep `json:"steps"`
}
