// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RecordEpoch is the epoch of the records that this version of the server writes. It is raised with
// each change of HostRecord that an earlier version would misunderstand or lose.
const RecordEpoch = 7

// IsLater reports whether a later version of the server has written the record. This version decides nothing from it, and the
// storage of hosts refuses to change it.
func (r *HostRecord) IsLater() bool { return r.Epoch > RecordEpoch }

// WhyLeftAlone says that a later version has written the record.
func (r *HostRecord) WhyLeftAlone() string {
	return fmt.Sprintf("a later version of metal3-apiserver has recorded this host (epoch %d; this one knows those up to %d)", r.Epoch, RecordEpoch)
}

// HostRecord is what the server has recorded of a host for itself: what it asked of Ironic and how
// that ended, which deployment is the host's, and why it leaves a machine alone. Decisions are based on
// the spec, on this record and on what Ironic reports. Conditions, errors and printed columns are
// computed from it and are never read back.
type HostRecord struct {
	// The version of this record. A server that knows only lower ones leaves the host alone.
	// +optional
	Epoch int `json:"epoch,omitempty"`

	// The hardware details of the host as they are stored in etcd: JSON that is compressed. Absent in what is
	// served, where they are in status.hardware, unless they cannot be decompressed.
	// +optional
	Hardware []byte `json:"hardware,omitempty"`

	// The name of the IronicInstance in whose Ironic the host has its node. Empty for the Ironic of the
	// server's flags. It is recorded before the node is made, and counts while the host has a node.
	// +optional
	Ironic string `json:"ironic,omitempty"`

	// The move to another Ironic that was requested with the subresource transfer and has not ended. It ends
	// when Ironic has no node of the host any more: from then on, the host is in the other one.
	// +optional
	Transfer *Transfer `json:"transfer,omitempty"`

	// Since when the host has been in its provisioning state.
	// +optional
	State *TimeInState `json:"state,omitempty"`

	// Whether Ironic has been asked about the host's node at least once.
	// +optional
	Observed bool `json:"observed,omitempty"`

	// When the host was available, or ran something, for the first time.
	// +optional
	FirstAvailableAt *metav1.Time `json:"firstAvailableAt,omitempty"`

	// The last attempt to register the host in Ironic. Absent before the first one.
	// +optional
	Registration *Registration `json:"registration,omitempty"`

	// What the host's node in Ironic was last registered with, apart from the spec. The node is
	// registered again when any of it differs. Absent while the node was never registered.
	// +optional
	RegisteredWith *RegisteredWith `json:"registeredWith,omitempty"`

	// The deployment on the host's node that this status is about. Absent while there is
	// none.
	// +optional
	Deployment *Deployment `json:"deployment,omitempty"`

	// What Ironic was asked to do with the host's node that writes its disk or interrupts what it runs, while it is not
	// known what became of the request. It may be carried out minutes later.
	// +optional
	Asked *AskedChange `json:"asked,omitempty"`

	// How many of the errors that status.errorCount counts were the machine's, or about what the host says of it: not those of
	// requests that got no answer from Ironic, nor of restarts of its conductors. A deletion gives up after some of these only.
	// +optional
	MachineErrors int `json:"machineErrors,omitempty"`

	// The power-off or reboot that Ironic was asked for, while it is not known what became of the request. It may be
	// carried out minutes later.
	// +optional
	AskedPower *AskedPower `json:"askedPower,omitempty"`

	// The annotations reboot.metal3.io/KEY because of which a machine that is never switched off was rebooted, with their values. Each
	// reboots it once. Also the reboot annotations because of which a machine was switched off that is left on otherwise although
	// spec.online is false. It is switched on again when they are gone.
	// +optional
	Rebooted map[string]string `json:"rebooted,omitempty"`

	// The reboot of a machine that is never switched off, from when Ironic has accepted it until it has ended. If it has failed, until
	// another one is accepted, or none is asked for any more.
	// +optional
	Reboot *Reboot `json:"reboot,omitempty"`

	// Whether status.hardware is what an inspection has found. Otherwise it was given in place of one.
	// +optional
	Inspected bool `json:"inspected,omitempty"`

	// That the power of the host's machine is to be cut, as was requested with the subresource power. Absent
	// once it is off.
	// +optional
	PowerCut *PowerCut `json:"powerCut,omitempty"`

	// The last manual clean in which Ironic applied settings to the host's machine, or carried out
	// the steps that were requested with the subresource clean. Absent if there was none.
	// +optional
	Preparation *Preparation `json:"preparation,omitempty"`

	// The clean steps that were requested with the subresource clean and have not ended.
	// +optional
	RequestedClean *RequestedClean `json:"requestedClean,omitempty"`

	// The last service in which Ironic changed settings of the machine while it ran something.
	// Absent if there was none since the host was provisioned.
	// +optional
	Servicing *Servicing `json:"servicing,omitempty"`

	// What was last confirmed through the subresource takeover. It counts as long as the
	// node is as it was then.
	// +optional
	Takeover *Takeover `json:"takeover,omitempty"`

	// Why the host's machine is left alone. Absent if it is not.
	// +optional
	Hold *Hold `json:"hold,omitempty"`

	// The UIDs of hosts of which a person has confirmed that their machines are others, although they seem to be the same.
	// +optional
	// +listType=atomic
	OtherMachines []types.UID `json:"otherMachines,omitempty"`

	// What the machine has in common with that of another host, while the rest differs. Empty if nothing.
	// +optional
	Resembles string `json:"resembles,omitempty"`

	// The last step that failed without the node showing it. Absent if it has succeeded since then,
	// or another step has.
	// +optional
	Failure *Failure `json:"failure,omitempty"`

	// The error that the host shows, and that was counted in status.errorCount.
	// +optional
	Error *HostError `json:"error,omitempty"`

	// What the host's PreprovisioningImage waits for, if the host cannot continue without it.
	// +optional
	AwaitedImage string `json:"awaitedImage,omitempty"`

	// The inspection of which the inventory cannot be used. Absent if it can.
	// +optional
	UnusableInventory *UnusableInventory `json:"unusableInventory,omitempty"`

	// Since when Ironic has not answered, once that has lasted longer than a grace period.
	// +optional
	Silence *Silence `json:"silence,omitempty"`

	// What was found of spec.networkInterfaces. Absent if there are none.
	// +optional
	Network *NetworkVerdict `json:"network,omitempty"`

	// The health of the machine that Ironic last reported: OK, Warning or Critical.
	// +optional
	Health string `json:"health,omitempty"`
}

// Transfer is a request to move a host to another Ironic.
type Transfer struct {
	// The name of the IronicInstance to which the host is moved; empty for the Ironic of the server's flags.
	// +optional
	To string `json:"to,omitempty"`

	// When it was requested.
	RequestedAt metav1.Time `json:"requestedAt"`
}

// TimeInState tells since when a host has been in a provisioning state.
type TimeInState struct {
	// The provisioning state.
	Name ProvisioningState `json:"name"`

	// When the host came into it.
	Since metav1.Time `json:"since"`
}

// Registration is an attempt to register a host in Ironic, and its outcome.
type Registration struct {
	// The generation of the spec that was to be registered.
	Generation int64 `json:"generation"`

	// The outcome, as a reason of the condition Registered.
	Reason string `json:"reason"`

	// Why the host could not be registered, or, if it was, which ports Ironic did not take.
	// +optional
	Message string `json:"message,omitempty"`

	// Whether that is, or may still be, a node with the BMC in another Ironic of the server.
	// +optional
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// Hold is why a host's machine is left alone.
type Hold struct {
	// What was found, as a reason of the condition Held.
	Reason string `json:"reason"`

	// What was found, in words, and what a person can do about it.
	Message string `json:"message"`

	// The UID of the host that seems to be of the same machine. Empty if the host is held for another reason.
	// +optional
	Other types.UID `json:"other,omitempty"`

	// Whether the host is held because of a node with its BMC in another Ironic of the server, which is, or may still be, there.
	// +optional
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// FailureCause is why a step failed, if that has nothing to do with what the step asked for.
// +enum
type FailureCause string

// The causes of failures.
const (
	// CallbackTimeout means that a ramdisk has not called Ironic in time.
	CallbackTimeout FailureCause = "CallbackTimeout"
	// RequestFailed means that a request to Ironic or to the cluster keeps failing.
	RequestFailed FailureCause = "RequestFailed"
)

// Failure is a step that failed.
type Failure struct {
	// The kind of operation that the step belongs to. Empty if there is a cause, in which case the
	// provisioning state of the host tells it.
	// +optional
	Type ErrorType `json:"type,omitempty"`

	// Why the step failed, if that has nothing to do with what it asked for.
	// +optional
	Cause FailureCause `json:"cause,omitempty"`

	// Why it failed, in words.
	Message string `json:"message"`
}

// HostError is the error of a host.
type HostError struct {
	// The kind of operation that failed.
	Type ErrorType `json:"type"`

	// What happened.
	Message string `json:"message"`

	// What Ironic's words say of the cause, if that matters for when to try again.
	// +optional
	Cause ErrorCause `json:"cause,omitempty"`
}

// ErrorCause is what caused an error in Ironic.
// +enum
type ErrorCause string

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

// UnusableInventory is an inspection of which the inventory cannot be used.
type UnusableInventory struct {
	// When the inspection ended, according to Ironic.
	InspectionFinishedAt metav1.MicroTime `json:"inspectionFinishedAt"`

	// Why the inventory cannot be used.
	Problem string `json:"problem"`
}

// NetworkVerdict is whether Ironic has the switch ports of a host's spec.networkInterfaces.
type NetworkVerdict struct {
	// The generation of the spec that this is about.
	Generation int64 `json:"generation"`

	// The verdict, as a reason of the condition NetworkInterfacesValid.
	Reason string `json:"reason"`

	// Why Ironic has not all of them. Empty if it has.
	// +optional
	Message string `json:"message,omitempty"`
}

// Silence is a time in which Ironic does not tell the server of the host's node.
type Silence struct {
	// When it began.
	Since metav1.Time `json:"since"`

	// Whether Ironic answers, but refuses the server.
	// +optional
	Refused bool `json:"refused,omitempty"`

	// NodeUnreadable if Ironic answers, and fails to show the host's node; NoIronic if the server cannot use
	// its IronicInstance, so that Ironic is not asked.
	// +optional
	Cause string `json:"cause,omitempty"`

	// Why Ironic cannot be asked.
	Reason string `json:"reason"`
}

// RegisteredWith is what a node was registered with that the spec does not tell.
type RegisteredWith struct {
	// A digest of the server's settings for the ramdisk, which are part of the
	// node's driver_info, and, after a slash, the conductor group that the node was to get.
	// +optional
	SettingsDigest string `json:"settingsDigest,omitempty"`

	// The resource version of the Secret with the network configuration of the
	// ramdisk (spec.preprovisioningNetworkDataName), as far as its contents are
	// concerned. Empty where the node has none.
	// +optional
	NetworkDataVersion string `json:"networkDataVersion,omitempty"`

	// A digest of the PreprovisioningImage of the host, which is part of the node's
	// driver_info. Empty where hosts boot the images of the server's settings.
	// +optional
	Image string `json:"image,omitempty"`

	// Whether the node was not idle (enroll, manageable or available), so that what
	// Ironic accepts only for idle nodes, such as the inspect interface, has yet to be
	// registered.
	// +optional
	DueWhenIdle bool `json:"dueWhenIdle,omitempty"`

	// The BMC that Ironic was told, as protocol, host, port and system.
	// +optional
	BMC string `json:"bmc,omitempty"`

	// Whether a node that is its own parent, a defect of Ironic 29.0.5, was given the
	// power supply without which that Ironic cannot switch it on.
	// +optional
	PowerSupply bool `json:"powerSupply,omitempty"`

	// Whether the server has removed the node since, or is about to, because the host is deleted, detached or
	// moved to another Ironic. That Ironic has no such node is as it should be then.
	// +optional
	NodeRemoved bool `json:"nodeRemoved,omitempty"`
}

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
	// deployment any more. Absent if nothing was noticed.
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
	// anything else stays until a person decides. Empty if the node was lost or undeployed while the image was written again.
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
