// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// setBIOS has the BIOS setting NumCores changed.
func (l *life) setBIOS(cores int) error {
	return l.persist(func() error {
		settings, err := l.client.Metal3V1alpha1().HostFirmwareSettings(l.ns).Get(l.ctx, l.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := l.isOfThisLife(settings.OwnerReferences); err != nil {
			return err
		}
		_, err = l.client.Metal3V1alpha1().HostFirmwareSettings(l.ns).Patch(l.ctx, l.name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"settings":{"NumCores":%d}}}`, cores), metav1.PatchOptions{})
		return err
	})
}

// updateFirmware has the firmware of the BMC updated. This is not idempotent: its machine counts it.
func (l *life) updateFirmware(url string) error {
	return l.persist(func() error {
		components, err := l.client.Metal3V1alpha1().HostFirmwareComponents(l.ns).Get(l.ctx, l.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := l.isOfThisLife(components.OwnerReferences); err != nil {
			return err
		}
		_, err = l.client.Metal3V1alpha1().HostFirmwareComponents(l.ns).Patch(l.ctx, l.name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"updates":[{"component":"bmc","url":%q}]}}`, url), metav1.PatchOptions{})
		return err
	})
}

// isOfThisLife returns an error unless the host of now is among the owners. Objects of the last life are
// removed by the garbage collector, some time after their host.
func (l *life) isOfThisLife(owners []metav1.OwnerReference) error {
	host, err := l.hosts.Get(l.ctx, l.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return o.UID == host.UID }) {
		return fmt.Errorf("the owners are %v", owners)
	}
	return nil
}

// hasSettings reports whether the machine has the BIOS setting and the updates, and the API says so.
func (l *life) hasSettings(cores string, updates ...string) bool {
	settings, err := l.client.Metal3V1alpha1().HostFirmwareSettings(l.ns).Get(l.ctx, l.name, metav1.GetOptions{})
	if err != nil || settings.Status.Settings["NumCores"] != cores {
		return false
	}
	components, err := l.client.Metal3V1alpha1().HostFirmwareComponents(l.ns).Get(l.ctx, l.name, metav1.GetOptions{})
	return err == nil && slices.EqualFunc(components.Status.Updates, updates, func(u metal3.FirmwareUpdate, url string) bool { return u.URL == url })
}

func (l *life) permitChanges() error {
	policy := &metal3.HostUpdatePolicy{ObjectMeta: metav1.ObjectMeta{Name: l.name}, Spec: metal3.HostUpdatePolicySpec{FirmwareSettings: metal3.UpdateOnReboot}}
	return l.persist(func() error {
		_, err := l.client.Metal3V1alpha1().HostUpdatePolicies(l.ns).Create(l.ctx, policy, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil // an earlier request had got through
		}
		return err
	})
}

// permitNothing removes the policy, which would otherwise still be there when the next life begins.
func (l *life) permitNothing() error {
	return l.persist(func() error {
		err := l.client.Metal3V1alpha1().HostUpdatePolicies(l.ns).Delete(l.ctx, l.name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}
