// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// updateStep is how a preparation names the step that updates firmware.
const updateStep = "firmware.update"

// firmwareUpdates are the updates in the spec of a HostFirmwareComponents. Which of them were
// made is in the status of that object.
type firmwareUpdates struct{}

func (firmwareUpdates) differs(m Machine) bool { return len(pendingUpdates(m)) > 0 }

// addTo adds a step for each update, in the user's order. One step could make several updates, but
// Ironic 29.0 waits for ever between two of them if the BMC has restarted itself after its own
// update and has forgotten the task.
func (firmwareUpdates) addTo(clean *Clean, m Machine) error {
	pending := pendingUpdates(m)
	if m.NotPolled && len(pending) > 0 {
		return errors.New("this Ironic (29.0.5) would never notice the end of a firmware update, because it has made the node its own parent when the node was changed: " +
			`take the update back, or give the host a new node while it runs nothing, by detaching it with the annotation baremetalhost.metal3.io/detached={"force":true} and attaching it again`)
	}
	if len(clean.Steps) > 0 && ironic.MaySkipNextStep(raidInterfaceOf(m.Host)) {
		return nil // They have the next clean or service: nothing shows that an update was skipped.
	}
	for _, update := range pending {
		clean.Steps = append(clean.Steps, ironic.StepRequest{Interface: "firmware", Step: "update", Args: map[string]any{
			"settings": []map[string]any{{"component": update.Component, "url": update.URL}},
		}})
		clean.FirmwareUpdates = append(clean.FirmwareUpdates, update)
	}
	return nil
}

// pendingUpdates returns the updates that were not made yet. It returns none if one of them is not
// valid, which the condition Valid reports, or if nothing is known of the machine's firmware yet.
func pendingUpdates(m Machine) []metal3.FirmwareUpdate {
	if m.Components == nil || m.Components.Status.Source == nil || len(faultsInUpdates(m.Components)) > 0 {
		return nil
	}
	return without(m.Components.Spec.Updates, updatesMade(m.Host, m.Components))
}

// without returns the updates that are not among made.
func without(updates, made []metal3.FirmwareUpdate) (left []metal3.FirmwareUpdate) {
	is := map[metal3.FirmwareUpdate]bool{}
	for _, update := range made {
		is[update] = true
	}
	for _, update := range updates {
		if !is[update] {
			left = append(left, update)
		}
	}
	return left
}

// updatesMade returns the last update of each component: those that are recorded, and those that
// the last preparation or service has made and that are not recorded yet. Nobody knows which firmware a
// component has whose update has failed.
func updatesMade(host *metal3.BareMetalHost, components *metal3.HostFirmwareComponents) []metal3.FirmwareUpdate {
	recorded := components.Status.Updates
	if !HasUnrecordedUpdates(host, components) {
		return recorded
	}
	last := lastUpdates(host)
	attempted := map[string]bool{}
	for _, update := range last.FirmwareUpdates {
		attempted[update.Component] = true
	}
	var made []metal3.FirmwareUpdate
	for _, update := range recorded {
		if !attempted[update.Component] {
			made = append(made, update)
		}
	}
	return append(made, updatesMadeBy(last)...)
}

// updatesMadeBy returns the updates that a preparation has made. If it has failed, these are the ones
// whose steps have certainly ended: Ironic begins a step when the one before has succeeded.
func updatesMadeBy(p *metal3.Preparation) []metal3.FirmwareUpdate {
	if p.Phase == metal3.PreparationSucceeded {
		return p.FirmwareUpdates
	}
	made := 0
	for i, step := range p.Steps {
		if step == updateStep && i < p.StepsDone {
			made++
		}
	}
	return p.FirmwareUpdates[:min(made, len(p.FirmwareUpdates))]
}

// HasUnrecordedUpdates reports whether a preparation or a service of the host has ended that was to update
// firmware, and components does not say yet what it has done.
func HasUnrecordedUpdates(host *metal3.BareMetalHost, components *metal3.HostFirmwareComponents) bool {
	p := lastUpdates(host)
	return p != nil && (components.Status.PreparedAt == nil || !components.Status.PreparedAt.Equal(new(requestedIn(p))))
}

// requestedIn tells preparations and services of a host apart, by the time at which the node had come into the state in
// which they were requested. It does not order them: conductors' clocks differ, as those of this server's replicas do, and an update
// that seems to be recorded already would be made again, without end.
func requestedIn(p *metal3.Preparation) metav1.MicroTime {
	if p.StateChangedAt == nil { // Ironic has not told it
		return metav1.NewMicroTime(p.StartedAt.Time)
	}
	return *p.StateChangedAt
}

// lastUpdates returns the last preparation of the host that was to update firmware and has ended, or its last
// service, which is forgotten when the host runs nothing any more, and so is always later (see Supersede); nil if there is none.
func lastUpdates(host *metal3.BareMetalHost) *metal3.Preparation {
	if s := host.Status.Record.Servicing; s != nil && s.EndedAt != nil && len(s.FirmwareUpdates) > 0 {
		return &s.Preparation
	}
	if p := host.Status.Record.Preparation; p != nil && p.EndedAt != nil && len(p.FirmwareUpdates) > 0 {
		return p
	}
	return nil
}

// Supersede forgets which updates the last preparation of a host has made, when a service is about to make others. They are recorded
// by then in the HostFirmwareComponents, where they would be recorded once more, as the last ones, when the service is forgotten.
func Supersede(status *metal3.BareMetalHostStatus, service *Clean) {
	if p := status.Record.Preparation; p != nil && len(service.FirmwareUpdates) > 0 {
		p.FirmwareUpdates = nil
	}
}

func (firmwareUpdates) allowedBy(policy metal3.HostUpdatePolicySpec) bool {
	return policy.FirmwareUpdates == metal3.UpdateOnReboot
}

// arrived has nothing to record in the host: what was updated is recorded in the HostFirmwareComponents.
func (firmwareUpdates) arrived(*metal3.BareMetalHostStatus, Machine) {}
