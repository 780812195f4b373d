// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"errors"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/events"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

// Deps are what a Watch works with.
type Deps struct {
	Settings   *SettingsKeeper
	Components *ComponentKeeper
	Policies   kinds.Store[*metal3.HostUpdatePolicy]
}

// HostSettings are the BIOS settings and the firmware of a host; nil if they do not matter now.
type HostSettings struct {
	BIOSSettings *metal3.HostFirmwareSettings
	Schema       *metal3.FirmwareSchema
	Components   *metal3.HostFirmwareComponents
	// Policy says what may be changed while the host runs something; nil if nothing may.
	Policy *metal3.HostUpdatePolicySpec
	// CanService and CanAbortService tell what Ironic can do for that.
	CanService, CanAbortService bool
	// RAIDAlone is set if RAID and BIOS settings need a clean each.
	RAIDAlone bool
	// BIOSGeneration is that of the settings that a user has written, and 0 while none has.
	BIOSGeneration int64
	// ComponentsGeneration is the same for the components.
	ComponentsGeneration int64
	// Unread says, for people, which wishes cannot be compared with what the machine has, and why; empty if all can.
	Unread string
}

// Watch requeues hosts when their HostFirmwareSettings, HostFirmwareComponents or HostUpdatePolicies change,
// and knows which of these are up to date.
type Watch struct {
	keeper     *SettingsKeeper
	bios       *watched[*metal3.HostFirmwareSettings]
	components *watched[*metal3.HostFirmwareComponents]
	policies   *policies
}

// NewWatch returns a Watch, which calls requeue for the host of each object that changes.
func NewWatch(deps Deps, sink kinds.Events, requeue func(types.NamespacedName)) *Watch {
	w := &Watch{
		keeper:     deps.Settings,
		bios:       newWatched(deps.Settings.Keeper, &metal3.HostFirmwareSettings{}, sink, requeue),
		components: newWatched(deps.Components, &metal3.HostFirmwareComponents{}, sink, requeue),
		policies:   &policies{deps.Policies, newInformer(deps.Policies, &metal3.HostUpdatePolicy{}, requeue, func(_, _ any) {})},
	}
	_ = w.bios.informer.SetTransform(withoutValues) // it does not fail before the informer runs
	return w
}

// Run watches until ctx ends, and begins with the schemas that nothing uses.
func (w *Watch) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.keeper.leaveUnnamed(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "FirmwareSchemas may stay that nothing uses, until another replica leads")
		}
	})
	for _, informer := range w.informers() {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	running.Wait()
}

// HasSynced reports whether all objects that existed when Run was called are known.
func (w *Watch) HasSynced() bool {
	for _, informer := range w.informers() {
		if !informer.HasSynced() {
			return false
		}
	}
	return true
}

func (w *Watch) informers() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{w.bios.informer, w.components.informer, w.policies.informer}
}

// PolicyFor returns what may be changed while the host runs something; nil if there is no policy.
func (w *Watch) PolicyFor(host *metal3.BareMetalHost) *metal3.HostUpdatePolicySpec {
	return w.policies.of(host)
}

// StoredPolicyFor returns what PolicyFor returns, as it is stored at this moment.
func (w *Watch) StoredPolicyFor(ctx context.Context, host *metal3.BareMetalHost) (*metal3.HostUpdatePolicySpec, error) {
	return w.policies.stored(ctx, host)
}

// SettingsFor returns what is known of the settings of a host, as far as they matter now, and makes sure
// that the objects exist.
func (w *Watch) SettingsFor(ctx context.Context, host *metal3.BareMetalHost) (found HostSettings, err error) {
	w.policies.own(ctx, host)
	policy := w.policies.of(host)
	found.Policy = policy
	if found.Components, found.ComponentsGeneration, err = w.components.of(ctx, host, policy); found.isBeyond(err) {
		return found, err
	}
	if found.BIOSSettings, found.BIOSGeneration, err = w.bios.of(ctx, host, policy); found.isBeyond(err) {
		return found, err
	}
	if found.BIOSSettings != nil {
		if found.Schema, err = w.keeper.SchemaOf(ctx, found.BIOSSettings); err != nil {
			return found, err
		}
	}
	planned := (found.BIOSSettings != nil || found.Components != nil) && runsNothing(host)
	changed := host.Status.Provisioning.State.RunsSomething() && (policy != nil || host.Status.Record.Servicing != nil)
	if !planned && !changed {
		return found, nil
	}
	client, err := w.keeper.ironicOf(host)
	if err != nil {
		return found, err
	}
	features, err := client.Features(ctx)
	if planned {
		found.RAIDAlone = features.Quirks.StuckAfterRAIDStep
	}
	if changed {
		found.CanService, found.CanAbortService = features.Servicing, features.AbortService
	}
	return found, err
}

// isBeyond reports whether an error is about more than a wish that has to wait, which it records.
func (h *HostSettings) isBeyond(err error) bool {
	unread := new(unreadWish)
	if !errors.As(err, &unread) {
		return err != nil
	}
	h.Unread = strings.TrimPrefix(h.Unread+". "+unread.Error(), ". ")
	return false
}

// unreadWish says that what an object of a kind asks for has to wait.
type unreadWish struct {
	kind   string
	reason *unreadError
}

func (e *unreadWish) Error() string {
	return "What the " + e.kind + " asks for has to wait. " + e.reason.Error()
}

// Refresh brings the HostFirmwareSettings and HostFirmwareComponents of a host up to date. It is called
// when there is nothing else to do for the host, because no step depends on it, and Ironic takes twice as
// long for each of these lists as for a node: when they were read after each state on the way to provisioned,
// that took nearly a tenth of Ironic's CPU time. Nor is there nothing else to do while Ironic works on the node:
// a state that it has just reached may be followed by the next step as soon as the lock is released, or, after an
// inspection, as soon as the inventory is there. A read of the objects refreshes them anyway.
func (w *Watch) Refresh(ctx context.Context, host *metal3.BareMetalHost) {
	if node := host.Status.Ironic; node != nil && (node.Reservation != "" || ironic.ProvisionState(node.ProvisionState).IsInTransit() ||
		node.InventoryPending && host.Status.Provisioning.State == metal3.StateInspecting) {
		return
	}
	w.bios.refresh(ctx, host)
	w.components.refresh(ctx, host)
}

// watched are the objects of a kind, of which each host has one, as they are known from a watch.
type watched[T kinds.Object] struct {
	keeper   *Keeper[T]
	informer cache.SharedIndexInformer
}

func newWatched[T kinds.Object](keeper *Keeper[T], example T, sink kinds.Events, requeue func(types.NamespacedName)) *watched[T] {
	kind := keeper.kind
	return &watched[T]{keeper, newInformer(keeper.objects, example, requeue, func(old, obj any) {
		reportFaults(sink, kind.name(), obj.(T), kind.conditions(old.(T)), kind.conditions(obj.(T)))
	})}
}

// newInformer returns an informer of the objects of a kind, each of which has the name of its host. requeue
// is called for the host of each object that changes, and updated for each object that is updated.
func newInformer(objects kinds.Objects, example runtime.Object, requeue func(types.NamespacedName), updated func(old, obj any)) cache.SharedIndexInformer {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: objects.List, WatchFuncWithContext: objects.Watch,
	}, example, 0, nil)
	changed := func(obj any) {
		if key, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			requeue(types.NamespacedName{Namespace: key.Namespace, Name: key.Name})
		}
	}
	// It does not fail before the informer runs.
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(old, obj any) { changed(obj); updated(old, obj) }, DeleteFunc: changed,
	})
	return informer
}

// reportFaults records an event if the spec of an object is not valid, in the words of the condition Valid,
// and that was not so before. The condition may have been set by another replica.
func reportFaults(sink kinds.Events, kind string, obj metav1.Object, before, after []metav1.Condition) {
	old, fault := meta.FindStatusCondition(before, settings.ValidCondition), meta.FindStatusCondition(after, settings.ValidCondition)
	if fault == nil || fault.Status != metav1.ConditionFalse || old != nil && old.Status == fault.Status && old.Message == fault.Message {
		return
	}
	sink.RecordObject(kinds.ReferenceTo(kind, obj), events.Event{Type: corev1.EventTypeNormal, Reason: "ValidationFailed", Message: fault.Message})
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

func (w *watched[T]) recorded(host *metal3.BareMetalHost) (obj T, exists bool) {
	known, _, _ := w.informer.GetStore().GetByKey(host.Namespace + "/" + host.Name) // the error is never set
	obj, exists = known.(T)
	return obj, exists
}

// decision is what is to be done about the object of a host, and what that means for the host.
type decision struct {
	// create is set if the object does not exist and has to, and refresh if it matters now, and has to be up to date.
	create, refresh bool
	// requested is set if the object asks for something.
	requested bool
	// recording is set if what was done to the machine has to be recorded before anything else is done.
	recording bool
	// generation is that of an object that a user has written, and 0 while none has.
	generation int64
}

// decide decides about the object of a host. It matters while the host runs nothing and the object asks for
// something, and while the policy permits changes. That of a former host never does.
func (w *watched[T]) decide(host *metal3.BareMetalHost, policy *metal3.HostUpdatePolicySpec) (d decision) {
	kind := w.keeper.kind
	recorded, exists := w.recorded(host)
	if exists && lifecycle.IsOfFormerHost(host, recorded) {
		return d
	}
	if exists {
		d.requested, d.recording = kind.isRequested(recorded), kind.mustRecord(host, recorded)
	}
	if exists && (recorded.GetGeneration() > 1 || d.requested) {
		d.generation = recorded.GetGeneration()
	}
	d.create = !exists && has(host) && kind.canHave(host)
	isChanged := d.requested && (w.keeper.isDue(host, recorded) || isChanged(kind.conditions(recorded)))
	isServiced := policy != nil && kind.isPermitted(policy) && mayBeServiced(host, isChanged)
	d.refresh = (d.requested && runsNothing(host) || isServiced || d.recording) && (has(host) || isServiceOpen(host))
	return d
}

// of returns the object of a host if it matters now, after it has brought it up to date, and the generation of a
// decision. A failure to read it keeps nothing else from being done unless the host depends on it.
func (w *watched[T]) of(ctx context.Context, host *metal3.BareMetalHost, policy *metal3.HostUpdatePolicySpec) (current T, generation int64, err error) {
	decided := w.decide(host, policy)
	if decided.create {
		if _, err := w.keeper.ensureExists(ctx, host); err != nil {
			klog.FromContext(ctx).Error(err, "The "+w.keeper.kind.name()+" cannot be created")
		}
	}
	if !decided.refresh {
		return current, decided.generation, nil
	}
	current, err = w.keeper.Ensure(ctx, host)
	unread := new(unreadError)
	switch isUnread := errors.As(err, &unread); {
	case isUnread && decided.requested:
		err = &unreadWish{w.keeper.kind.name(), unread}
	case isUnread:
		err = nil // the object says it
	case err != nil && !decided.requested && !decided.recording:
		w.logFailure(ctx, err)
		err = nil
	}
	return current, decided.generation, err
}

// refresh brings the object of a host up to date if it exists. One that was just created requeues the host.
func (w *watched[T]) refresh(ctx context.Context, host *metal3.BareMetalHost) {
	if recorded, exists := w.recorded(host); exists && w.keeper.mayChange(host, recorded) {
		unread := new(unreadError)
		if _, err := w.keeper.Ensure(ctx, host); err != nil && !errors.As(err, &unread) { // the object says what is unread
			w.logFailure(ctx, err)
		}
	}
}

func (w *watched[T]) logFailure(ctx context.Context, err error) {
	klog.FromContext(ctx).Error(err, "The "+w.keeper.kind.name()+" cannot be brought up to date")
}

// runsNothing reports whether the host is in a state in which its settings are applied.
func runsNothing(host *metal3.BareMetalHost) bool {
	switch host.Status.Provisioning.State {
	case metal3.StatePreparing, metal3.StateAvailable, metal3.StateReady:
		return true
	}
	return false
}

// mayBeServiced reports whether changes may be made to the host that the policy permits while it runs
// something. isChanged reports whether the watch knows of any. Before a host is switched on, that does not
// suffice: the user may have written them just before.
func mayBeServiced(host *metal3.BareMetalHost, isChanged bool) bool {
	return host.Status.Provisioning.State.RunsSomething() && (isChanged || isServiceOpen(host) || !host.Status.PoweredOn)
}

// isServiceOpen reports whether a service of the host's machine has not ended. Nothing new is known of
// the machine's settings meanwhile.
func isServiceOpen(host *metal3.BareMetalHost) bool {
	return host.Status.Record.Servicing != nil && host.Status.Record.Servicing.EndedAt == nil
}
