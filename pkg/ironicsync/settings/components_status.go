// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// The reasons of the conditions of a HostFirmwareComponents. Ironic without an API for firmware is
// one that the Bare Metal Operator does not support.
const (
	okReason               = "OK"
	invalidComponentReason = "InvalidComponent"
	notSupportedReason     = "NotSupported"
)

const (
	biosComponent = "bios"
	bmcComponent  = "bmc"
)

func isNIC(component string) bool { return strings.HasPrefix(component, metal3.NICComponentPrefix) }

// RecordFirmware records in the status of components what Ironic's list says.
func RecordFirmware(components *metal3.HostFirmwareComponents, list []ironic.FirmwareComponent, source *metal3.SettingsSource) {
	status := &components.Status
	status.Components = nil
	for _, c := range list {
		name := string(c.Component)
		if name != biosComponent && name != bmcComponent && !isNIC(name) {
			continue
		}
		component := metal3.FirmwareComponentStatus{
			Component: name, InitialVersion: string(c.InitialVersion), CurrentVersion: string(c.CurrentVersion), LastVersionFlashed: string(c.LastVersionFlashed),
		}
		if c.UpdatedAt != nil {
			component.UpdatedAt = metav1.NewTime(c.UpdatedAt.Truncate(1e9))
		}
		status.Components = append(status.Components, component)
	}
	slices.SortFunc(status.Components, func(a, b metal3.FirmwareComponentStatus) int { return cmp.Compare(a.Component, b.Component) })
	status.Source = source
	meta.RemoveStatusCondition(&status.Conditions, UpToDateCondition)
}

// RecordUpdates records in the status of components what the host's last preparation or service has updated.
func RecordUpdates(components *metal3.HostFirmwareComponents, host *metal3.BareMetalHost) {
	if HasUnrecordedUpdates(host, components) {
		components.Status.Updates = updatesMade(host, components)
		components.Status.PreparedAt = new(requestedIn(lastUpdates(host)))
	}
}

// UpdateComponentConditions sets the conditions of components, for the spec and the firmware that it has now.
// It reports whether the object has changed in comparison with before. While Ironic's list was not
// read yet, there are no conditions.
func UpdateComponentConditions(components, before *metal3.HostFirmwareComponents, now metav1.Time) (changed bool) {
	status := &components.Status
	if status.Source != nil {
		detected := metav1.Condition{Type: ChangeDetectedCondition, Status: metav1.ConditionFalse, Reason: okReason}
		valid := metav1.Condition{Type: ValidCondition, Status: metav1.ConditionTrue, Reason: okReason}
		if faults := faultsInUpdates(components); len(faults) > 0 {
			detected.Status = metav1.ConditionTrue
			valid.Status, valid.Reason = metav1.ConditionFalse, invalidComponentReason
			valid.Message = cut(fmt.Sprintf("Invalid Firmware Components: [%s]", strings.Join(faults, "; ")))
		} else if len(without(components.Spec.Updates, status.Updates)) > 0 {
			detected.Status = metav1.ConditionTrue
		} else {
			// What the user does not ask for any more is forgotten, so that it is updated if they ask for
			// it once more.
			status.Updates = append([]metal3.FirmwareUpdate(nil), components.Spec.Updates...)
		}
		setConditions(&status.Conditions, components.Generation, now, detected, valid)
	}
	return updatedAt(components, before, now)
}

// RefuseUpdates sets the condition of components that says that Ironic cannot update firmware. It
// reports whether the object has changed in comparison with before.
func RefuseUpdates(components, before *metal3.HostFirmwareComponents, now metav1.Time) (changed bool) {
	components.Status.Source = nil
	for _, kind := range []string{ChangeDetectedCondition, UpToDateCondition} {
		meta.RemoveStatusCondition(&components.Status.Conditions, kind)
	}
	setConditions(&components.Status.Conditions, components.Generation, now, metav1.Condition{
		Type: ValidCondition, Status: metav1.ConditionFalse, Reason: notSupportedReason,
		Message: "Ironic has no API for firmware, which came with its " + ironic.FirmwareSince + ": nothing is known of the host's firmware, and nothing is updated",
	})
	return updatedAt(components, before, now)
}

func updatedAt(components, before *metal3.HostFirmwareComponents, now metav1.Time) (changed bool) {
	if equality.Semantic.DeepEqual(components.Status, before.Status) {
		return false
	}
	components.Status.LastUpdated = &now
	return true
}

// faultsInUpdates returns what is wrong with the updates in the spec, as far as it can be told. The first fault is in the
// words of the Bare Metal Operator, which does not find the others.
func faultsInUpdates(components *metal3.HostFirmwareComponents) (faults []string) {
	var known []string
	for _, c := range components.Status.Components {
		known = append(known, c.Component)
	}
	found := cut(strings.Join(known, ", ")) // a BMC can have thousands of components, as can a spec
	named, length := map[string]bool{}, 0
	for _, update := range components.Spec.Updates {
		if length > maxMessage {
			break
		}
		name, before := update.Component, len(faults)
		switch {
		case name != biosComponent && name != bmcComponent && !isNIC(name):
			faults = append(faults, fmt.Sprintf("component %s is invalid, only 'bmc', 'bios', or names starting with 'nic:' are allowed as update names", name))
		case named[name]:
			faults = append(faults, fmt.Sprintf("component %s is named more than once", name))
		case len(known) == 0:
			faults = append(faults, fmt.Sprintf("component %s cannot be updated: Ironic has found no firmware on this machine", name))
		case isNIC(name) && !slices.Contains(known, name):
			faults = append(faults, fmt.Sprintf("component %s cannot be updated: Ironic has found %s on this machine (network adapters need Ironic 32 or later)", name, found))
		}
		named[name] = true
		if len(faults) > before {
			length += len(faults[before])
		}
	}
	return faults
}
