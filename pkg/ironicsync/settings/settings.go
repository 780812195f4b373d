// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"cmp"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// Machine is a host, and the objects with settings of its machine.
type Machine struct {
	Host *metal3.BareMetalHost
	// Firmware has the host's BIOS settings, and Schema the values that they accept; nil if there
	// are none.
	Firmware *metal3.HostFirmwareSettings
	Schema   *metal3.FirmwareSchema
	// Components has the updates of the machine's firmware; nil if there are none.
	Components *metal3.HostFirmwareComponents
	// Policy is set if the machine runs something. It says which settings may be changed
	// nevertheless, by a service.
	Policy *metal3.HostUpdatePolicySpec
	// NotPolled is set if Ironic leaves the node out of its periodic checks, as 29.0.5 does with a
	// node that a PATCH has made its own parent. It never notices the end of a step then of which it
	// has to ask the BMC again and again.
	NotPolled bool
	// RAIDAlone is set if Ironic does not notice the end of a step that follows one for RAID.
	RAIDAlone bool
	// Reported is set if the host shows that its preparation, or its service, has failed.
	Reported bool
}

// last returns the record of the machine's last clean in status, or of its last service if it
// runs something; nil if there is none.
func (m Machine) last(status *metal3.BareMetalHostStatus) *metal3.Preparation {
	switch {
	case m.Policy == nil:
		return status.Record.Preparation
	case status.Record.Servicing == nil:
		return nil
	}
	return &status.Record.Servicing.Preparation
}

// Clean is a manual clean that applies settings, or a service that does so.
type Clean struct {
	// RAIDInterface is the raid_interface that the node must have; empty if the clean does
	// not need any.
	RAIDInterface string
	// LogicalDisks are the volumes that the clean creates; nil if it creates none.
	LogicalDisks []ironic.LogicalDisk
	// Steps are the clean or service steps, in their order.
	Steps []ironic.StepRequest
	// RAID is the layout that the machine has afterwards; nil if it does not change.
	RAID *metal3.RAIDConfig
	// FirmwareSettings are the BIOS settings that the clean changes, with their values, and those that the one
	// before it has changed for the same wish.
	FirmwareSettings metal3.SettingsMap
	// FirmwareUpdates are the updates that the clean makes, in their order.
	FirmwareUpdates []metal3.FirmwareUpdate
	// IsRequested is set if a user has asked for the steps by name.
	IsRequested bool
	// Policy is what permits a service; nil for a clean.
	Policy *metal3.HostUpdatePolicySpec
}

// setting is one kind of setting.
type setting interface {
	// differs reports whether what is wanted is not what is recorded as applied. That may be so
	// although Ironic has nothing to do.
	differs(m Machine) bool
	// addTo adds to clean what Ironic has to do next for what is not applied. The error is for
	// users: it says why what they want cannot be applied.
	addTo(clean *Clean, m Machine) error
	// arrived records in status what is wanted, when Ironic has nothing more to do for it.
	arrived(status *metal3.BareMetalHostStatus, m Machine)
	// allowedBy reports whether the policy permits changes while the machine runs something.
	allowedBy(policy metal3.HostUpdatePolicySpec) bool
}

// settings are all kinds, in the order in which their steps are carried out.
var settings = []setting{raid{}, bios{}, firmwareUpdates{}}

// Differ reports whether the host has to be prepared, because a setting is wanted otherwise than
// it is recorded.
func Differ(m Machine) bool {
	for _, s := range settings {
		if s.differs(m) {
			return true
		}
	}
	return false
}

// NextClean returns the next manual clean that is needed to apply what is wanted. It returns nil
// if Ironic has nothing to do, or nothing more. The error is for users: it says why what they
// want cannot be applied.
func NextClean(m Machine) (*Clean, error) {
	if clean, err := requestedClean(m.Host); clean != nil || err != nil {
		return clean, err
	}
	return next(m, settings)
}

// NextService returns the service that is needed to change what the policy permits on a machine
// that runs something. It returns nil if there is nothing to change. The error is for users.
func NextService(m Machine) (*Clean, error) {
	service, err := next(m, serviced(m))
	if service != nil {
		service.Policy = m.Policy
	}
	return service, err
}

// serviced returns the kinds of settings that may be changed while the machine runs something.
func serviced(m Machine) (permitted []setting) {
	for _, s := range settings {
		if m.Policy != nil && s.allowedBy(*m.Policy) {
			permitted = append(permitted, s)
		}
	}
	return permitted
}

func next(m Machine, kinds []setting) (*Clean, error) {
	clean := &Clean{}
	for _, s := range kinds {
		if err := s.addTo(clean, m); err != nil {
			return nil, err
		}
		if m.RAIDAlone && clean.RAID != nil {
			break // the other kinds have the next clean
		}
	}
	if len(clean.Steps) == 0 {
		return nil, nil
	}
	if last := m.last(&m.Host.Status); last != nil && last.Problem != "" && !m.Reported {
		return nil, errors.New(last.Problem) // it is tried again after the back-off
	}
	return clean, nil
}

// Arrived records that the machine has all settings that are wanted.
func Arrived(status *metal3.BareMetalHostStatus, m Machine) {
	if p := status.Record.Preparation; p != nil && p.Phase == metal3.PreparationRequested {
		p.StateChangedAt = nil // it has not begun, and is not wanted any more
	}
	for _, s := range settings {
		s.arrived(status, m)
	}
}

// Serviced records that the machine, which runs something, has all settings that are wanted and
// that the policy permits to change.
func Serviced(status *metal3.BareMetalHostStatus, m Machine) {
	for _, s := range serviced(m) {
		s.arrived(status, m)
	}
}

// IsServiced reports whether Serviced has nothing to record.
func IsServiced(m Machine) bool {
	status := m.Host.Status.DeepCopy()
	Serviced(status, m)
	return equality.Semantic.DeepEqual(status, &m.Host.Status)
}

// Request returns what is recorded before Ironic is asked for clean.
func Request(clean *Clean, node *metal3.IronicStatus, now metav1.Time) *metal3.Preparation {
	requested := &metal3.Preparation{
		NodeUUID: node.NodeUUID, Phase: metal3.PreparationRequested, StartedAt: now, Steps: []string{},
		RAID: clean.RAID.DeepCopy(), FirmwareSettings: clean.FirmwareSettings, FirmwareUpdates: clean.FirmwareUpdates,
		IsRequested: clean.IsRequested, StateChangedAt: node.StateChangedAt.DeepCopy(),
	}
	for _, step := range clean.Steps {
		requested.Steps = append(requested.Steps, nameOf(step.Interface, step.Step))
	}
	return requested
}

// Observe records in status how far the clean is that was requested, according to its node. before is
// what was recorded of the node; nil if nothing was.
func Observe(status *metal3.BareMetalHostStatus, before *metal3.IronicStatus, node *ironic.Node, now metav1.Time) {
	observeRequest(status, before, node, now)
	p := status.Record.Preparation
	if p == nil || p.Phase != metal3.PreparationRequested && p.Phase != metal3.PreparationRunning {
		return
	}
	end := func(phase metal3.PreparationPhase) {
		p.Phase, p.EndedAt = phase, &now
		if p.IsRequested {
			status.Record.RequestedClean = nil
		}
		if phase == metal3.PreparationFailed {
			p.Message = cut(cmp.Or(node.LastError, node.MaintenanceReason))
		}
	}
	switch state := node.ProvisionState; {
	case p.NodeUUID != node.UUID:
		end(metal3.PreparationFailed) // Ironic has lost the node, and with it what it was doing
	case isManualClean(node):
		p.Phase = metal3.PreparationRunning
		p.StepsDone = max(p.StepsDone, node.Internals.Clean.Number-1)
	case state == ironic.CleanFail && node.LastError == "" && node.Reservation != "":
		// Ironic is about to say why.
	case state == ironic.CleanFail:
		end(metal3.PreparationFailed)
	case p.Phase == metal3.PreparationRequested && !hasChangedState(p, node):
		// Ironic has not begun. The request is repeated, or is not wanted any more.
	case p.Phase == metal3.PreparationRequested && p.IsRequested:
		end(metal3.PreparationFailed)
		p.Message = "It was requested from Ironic while this server was stopping, and it is not known whether it was carried out"
	case state == ironic.Manageable && node.Reservation != "":
	case state == ironic.Manageable && node.LastError == "" && node.Fault == "":
		end(metal3.PreparationSucceeded)
		Succeeded(status, p, node)
	default:
		// Somebody asked Ironic for something else, and nobody has seen how the clean ended.
		end(metal3.PreparationFailed)
	}
}

// nameOf returns how a preparation names a step.
func nameOf(stepInterface, step string) string { return stepInterface + "." + step }

// stateChangedAt returns when the node has come into its state, with the precision in which it is
// recorded. It is nil if Ironic does not say.
func stateChangedAt(node *ironic.Node) *metav1.MicroTime {
	if node.ProvisionUpdatedAt == nil {
		return nil
	}
	changed := metav1.NewMicroTime(node.ProvisionUpdatedAt.Truncate(time.Microsecond))
	return &changed
}

// hasChangedState reports whether the node has been in another state since p was requested. If it is
// back in the same one, the steps have been carried out while nobody looked, because this server
// was not running. They are not to be requested again.
func hasChangedState(p *metal3.Preparation, node *ironic.Node) bool {
	changed := stateChangedAt(node)
	return changed != nil && p.StateChangedAt != nil && !changed.Equal(p.StateChangedAt)
}

// isManualClean reports whether a manual clean is in progress. After an automated one, the node
// becomes available.
func isManualClean(node *ironic.Node) bool {
	switch node.ProvisionState {
	case ironic.Cleaning, ironic.CleanWait, ironic.CleanHold:
		return node.TargetProvisionState == string(ironic.Manageable)
	}
	return false
}

// isOutcomeUnknown reports whether the last clean has not ended well, so that what it was to apply
// may be applied, or only a part of it.
func isOutcomeUnknown(p *metal3.Preparation) bool {
	return p != nil && p.Phase != metal3.PreparationSucceeded
}
