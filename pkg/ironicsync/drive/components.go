package drive

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/firmware"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

// ComponentKeeper keeps the HostFirmwareComponents of hosts, one for each host, of its name.
type ComponentKeeper interface {
	List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	// EnsureExists creates the components of a host if necessary, and tells whether they exist. They do not
	// if Ironic cannot update firmware.
	EnsureExists(ctx context.Context, host *metal3.BareMetalHost) (exist bool, err error)
	// Ensure creates the components of a host if necessary, and brings them up to date with
	// Ironic. They are nil if Ironic cannot update firmware.
	Ensure(ctx context.Context, host *metal3.BareMetalHost) (*metal3.HostFirmwareComponents, error)
}

// componentWatch has hosts planned when their HostFirmwareComponents change, and knows which of
// them are up to date.
type componentWatch struct {
	keeper   ComponentKeeper
	informer cache.SharedIndexInformer
}

// of adds to bios the firmware updates of a host if they matter now, after it has brought them up to
// date; otherwise, it only makes sure that they exist. They matter when BIOS settings do. In any state,
// it is recorded what a preparation has updated before another one may begin.
func (w *componentWatch) of(ctx context.Context, host *metal3.BareMetalHost, policy *metal3.HostUpdatePolicySpec, bios *firmwareOf) error {
	recorded := w.recorded(host)
	isWanted := recorded != nil && len(recorded.Spec.Updates) > 0
	if recorded != nil && (recorded.Generation > 1 || isWanted) {
		bios.componentsGeneration = recorded.Generation
	}
	isServiced := policy != nil && policy.FirmwareUpdates == metal3.UpdateOnReboot &&
		mayBeServiced(host, isWanted && (firmware.AreComponentsDue(host, recorded) || firmware.IsChanged(recorded.Status.Conditions)))
	isUnrecorded := recorded != nil && settings.HasUnrecordedUpdates(host, recorded)
	matters := isWanted && runsNothing(host) || isServiced || isUnrecorded
	if recorded == nil && firmware.AreComponentsDue(host, nil) {
		if _, err := w.keeper.EnsureExists(ctx, host); err != nil {
			klog.FromContext(ctx).Error(err, "The HostFirmwareComponents cannot be created")
		}
	}
	if !firmware.Has(host) && !isServiceOpen(host) || !matters {
		return nil
	}
	components, err := w.keeper.Ensure(ctx, host)
	switch {
	case err != nil && (isWanted || isUnrecorded):
		return err
	case err != nil:
		klog.FromContext(ctx).Error(err, "The HostFirmwareComponents cannot be brought up to date")
	default:
		bios.components = components
	}
	return nil
}

func (w *componentWatch) recorded(host *metal3.BareMetalHost) *metal3.HostFirmwareComponents {
	known, _, _ := w.informer.GetStore().GetByKey(host.Namespace + "/" + host.Name) // the error is never set
	recorded, _ := known.(*metal3.HostFirmwareComponents)
	return recorded
}

// refresh does for the components what firmwareWatch.refresh does for the settings.
func (w *componentWatch) refresh(ctx context.Context, host *metal3.BareMetalHost) {
	recorded := w.recorded(host)
	if recorded == nil || !firmware.AreComponentsDue(host, recorded) {
		return
	}
	if _, err := w.keeper.Ensure(ctx, host); err != nil {
		klog.FromContext(ctx).Error(err, "The HostFirmwareComponents cannot be brought up to date")
	}
}
