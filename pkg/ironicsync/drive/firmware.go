package drive

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/drive/events"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/firmware"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

// FirmwareKeeper keeps the HostFirmwareSettings of hosts, one for each host, of its name.
type FirmwareKeeper interface {
	List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	// EnsureExists creates the settings of a host if necessary, without asking Ironic.
	EnsureExists(ctx context.Context, host *metal3.BareMetalHost) error
	// Ensure creates the settings of a host if necessary, and brings them up to date with
	// Ironic. The schema is nil if nothing is known of the machine's settings yet.
	Ensure(ctx context.Context, host *metal3.BareMetalHost) (*metal3.HostFirmwareSettings, *metal3.FirmwareSchema, error)
}

// firmwareOf are the BIOS settings and the firmware of a host; nil if they do not matter now.
type firmwareOf struct {
	settings   *metal3.HostFirmwareSettings
	schema     *metal3.FirmwareSchema
	components *metal3.HostFirmwareComponents
	// policy says what may be changed while the host runs something; nil if nothing may.
	policy *metal3.HostUpdatePolicySpec
	// canService and canAbortService tell what Ironic can do for that.
	canService, canAbortService bool
	// raidAlone is set if RAID and BIOS settings need a clean each.
	raidAlone bool
	// generation is that of the settings that a user has written, and 0 while none has.
	generation int64
	// componentsGeneration is the same for the components.
	componentsGeneration int64
}

// firmwareWatch has hosts planned when their HostFirmwareSettings or HostFirmwareComponents change,
// and knows which of these are up to date.
type firmwareWatch struct {
	keeper     FirmwareKeeper
	informer   cache.SharedIndexInformer
	components *componentWatch
}

func newFirmwareWatch(bios FirmwareKeeper, components ComponentKeeper, sink EventSink, changed func(types.NamespacedName)) *firmwareWatch {
	w := &firmwareWatch{keeper: bios, components: &componentWatch{keeper: components}}
	w.informer = newFirmwareInformer(bios, &metal3.HostFirmwareSettings{}, changed, func(old, obj any) {
		was, is := old.(*metal3.HostFirmwareSettings), obj.(*metal3.HostFirmwareSettings)
		tellFaults(sink, "HostFirmwareSettings", is, was.Status.Conditions, is.Status.Conditions)
	})
	_ = w.informer.SetTransform(withoutValues) // it does not fail before the informer runs
	w.components.informer = newFirmwareInformer(components, &metal3.HostFirmwareComponents{}, changed, func(old, obj any) {
		was, is := old.(*metal3.HostFirmwareComponents), obj.(*metal3.HostFirmwareComponents)
		tellFaults(sink, "HostFirmwareComponents", is, was.Status.Conditions, is.Status.Conditions)
	})
	return w
}

// listerWatcher lists and watches the recorded objects of a kind.
type listerWatcher interface {
	List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// newFirmwareInformer returns an informer of the objects of a kind, each of which has the name of
// its host. changed is called for the host of each object that changes, and updated for each object
// that is updated.
func newFirmwareInformer(objects listerWatcher, example runtime.Object, changed func(types.NamespacedName), updated func(old, obj any)) cache.SharedIndexInformer {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return objects.Watch(ctx, options)
		},
	}, example, 0, nil)
	tell := func(obj any) {
		if key, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			changed(types.NamespacedName{Namespace: key.Namespace, Name: key.Name})
		}
	}
	// It does not fail before the informer runs.
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell, UpdateFunc: func(old, obj any) { tell(obj); updated(old, obj) }, DeleteFunc: tell,
	})
	return informer
}

// tellFaults tells as an event that the spec of an object is not valid, in the words of the
// condition Valid, if that was not so before. Whoever has set the condition may be another replica.
func tellFaults(sink EventSink, kind string, obj metav1.Object, was, is []metav1.Condition) {
	fault, before := meta.FindStatusCondition(is, settings.ValidCondition), meta.FindStatusCondition(was, settings.ValidCondition)
	if fault == nil || fault.Status != metav1.ConditionFalse || before != nil && before.Status == fault.Status && before.Message == fault.Message {
		return
	}
	sink.RecordObject(&corev1.ObjectReference{
		APIVersion: metal3.SchemeGroupVersion.String(), Kind: kind,
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
	}, events.Event{Type: corev1.EventTypeNormal, Reason: "ValidationFailed", Message: fault.Message})
}

// run runs the informers until ctx ends.
func (w *firmwareWatch) run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { w.informer.RunWithContext(ctx) })
	running.Go(func() { w.components.informer.RunWithContext(ctx) })
	running.Wait()
}

// runsNothing tells whether the host is in a state in which its settings are applied.
func runsNothing(host *metal3.BareMetalHost) bool {
	switch host.Status.Provisioning.State {
	case metal3.StatePreparing, metal3.StateAvailable, metal3.StateReady:
		return true
	}
	return false
}

// mayBeServiced tells whether changes may be made to the host that the policy permits while it runs
// something. isChanged tells whether the watch knows of any. Before a host is switched on, that does not
// suffice: the user may have written them just before.
func mayBeServiced(host *metal3.BareMetalHost, isChanged bool) bool {
	return lifecycle.RunsSomething(host) && (isChanged || isServiceOpen(host) || !host.Status.PoweredOn)
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

// of returns the BIOS settings and the firmware of a host if they matter now, after it has brought them
// up to date; otherwise, it only makes sure that they exist. They matter while the host runs nothing and
// they ask for something, and while the policy permits changes. A failure to read them keeps nothing else
// from being done unless they ask for something.
func (w *firmwareWatch) of(ctx context.Context, host *metal3.BareMetalHost, policy *metal3.HostUpdatePolicySpec) (firmwareOf, error) {
	recorded := w.recorded(host)
	isWanted := recorded != nil && len(recorded.Spec.Settings) > 0
	bios := firmwareOf{}
	if err := w.components.of(ctx, host, policy, &bios); err != nil {
		return bios, err
	}
	if recorded != nil && (recorded.Generation > 1 || isWanted) {
		bios.generation = recorded.Generation
	}
	matters := isWanted && runsNothing(host) ||
		policy != nil && policy.FirmwareSettings == metal3.UpdateOnReboot && mayBeServiced(host, isWanted && (firmware.IsDue(host, recorded) || firmware.IsChanged(recorded.Status.Conditions)))
	if recorded == nil && firmware.Has(host) {
		if err := w.keeper.EnsureExists(ctx, host); err != nil {
			klog.FromContext(ctx).Error(err, "The HostFirmwareSettings cannot be created")
		}
	}
	if !firmware.Has(host) && !isServiceOpen(host) || !matters {
		return bios, nil
	}
	settings, schema, err := w.keeper.Ensure(ctx, host)
	switch {
	case err != nil && isWanted:
		return bios, err
	case err != nil:
		klog.FromContext(ctx).Error(err, "The HostFirmwareSettings cannot be brought up to date")
	default:
		bios.settings, bios.schema = settings, schema
	}
	return bios, nil
}

func (w *firmwareWatch) recorded(host *metal3.BareMetalHost) *metal3.HostFirmwareSettings {
	known, _, _ := w.informer.GetStore().GetByKey(host.Namespace + "/" + host.Name) // the error is never set
	recorded, _ := known.(*metal3.HostFirmwareSettings)
	return recorded
}

// refresh brings the HostFirmwareSettings and HostFirmwareComponents of a host up to date. It is called
// when there is nothing else to do for the host, because no step depends on it, and Ironic takes twice as
// long for each of these lists as for a node: when they were read after each state on the way to provisioned,
// that took nearly a tenth of Ironic's CPU time. Nor is there nothing else to do while Ironic works on the node:
// a state that it has just reached may be followed by the next step as soon as the lock is released. A read of the
// objects refreshes them anyway.
func (w *firmwareWatch) refresh(ctx context.Context, host *metal3.BareMetalHost) {
	if node := host.Status.Ironic; node != nil && (node.Reservation != "" || ironic.ProvisionState(node.ProvisionState).IsInTransit()) {
		return
	}
	// What has just been created has the host planned again.
	if recorded := w.recorded(host); recorded != nil && firmware.IsDue(host, recorded) {
		if _, _, err := w.keeper.Ensure(ctx, host); err != nil {
			klog.FromContext(ctx).Error(err, "The HostFirmwareSettings cannot be brought up to date")
		}
	}
	w.components.refresh(ctx, host)
}
