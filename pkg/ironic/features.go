// SPDX-License-Identifier: Apache-2.0

package ironic

import (
	"fmt"
	"strconv"
	"strings"
)

// APIVersion is a version of Ironic's API, which Ironic calls a microversion.
type APIVersion struct{ Major, Minor int }

// The span of API versions that this server speaks. A newer Ironic is asked in the newest version known
// here, because later ones may change answers.
var (
	// OldestAPIVersion is the one of Ironic 21.4 (2023.1).
	OldestAPIVersion = APIVersion{1, 82}
	// NewestAPIVersion is the one of Ironic 39.0.
	NewestAPIVersion = APIVersion{1, 115}
)

// ParseAPIVersion reads a version as Ironic spells it, such as 1.82.
func ParseAPIVersion(s string) (APIVersion, error) {
	major, minor, _ := strings.Cut(s, ".")
	ma, majorErr := strconv.Atoi(major)
	mi, minorErr := strconv.Atoi(minor)
	if majorErr != nil || minorErr != nil {
		return APIVersion{}, fmt.Errorf("%q is not an API version", s)
	}
	return APIVersion{ma, mi}, nil
}

// String returns the version as Ironic spells it.
func (v APIVersion) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// IsOlderThan reports whether v came before other.
func (v APIVersion) IsOlderThan(other APIVersion) bool {
	return v.Major < other.Major || v.Major == other.Major && v.Minor < other.Minor
}

// Negotiate returns the version in which to ask an Ironic whose newest version is offered.
func Negotiate(offered APIVersion) APIVersion {
	if NewestAPIVersion.IsOlderThan(offered) {
		return NewestAPIVersion
	}
	return offered
}

// What brought a feature, for messages to users whose Ironic does not have it.
const (
	FirmwareSince        = "API 1.86 (Ironic 23)"
	ServicingSince       = "23.0, API 1.87"
	VirtualMediaSince    = "API 1.93 (Ironic 26.0)"
	DisablePowerOffSince = "API 1.95"
)

// Features are what an Ironic can do that not every supported release can. They follow from the API
// version in which it is asked. This is the only place that knows API versions by their numbers.
type Features struct {
	// APIVersion is the version that all other fields follow from.
	APIVersion APIVersion
	// Quirks are defects that the release has, or may have.
	Quirks Quirks

	// ParentNodes is set if nodes have the field parent_node, and lists leave out nodes that have a parent
	// unless they are asked for (API 1.83, Ironic 22.0).
	ParentNodes bool
	// AgentInspection is set if Ironic itself inspects nodes by its ramdisk, with the inspect interface
	// agent. Without it, that takes ironic-inspector (API 1.84, Ironic 22.1).
	AgentInspection bool
	// Firmware is set if the firmware of nodes can be read and updated, which takes a firmware
	// interface (API 1.86, Ironic 23.0).
	Firmware bool
	// Servicing is set if there is the verb service, which executes steps on deployed nodes, and nodes
	// have the field service_step (API 1.87, Ironic 23.0).
	Servicing bool
	// VirtualMedia is set if the virtual drives of nodes can be read (API 1.93, Ironic 26.0). They can be
	// written since API 1.89, which tells nobody whether that has succeeded.
	VirtualMedia bool
	// DisablePowerOff is set if nodes have the field disable_power_off, with which Ironic never
	// switches a machine off (API 1.95, Ironic 28.0).
	DisablePowerOff bool
	// AbortService is set if a service can be aborted after it has failed. No API version came with that;
	// 1.101 is that of Ironic 32.0, the first release that can. Ironic 31.0 has 1.99.
	AbortService bool
	// StrictIPMINames is set if the driver ipmi refuses the names of BMCs that have capital letters, whatever the node is to do (API 1.104,
	// Ironic 33.0).
	StrictIPMINames bool
	// Health is set if nodes have the field health, which the BMC reports (API 1.109, Ironic 34.0).
	Health bool
}

// FeaturesOf returns what an Ironic can do that is asked in the given version of its API.
func FeaturesOf(v APIVersion) Features {
	has := func(minor int) bool { return !v.IsOlderThan(APIVersion{1, minor}) }
	return Features{
		APIVersion: v,
		Quirks: Quirks{
			PatchMakesOwnParent: has(83) && !has(115),
			StuckAfterRAIDStep:  !has(96),
		},
		ParentNodes:     has(83),
		AgentInspection: has(84),
		Firmware:        has(86),
		Servicing:       has(87),
		VirtualMedia:    has(93),
		DisablePowerOff: has(95),
		AbortService:    has(101),
		StrictIPMINames: has(104),
		Health:          has(109),
	}
}
