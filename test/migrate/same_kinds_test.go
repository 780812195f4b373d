// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// patchSettings patches the HostFirmwareSettings of a host.
func patchSettings(patch string) func(context.Context, *player) error {
	return func(ctx context.Context, p *player) error {
		_, err := p.metal3.Metal3V1alpha1().HostFirmwareSettings(p.ns).Patch(ctx, p.host.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
}

func settingIs(name, value string) func(context.Context, *player) bool {
	return func(ctx context.Context, p *player) bool {
		settings, err := p.metal3.Metal3V1alpha1().HostFirmwareSettings(p.ns).Get(ctx, p.host.Name, metav1.GetOptions{})
		return err == nil && settings.Status.Settings[name] == value
	}
}

func settingsCondition(kind string, status metav1.ConditionStatus) func(context.Context, *player) bool {
	return func(ctx context.Context, p *player) bool {
		settings, err := p.metal3.Metal3V1alpha1().HostFirmwareSettings(p.ns).Get(ctx, p.host.Name, metav1.GetOptions{})
		return err == nil && meta.IsStatusConditionPresentAndEqual(settings.Status.Conditions, kind, status)
	}
}

// patchComponents patches the HostFirmwareComponents of a host.
func patchComponents(patch string) func(context.Context, *player) error {
	return func(ctx context.Context, p *player) error {
		_, err := p.metal3.Metal3V1alpha1().HostFirmwareComponents(p.ns).Patch(ctx, p.host.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
}

func updated(ctx context.Context, p *player) bool {
	components, err := p.metal3.Metal3V1alpha1().HostFirmwareComponents(p.ns).Get(ctx, p.host.Name, metav1.GetOptions{})
	return err == nil && len(components.Status.Updates) == 1
}

func createDataImage(ctx context.Context, p *player) error {
	image := &metal3.DataImage{ObjectMeta: metav1.ObjectMeta{Name: p.host.Name}, Spec: metal3.DataImageSpec{URL: "http://192.0.2.1/data.iso"}}
	_, err := p.metal3.Metal3V1alpha1().DataImages(p.ns).Create(ctx, image, metav1.CreateOptions{})
	return err
}

func dataImageAttached(ctx context.Context, p *player) bool {
	image, err := p.metal3.Metal3V1alpha1().DataImages(p.ns).Get(ctx, p.host.Name, metav1.GetOptions{})
	return err == nil && image.Status.AttachedImage.URL != ""
}

func createSubscription(ctx context.Context, p *player) error {
	subscription := &metal3.BMCEventSubscription{ObjectMeta: metav1.ObjectMeta{Name: "events"}, Spec: metal3.BMCEventSubscriptionSpec{
		HostName: p.host.Name, Destination: "https://192.0.2.1/events", Context: "c",
	}}
	_, err := p.metal3.Metal3V1alpha1().BMCEventSubscriptions(p.ns).Create(ctx, subscription, metav1.CreateOptions{})
	return err
}

func subscribed(ctx context.Context, p *player) bool {
	subscription, err := p.metal3.Metal3V1alpha1().BMCEventSubscriptions(p.ns).Get(ctx, "events", metav1.GetOptions{})
	return err == nil && subscription.Status.SubscriptionID != ""
}
