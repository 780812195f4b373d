// SPDX-License-Identifier: Apache-2.0

package ironic

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic/redact"
)

// ProvisionState is an Ironic node provision state, as the API spells it.
type ProvisionState string

// The provision states of Ironic's state machine (ironic/common/states.py).
const (
	Enroll       ProvisionState = "enroll"
	Verifying    ProvisionState = "verifying"
	Manageable   ProvisionState = "manageable"
	Available    ProvisionState = "available"
	Active       ProvisionState = "active"
	Deploying    ProvisionState = "deploying"
	DeployWait   ProvisionState = "wait call-back"
	DeployFail   ProvisionState = "deploy failed"
	DeployHold   ProvisionState = "deploy hold"
	Deleting     ProvisionState = "deleting"
	Error        ProvisionState = "error"
	Cleaning     ProvisionState = "cleaning"
	CleanWait    ProvisionState = "clean wait"
	CleanFail    ProvisionState = "clean failed"
	CleanHold    ProvisionState = "clean hold"
	Inspecting   ProvisionState = "inspecting"
	InspectWait  ProvisionState = "inspect wait"
	InspectFail  ProvisionState = "inspect failed"
	Adopting     ProvisionState = "adopting"
	AdoptFail    ProvisionState = "adopt failed"
	Rescue       ProvisionState = "rescue"
	Rescuing     ProvisionState = "rescuing"
	RescueWait   ProvisionState = "rescue wait"
	RescueFail   ProvisionState = "rescue failed"
	Unrescuing   ProvisionState = "unrescuing"
	UnrescueFail ProvisionState = "unrescue failed"
	Servicing    ProvisionState = "servicing"
	ServiceWait  ProvisionState = "service wait"
	ServiceFail  ProvisionState = "service failed"
	ServiceHold  ProvisionState = "service hold"
)

// IsInTransit reports whether Ironic is at work on a node in this state, waits for its
// ramdisk, or was told to pause (hold) in between.
func (s ProvisionState) IsInTransit() bool {
	switch s {
	case Verifying, Inspecting, InspectWait, Cleaning, CleanWait, CleanHold, Deploying, DeployWait, DeployHold, Deleting,
		Adopting, Rescuing, RescueWait, Unrescuing, Servicing, ServiceWait, ServiceHold:
		return true
	}
	return false
}

// IsDeployed reports whether something is deployed on a node in this state.
func (s ProvisionState) IsDeployed() bool {
	switch s {
	case Active, Servicing, ServiceWait, ServiceFail, ServiceHold, Rescue, Rescuing, RescueWait, RescueFail, Unrescuing, UnrescueFail:
		return true
	}
	return false
}

// ProvisionTarget is a verb of PUT /v1/nodes/{id}/states/provision.
type ProvisionTarget string

// The provision verbs that are in use here.
const (
	TargetManage  ProvisionTarget = "manage"
	TargetInspect ProvisionTarget = "inspect"
	TargetProvide ProvisionTarget = "provide"
	TargetDeleted ProvisionTarget = "deleted"
	TargetAbort   ProvisionTarget = "abort"
	TargetActive  ProvisionTarget = "active"
	TargetAdopt   ProvisionTarget = "adopt"
	TargetRebuild ProvisionTarget = "rebuild"
	TargetClean   ProvisionTarget = "clean"
	TargetService ProvisionTarget = "service"
)

// PowerState is what Ironic knows of a node's power. Empty means that Ironic
// does not know (JSON null).
type PowerState string

// The power states that Ironic reports.
const (
	PowerOn  PowerState = "power on"
	PowerOff PowerState = "power off"
)

// PowerTarget is a target of PUT /v1/nodes/{id}/states/power.
type PowerTarget string

// The power targets of Ironic.
const (
	TargetPowerOn      PowerTarget = "power on"
	TargetPowerOff     PowerTarget = "power off"
	TargetSoftPowerOff PowerTarget = "soft power off"
	TargetReboot       PowerTarget = "rebooting"
	TargetSoftReboot   PowerTarget = "soft rebooting"
)

// FaultPowerFailure is the fault of a node whose BMC stopped answering. Ironic
// clears it by itself once the BMC answers again.
const FaultPowerFailure = "power failure"

// The faults of a node that Ironic put into maintenance because a step of its own
// failed. It never ends that maintenance by itself.
const (
	FaultCleanFailure   = "clean failure"
	FaultServiceFailure = "service failure"
)

// Node is what a read of a node tells, in the fields of statusFields. Null and
// absent strings are empty; null and absent times are nil.
type Node struct {
	UUID                 string         `json:"uuid"`
	Name                 string         `json:"name"`
	Driver               string         `json:"driver"`
	PowerState           PowerState     `json:"power_state"`
	TargetPowerState     PowerTarget    `json:"target_power_state"`
	ProvisionState       ProvisionState `json:"provision_state"`
	TargetProvisionState string         `json:"target_provision_state"`
	ProvisionUpdatedAt   *time.Time     `json:"provision_updated_at"`
	LastError            string         `json:"last_error"`
	Maintenance          bool           `json:"maintenance"`
	MaintenanceReason    string         `json:"maintenance_reason"`
	Fault                string         `json:"fault"`
	Reservation          string         `json:"reservation"`
	InstanceUUID         string         `json:"instance_uuid"`
	// Marks and Address are the parts of extra and driver_info that say whose the node is.
	Marks   Marks   `json:"extra"`
	Address Address `json:"driver_info"`
	// AutomatedClean is "true", "false", or empty where Ironic's own default counts.
	AutomatedClean       Text       `json:"automated_clean"`
	InspectionStartedAt  *time.Time `json:"inspection_started_at"`
	InspectionFinishedAt *time.Time `json:"inspection_finished_at"`
	CleanStep            Step       `json:"clean_step"`
	DeployStep           Step       `json:"deploy_step"`
	ServiceStep          Step       `json:"service_step"`
	// Internals is the part of driver_internal_info that says how far an operation is.
	Internals Internals `json:"driver_internal_info"`
	// RAIDVolumes are the RAID volumes that Ironic has found on the machine after its last step for RAID; see raid_config.
	RAIDVolumes VolumeLevels `json:"raid_config"`
	// Health is the BMC's own verdict (Features.Health): OK, Warning,
	// Critical, or empty when it is not known.
	Health string `json:"health"`
	// ParentNode is the UUID of the node that this one is part of (Features.ParentNodes).
	// See IsOwnParent.
	ParentNode string `json:"parent_node"`
	// UpdatedAt is set only where the detailed form was read (ChangedSince):
	// Ironic cannot return it in a field list.
	UpdatedAt *time.Time `json:"updated_at"`
	// Unreadable is why Ironic cannot show the node, such as "HTTP 500"; empty if it can. Of such a node, only the UUID is known and, if
	// Driver is not empty, the Name, Marks and Address.
	Unreadable string `json:"-"`
	// LockConcealed is set if Ironic conceals from the user whether the node is reserved.
	LockConcealed bool `json:"-"`
	// AnsweredAt is what Ironic's clock said when it answered, in whole seconds
	// (the Date header); zero when it did not say. The times above are compared
	// with this one and never with our clock.
	AnsweredAt time.Time `json:"-"`
}

// The keys of Marks in a node's extra.
const (
	HostMark    = "metal3_apiserver_host"
	ClusterMark = "metal3_apiserver_cluster"
)

// Marks are what this server writes into the extra of a node that it makes or takes over.
type Marks struct {
	// Host is the UID of the BareMetalHost that the node belongs to.
	Host Text `json:"metal3_apiserver_host"`
	// Cluster is the UID of the cluster of that host.
	Cluster Text `json:"metal3_apiserver_cluster"`
}

// Address is the part of driver_info that says which BMC Ironic talks to.
type Address struct {
	RedfishAddress Text `json:"redfish_address"`
	RedfishSystem  Text `json:"redfish_system_id"`
	IPMIAddress    Text `json:"ipmi_address"`
	IPMIPort       Text `json:"ipmi_port"`
}

// Text is a value that anybody may have written, so that it need not be a string: others
// are kept as they are in JSON, and null is empty. One odd value of one node must not make
// the answer about all nodes unreadable.
type Text string

// UnmarshalJSON never fails.
func (t *Text) UnmarshalJSON(value []byte) error {
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		text = string(value)
	}
	*t = Text(text)
	return nil
}

// SameContent reports whether two reads of a node say the same. What only one kind of
// read has, UpdatedAt and AnsweredAt, does not count.
func (n *Node) SameContent(other *Node) bool {
	a, b := *n, *other
	for _, times := range [][2]*time.Time{
		{a.ProvisionUpdatedAt, b.ProvisionUpdatedAt},
		{a.InspectionStartedAt, b.InspectionStartedAt},
		{a.InspectionFinishedAt, b.InspectionFinishedAt},
	} {
		if (times[0] == nil) != (times[1] == nil) || times[0] != nil && !times[0].Equal(*times[1]) {
			return false
		}
	}
	for _, node := range []*Node{&a, &b} {
		node.ProvisionUpdatedAt, node.InspectionStartedAt, node.InspectionFinishedAt, node.UpdatedAt = nil, nil, nil, nil
		node.AnsweredAt = time.Time{}
	}
	return a == b
}

// Changes are the nodes that changed last, newest first.
type Changes struct {
	Nodes []Node
	// Newest is the latest updated_at that any node has; zero when none has ever changed.
	Newest time.Time
	// Truncated is set when more nodes have changed than are read at once.
	Truncated bool
	// AnsweredAt is what Ironic's clock said when it answered; zero when it did not say.
	AnsweredAt time.Time
}

// NodeName is the name of the node that is made for a name in a namespace.
func NodeName(namespace, name string) string { return namespace + "~" + name }

// IsAnothers reports whether the node was made for another name or namespace. Who may
// write a host could otherwise have it point at the machine of another host.
func (n *Node) IsAnothers(namespace, name string) bool {
	return IsNameOfAnother(n.Name, namespace, name)
}

// IsNameOfAnother reports whether nodeName is that of a node that was made for another name or namespace.
func IsNameOfAnother(nodeName, namespace, name string) bool {
	return strings.Contains(nodeName, "~") && nodeName != NodeName(namespace, name)
}

// Registration is what Ironic was told of a node.
// Passwords in DriverInfo read as asterisks.
type Registration struct {
	DriverInfo map[string]any `json:"driver_info"`
	Extra      map[string]any `json:"extra"`
	Properties map[string]any `json:"properties"`
	// AutomatedClean is nil where Ironic's own default counts.
	AutomatedClean *bool `json:"automated_clean"`
	// DisablePowerOff is nil below API 1.95.
	DisablePowerOff  *bool          `json:"disable_power_off"`
	InspectInterface string         `json:"inspect_interface"`
	DeployInterface  string         `json:"deploy_interface"`
	BootInterface    string         `json:"boot_interface"`
	RAIDInterface    string         `json:"raid_interface"`
	NetworkInterface string         `json:"network_interface"`
	InstanceInfo     map[string]any `json:"instance_info"`
	InstanceUUID     string         `json:"instance_uuid"`
	NetworkData      map[string]any `json:"network_data"`
	// ConductorGroup is in lower case; empty means that the node is of the conductors without a group.
	ConductorGroup string `json:"conductor_group"`
}

// VolumeLevels are the levels of the volumes in a RAID configuration, with a space between any two. It is a text so that
// nodes can be compared.
type VolumeLevels string

// unknownLevel stands for a level that is none of raidLevels.
const unknownLevel = "?"

// raidLevels are the levels that Ironic's Redfish interfaces make and report.
var raidLevels = []string{"0", "1", "5", "6", "1+0", "5+0", "6+0"}

// LevelsOf returns the levels of volumes as a RAID configuration has them.
func LevelsOf(levels ...string) VolumeLevels { return VolumeLevels(strings.Join(levels, " ")) }

// Count returns how many volumes there are.
func (l VolumeLevels) Count() int { return len(strings.Fields(string(l))) }

// CountOf returns for how many of the wanted levels, each of which stands for one volume, there is a volume of its own. A level
// with +0 is taken for the same as without: BMCs call a mirror of four disks 1 or 1+0. If the level of one volume is not
// known, levels are not compared.
func (l VolumeLevels) CountOf(wanted []string) (made int) {
	left := map[string]int{}
	for _, level := range strings.Fields(string(l)) {
		if level == unknownLevel {
			return min(l.Count(), len(wanted))
		}
		left[kindOfLevel(level)]++
	}
	for _, level := range wanted {
		if kind := kindOfLevel(level); left[kind] > 0 {
			left[kind]--
			made++
		}
	}
	return made
}

func kindOfLevel(level string) string { return strings.TrimSuffix(level, "+0") }

// UnmarshalJSON never fails: what is no RAID configuration has no volumes.
func (l *VolumeLevels) UnmarshalJSON(value []byte) error {
	var config struct {
		LogicalDisks []json.RawMessage `json:"logical_disks"`
	}
	_ = json.Unmarshal(value, &config)
	var levels []string
	for _, disk := range config.LogicalDisks {
		var volume struct {
			Level string `json:"raid_level"`
		}
		if json.Unmarshal(disk, &volume) != nil || !slices.Contains(raidLevels, volume.Level) {
			volume.Level = unknownLevel
		}
		levels = append(levels, volume.Level)
	}
	*l = LevelsOf(levels...)
	return nil
}

// Step is the clean, deploy or service step under way; empty when there is none.
type Step struct {
	Interface string `json:"interface"`
	Step      string `json:"step"`
}

// Internals reports how far Ironic is with the steps of each operation.
type Internals struct {
	Clean, Deploy, Service StepPosition
	// HasFirmwareUpdates is set while Ironic has firmware updates in progress, and after one has
	// failed until Ironic has discarded them.
	HasFirmwareUpdates bool
}

// StepPosition is the number of the current step, from 1, and how many there are. A number
// is 0 as long as Ironic does not know it.
type StepPosition struct {
	Number, Count int
}

// UnmarshalJSON never fails: driver_internal_info is no documented interface, and Ironic
// returns a text instead of it to those who may not read it.
func (i *Internals) UnmarshalJSON(value []byte) error {
	var info struct {
		CleanSteps     stepCount `json:"clean_steps"`
		CleanIndex     stepIndex `json:"clean_step_index"`
		DeploySteps    stepCount `json:"deploy_steps"`
		DeployIndex    stepIndex `json:"deploy_step_index"`
		StepsValidated anyTruth  `json:"steps_validated"`
		ServiceSteps   stepCount `json:"service_steps"`
		ServiceIndex   stepIndex `json:"service_step_index"`
		Updates        stepCount `json:"redfish_fw_updates"`
	}
	if err := json.Unmarshal(value, &info); err != nil {
		*i = Internals{}
		return nil
	}
	if !info.StepsValidated {
		// The ramdisk has yet to add its own steps to those of a deployment. (To those of
		// cleaning and servicing, it adds them before the first one begins.)
		info.DeploySteps = 0
	}
	*i = Internals{
		Clean:   positionOf(info.CleanIndex, info.CleanSteps),
		Deploy:  positionOf(info.DeployIndex, info.DeploySteps),
		Service: positionOf(info.ServiceIndex, info.ServiceSteps),

		HasFirmwareUpdates: info.Updates > 0,
	}
	return nil
}

func positionOf(index stepIndex, count stepCount) StepPosition {
	number := int(index)
	if count > 0 && number > int(count) {
		return StepPosition{}
	}
	return StepPosition{Number: number, Count: int(count)}
}

// stepCount is the length of a list, and 0 for anything else.
type stepCount int

func (c *stepCount) UnmarshalJSON(value []byte) error {
	var steps []json.RawMessage
	_ = json.Unmarshal(value, &steps) // not a list: no steps
	*c = stepCount(len(steps))
	return nil
}

// stepIndex is an index, which counts from 0, plus 1, and 0 for anything else.
type stepIndex int

func (i *stepIndex) UnmarshalJSON(value []byte) error {
	var index *int
	if json.Unmarshal(value, &index) != nil || index == nil || *index < 0 || *index >= maxSteps {
		*i = 0
		return nil
	}
	*i = stepIndex(*index + 1)
	return nil
}

// maxSteps bounds the index of a step that is believed.
const maxSteps = 1 << 20

// anyTruth is true for true, and false for anything else.
type anyTruth bool

func (t *anyTruth) UnmarshalJSON(value []byte) error {
	*t = string(value) == "true"
	return nil
}

// Port is a network interface that Ironic knows by its MAC address.
type Port struct {
	UUID     string `json:"uuid"`
	NodeUUID string `json:"node_uuid"`
	Address  string `json:"address"`
}

// Conductor is a process of Ironic that looks after nodes.
type Conductor struct {
	Hostname string `json:"hostname"`
	// Group is the conductor group, whose nodes it looks after; empty means those without a group.
	Group string `json:"conductor_group"`
	// Alive is set if Ironic has heard from it lately.
	Alive bool `json:"alive"`
}

// SwitchPort is a port with what Ironic was told of the switch that it is connected to.
type SwitchPort struct {
	UUID    string         `json:"uuid"`
	Address string         `json:"address"`
	Extra   map[string]any `json:"extra"`
	// Link identifies the switch and its port, by switch_id and port_id.
	Link map[string]any `json:"local_link_connection"`
	// PXEEnabled is set if Ironic boots the machine from this port.
	PXEEnabled bool `json:"pxe_enabled"`
}

// NetworkInterfaceNetworking is the network interface of nodes whose switch ports Ironic's networking
// service configures. It is part of Ironic since 34.0.
const NetworkInterfaceNetworking = "ironic-networking"

// BIOSSetting is a setting of a machine's BIOS, as Ironic has stored it, and the values that it
// accepts. What the BMC does not tell is nil or empty.
type BIOSSetting struct {
	Name            string `json:"name"`
	Value           Text   `json:"value"`
	AttributeType   Text   `json:"attribute_type"`
	AllowableValues []Text `json:"allowable_values"`
	LowerBound      *int   `json:"lower_bound"`
	UpperBound      *int   `json:"upper_bound"`
	MinLength       *int   `json:"min_length"`
	MaxLength       *int   `json:"max_length"`
	ReadOnly        *bool  `json:"read_only"`
	Unique          *bool  `json:"unique"`
}

// FirmwareComponent is a part of a machine that has firmware, as Ironic has stored it: bios, bmc, or
// nic: and the name of a network adapter.
type FirmwareComponent struct {
	Component          Text `json:"component"`
	InitialVersion     Text `json:"initial_version"`
	CurrentVersion     Text `json:"current_version"`
	LastVersionFlashed Text `json:"last_version_flashed"`
	// UpdatedAt is nil as long as the component has the first version that Ironic has read.
	UpdatedAt *time.Time `json:"updated_at"`
}

// Inventory is the record of a node's last inspection: the ramdisk's inventory
// and the plugin data beside it, as Ironic stores them.
type Inventory struct {
	Inventory  json.RawMessage `json:"inventory"`
	PluginData json.RawMessage `json:"plugin_data"`
}

// MaskPasswords strikes out what is a password by its name in what Ironic says of the node.
func (n *Node) MaskPasswords() {
	n.LastError, n.MaintenanceReason = redact.NamedPasswords(n.LastError), redact.NamedPasswords(n.MaintenanceReason)
}

// RedactPassword takes a password, unless it is empty, out of the texts that Ironic shows of the
// node, as redact.Secrets does, and then cuts them to the length of a message. The reason of a maintenance
// that a user has requested is only cut.
func (n *Node) RedactPassword(password string, written ...string) {
	var secrets []string
	if password != "" {
		secrets = []string{password}
	}
	n.LastError = redact.Secrets(n.LastError, secrets, written...)
	if IsRequestedMaintenance(n.MaintenanceReason) {
		secrets = nil
	}
	n.MaintenanceReason = redact.Secrets(n.MaintenanceReason, secrets, written...)
}
