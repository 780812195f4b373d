// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

// Preview says, for people, what would be done to the machine of the host of obj, which is a
// HostFirmwareSettings or HostFirmwareComponents that somebody may write. The text is empty if nothing
// would be done. Ironic is not asked.
func (r *Reader) Preview(ctx context.Context, obj runtime.Object) (string, error) {
	wanted, err := meta.Accessor(obj)
	if err != nil {
		return "", err
	}
	host, err := r.Hosts.Get(ctx, wanted.GetNamespace(), wanted.GetName())
	if apierrors.IsNotFound(err) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	if lifecycle.IsOfFormerHost(host, wanted) {
		return "nothing would be changed: this belongs to a former host of the name, and is about to be deleted", nil
	}
	m, conditions, err := r.machineWith(ctx, host, obj)
	if err != nil {
		return "", err
	}
	if valid := meta.FindStatusCondition(conditions, settings.ValidCondition); valid != nil && valid.Status == metav1.ConditionFalse {
		return "nothing would be changed: " + valid.Message, nil
	}
	if unread := meta.FindStatusCondition(conditions, settings.UpToDateCondition); unread != nil {
		return "nothing would be changed yet: " + unread.Message, nil
	}
	waits := ""
	if detected := meta.FindStatusCondition(conditions, settings.ChangeDetectedCondition); detected != nil && detected.Message != "" {
		waits = ". " + detected.Message
	}
	if m.Policy, err = r.policyOf(ctx, host); err != nil {
		return "", err
	}
	m.NotPolled = host.Status.Ironic != nil && host.Status.Ironic.OwnParent
	return describeChange(m, waits), nil
}

// machineWith returns a host's machine as it is to be with an object, and the conditions that the object gets.
func (r *Reader) machineWith(ctx context.Context, host *metal3.BareMetalHost, obj runtime.Object) (
	m settings.Machine, conditions []metav1.Condition, err error,
) {
	m.Host = host.DeepCopy()
	m.Host.Status.Record.RequestedClean = nil // which is carried out first
	now := metav1.NewTime(r.Settings.clock.Now())
	switch obj := obj.(type) {
	case *metal3.HostFirmwareSettings:
		m.Firmware = obj.DeepCopy()
		if named := obj.Status.FirmwareSchema; named != nil {
			if m.Schema, err = r.Settings.schemas.objects.Get(ctx, named.Namespace, named.Name); err != nil {
				return m, nil, err
			}
		}
		settings.UpdateBIOSConditions(m.Firmware, obj, m.Schema, now)
		conditions = m.Firmware.Status.Conditions
	case *metal3.HostFirmwareComponents:
		m.Components = obj.DeepCopy()
		settings.UpdateComponentConditions(m.Components, obj, now)
		conditions = m.Components.Status.Conditions
	}
	return m, conditions, nil
}

// describeChange says what would be done to a machine; empty if nothing would be. waits follows, which is about changes
// that are not made yet.
func describeChange(m settings.Machine, waits string) string {
	name := m.Host.Name
	if m.Policy != nil {
		service, err := settings.NextService(m)
		switch {
		case err != nil:
			return fmt.Sprintf("nothing would be changed on host %s: %s", name, err)
		case service != nil:
			return fmt.Sprintf("host %s: at its next reboot, Ironic would carry out the service steps %s%s", name, describe(service), waits)
		}
		m.Policy = nil // it does not permit this change
	}
	clean, err := settings.NextClean(m)
	switch {
	case err != nil:
		return fmt.Sprintf("nothing would be changed on host %s: %s", name, err)
	case clean == nil:
		return ""
	}
	when := ""
	switch state := m.Host.Status.Provisioning.State; state {
	case metal3.StateAvailable, metal3.StateReady, metal3.StatePreparing:
	default:
		when = fmt.Sprintf("when it runs nothing (it is %s now), ", state)
	}
	return fmt.Sprintf("host %s: %sthe machine would be rebooted for the clean steps %s%s", name, when, describe(clean), waits)
}

// policyOf returns what may be changed on the machine of a host that runs something; nil if nothing may.
func (r *Reader) policyOf(ctx context.Context, host *metal3.BareMetalHost) (*metal3.HostUpdatePolicySpec, error) {
	if !host.Status.Provisioning.State.RunsSomething() {
		return nil, nil
	}
	policy, err := r.Policies.Get(ctx, host.Namespace, host.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case lifecycle.IsOfFormerHost(host, policy):
		return nil, nil
	}
	return &policy.Spec, nil
}

// describe names the steps of a clean, and what they change.
func describe(clean *settings.Clean) string {
	updates := clean.FirmwareUpdates
	var steps []string
	for _, step := range clean.Steps {
		name := step.Interface + "." + step.Step
		switch {
		case step.Interface == "bios":
			name += " (" + strings.Join(slices.Sorted(maps.Keys(clean.FirmwareSettings)), ", ") + ")"
		case step.Interface == "firmware" && len(updates) > 0:
			name += " (" + updates[0].Component + ")"
			updates = updates[1:]
		}
		steps = append(steps, name)
	}
	return strings.Join(steps, ", ")
}
