package drive

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/firmware"
)

// FirmwareKeeper keeps the HostFirmwareSettings of hosts, one for each host, of its name.
type FirmwareKeeper interface {
	List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	// Ensure creates the settings of a host if necessary, and brings them up to date with
	// Ironic. The schema is nil if nothing is known of the machine's settings yet.
	Ensure(ctx context.Context, host *metal3.BareMetalHost) (*metal3.HostFirmwareSettings, *metal3.FirmwareSchema, error)
}

// firmwareOf are the BIOS settings of a host; nil if they do not matter now.
type firmwareOf struct {
	// policy says what may be changed while the host runs something; nil if nothing may.
	policy *metal3.HostUpdatePolicySpec
	// canService and canAbortService tell what Ironic can do for that.
	canService, canAbortService bool
	settings                    *metal3.HostFirmwareSettings
	schema                      *metal3.FirmwareSchema
	// generation is that of the settings that a user has written, and 0 while none has.
	generation int64
}

// firmwareWatch has hosts planned when their HostFirmwareSettings change, and knows which of them
// are up to date.
type firmwareWatch struct {
	keeper   FirmwareKeeper
	informer cache.SharedIndexInformer
}

func newFirmwareWatch(keeper FirmwareKeeper, changed func(types.NamespacedName)) *firmwareWatch {
	w := &firmwareWatch{keeper: keeper}
	w.informer = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return keeper.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return keeper.Watch(ctx, options)
		},
	}, &metal3.HostFirmwareSettings{}, 0, nil)
	// Neither fails before the informer runs.
	_ = w.informer.SetTransform(withoutValues)
	_, _ = w.informer.AddEventHandler(tellKey(changed))
	return w
}

// tellKey calls changed with the name of each object that changes.
func tellKey(changed func(types.NamespacedName)) cache.ResourceEventHandler {
	tell := func(obj any) {
		if key, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			changed(types.NamespacedName{Namespace: key.Namespace, Name: key.Name})
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: tell, UpdateFunc: func(_, obj any) { tell(obj) }, DeleteFunc: tell}
}

// withoutValues drops the values of all settings, which take most of the memory.
func withoutValues(obj any) (any, error) {
	if settings, ok := obj.(*metal3.HostFirmwareSettings); ok {
		light := settings.DeepCopy()
		light.Status.Settings, light.ManagedFields = nil, nil
		return light, nil
	}
	return obj, nil
}

// of returns the BIOS settings of a host, after it has brought them up to date. They matter while
// the host runs nothing, or the policy permits changes, and its settings ask for something. A
// failure to read them otherwise keeps nothing else from being done.
func (w *firmwareWatch) of(ctx context.Context, host *metal3.BareMetalHost, policy *metal3.HostUpdatePolicySpec) (firmwareOf, error) {
	known, _, _ := w.informer.GetStore().GetByKey(host.Namespace + "/" + host.Name) // the error is never set
	recorded, _ := known.(*metal3.HostFirmwareSettings)
	isWanted := recorded != nil && len(recorded.Spec.Settings) > 0
	bios := firmwareOf{}
	if recorded != nil && (recorded.Generation > 1 || isWanted) {
		bios.generation = recorded.Generation
	}
	matters := false
	switch host.Status.Provisioning.State {
	case metal3.StatePreparing, metal3.StateAvailable, metal3.StateReady:
		matters = isWanted
	case metal3.StateProvisioned, metal3.StateExternallyProvisioned:
		if policy == nil || policy.FirmwareSettings != metal3.UpdateOnReboot {
			break
		}
		// Before a host is switched on, what is known from the watch does not suffice: the user may
		// have written the settings just before.
		matters = !host.Status.PoweredOn || isWanted && (isServiceOpen(host) || firmware.IsDue(host, recorded) || firmware.IsChanged(recorded))
	}
	if !firmware.Has(host) && !isServiceOpen(host) || !firmware.IsDue(host, recorded) && !matters {
		return bios, nil
	}
	settings, schema, err := w.keeper.Ensure(ctx, host)
	switch {
	case err != nil && matters:
		return bios, err
	case err != nil:
		klog.FromContext(ctx).Error(err, "The HostFirmwareSettings cannot be brought up to date")
	case matters:
		bios.settings, bios.schema = settings, schema
	}
	return bios, nil
}
