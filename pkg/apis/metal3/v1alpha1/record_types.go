// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RecordEpoch is the epoch of the records that this version of the server writes. It is raised with
// each change of HostRecord that an earlier version would misunderstand or lose.
const RecordEpoch = 9

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

	// The power-ons and reboots that Ironic was asked for and has not answered, oldest first. Each may be carried out minutes later. A
	// machine that is to be off is shown as on until then, because who fences it relies on its being off.
	// +optional
	// +listType=atomic
	PowerOns []PowerOn `json:"powerOns,omitempty"`

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

	// Why it was left alone when the machines of all hosts began to be, such as after a restore of etcd. That counts
	// again when this ends.
	// +optional
	HeldBefore *Hold `json:"heldBefore,omitempty"`

	// The count in the server's etcd at the last restore from a backup since which the machine has been seen to be as
	// recorded. If etcd was restored later, the record is of the backup, and what it says of the machine may be over.
	// +optional
	AsOfRestore int64 `json:"asOfRestore,omitempty"`

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

// IsOfAllHosts reports whether the machines of all hosts are left alone, whatever is found of each.
func (h *Hold) IsOfAllHosts() bool {
	return h != nil && (h.Reason == RestoredReason || h.Reason == OperatorRunningReason)
}

// FailureCause is why a step failed, if that has nothing to do with what the step asked for.
// +enum
type FailureCause string

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
