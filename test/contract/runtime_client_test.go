// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestRuntimeClient: a controller-runtime client without a cache.
func TestRuntimeClient(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	c := runtimeClient(t, s.Config)
	host := bareHost(ns, "worker-0")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Create(ctx, host))

	for want, mutate := range map[controllerutil.OperationResult]func() error{
		controllerutil.OperationResultNone:    func() error { return nil },
		controllerutil.OperationResultUpdated: func() error { host.Spec.Description = "updated"; return nil },
	} {
		if got, err := controllerutil.CreateOrUpdate(ctx, c, host, mutate); err != nil || got != want {
			t.Errorf("CreateOrUpdate: %s %v, want %s", got, err, want)
		}
	}
	// A CreateOrPatch of both halves sends one patch of each.
	for want, mutate := range map[controllerutil.OperationResult]func() error{
		controllerutil.OperationResultNone:              func() error { return nil },
		controllerutil.OperationResultUpdatedStatus:     func() error { host.Spec.Description, host.Status.ErrorMessage = "both", "both"; return nil },
		controllerutil.OperationResultUpdatedStatusOnly: func() error { host.Status.ErrorCount++; return nil },
	} {
		if got, err := controllerutil.CreateOrPatch(ctx, c, host, mutate); err != nil || got != want {
			t.Errorf("CreateOrPatch: %s %v, want %s", got, err, want)
		}
	}
	created := bareHost(ns, "worker-1")
	got, err := controllerutil.CreateOrPatch(ctx, c, created, func() error { created.Status.ErrorMessage = "of the beginning"; return nil })
	if err != nil || got != controllerutil.OperationResultCreated || created.UID == "" {
		t.Errorf("CreateOrPatch of what is not there: %s %v %+v", got, err, created.ObjectMeta)
	}
	must(c.Get(ctx, client.ObjectKeyFromObject(host), host))
	if host.Spec.Description != "both" || host.Status.ErrorMessage != "both" || host.Status.ErrorCount != 1 {
		t.Errorf("after all that: %+v %+v", host.Spec, host.Status)
	}

	// Of two who patch what they read, the second one wins, unless he wants to know.
	stale := host.DeepCopy()
	change := host.DeepCopy()
	change.Spec.Description = "first"
	must(c.Patch(ctx, change, client.MergeFrom(host)))
	change = stale.DeepCopy()
	change.Labels = map[string]string{"second": "yes"}
	if err := c.Patch(ctx, change.DeepCopy(), client.MergeFromWithOptions(stale, client.MergeFromWithOptimisticLock{})); !apierrors.IsConflict(err) {
		t.Errorf("a patch with optimistic lock of a stale host: %v, want 409", err)
	}
	must(c.Patch(ctx, change, client.MergeFrom(stale)))
	if change.Spec.Description != "first" || change.Labels["second"] != "yes" {
		t.Errorf("two patches left %q %v", change.Spec.Description, change.Labels)
	}

	must(c.Get(ctx, client.ObjectKeyFromObject(host), host))
	host.Status.ErrorMessage, host.Spec.Description = "updated", "not by this"
	must(c.Status().Update(ctx, host))
	before := host.DeepCopy()
	host.Status.ErrorMessage = "patched"
	must(c.Status().Patch(ctx, host, client.MergeFrom(before)))
	must(c.Get(ctx, client.ObjectKeyFromObject(host), host))
	if host.Status.ErrorMessage != "patched" || host.Spec.Description != "first" {
		t.Errorf("after writes of the status: %q %q", host.Status.ErrorMessage, host.Spec.Description)
	}
	if err := c.Status().Update(ctx, before); !apierrors.IsConflict(err) {
		t.Errorf("an update of a stale status: %v, want 409", err)
	}

	must(c.DeleteAllOf(ctx, &metal3.BareMetalHost{}, client.InNamespace(ns), client.MatchingLabels{"second": "yes"}))
	isGone(t, ctx, ns, "worker-0")
	var left metal3.BareMetalHostList
	must(c.List(ctx, &left, client.InNamespace(ns)))
	if len(left.Items) != 1 || left.Items[0].Name != "worker-1" {
		t.Errorf("left are %+v", left.Items)
	}
	must(c.Delete(ctx, &left.Items[0], client.Preconditions{UID: &left.Items[0].UID}))
}

// TestRuntimeApply: server-side apply of the host and of its status by two owners,
// each of whom owns what he applied.
func TestRuntimeApply(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	c := runtimeClient(t, s.Config)
	configuration := func(body map[string]any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: body}
		u.SetGroupVersionKind(metal3.SchemeGroupVersion.WithKind("BareMetalHost"))
		u.SetNamespace(ns)
		u.SetName("worker-0")
		return u
	}
	apply := func(body map[string]any, owner string, options ...client.ApplyOption) error {
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(configuration(body)), append(options, client.FieldOwner(owner))...)
	}
	online := func(online bool) map[string]any {
		return map[string]any{"metadata": map[string]any{"annotations": map[string]any{metal3.PausedAnnotation: "contract"}}, "spec": map[string]any{"online": online}}
	}
	if err := apply(online(true), "one"); err != nil {
		t.Fatal(err)
	}
	if err := apply(map[string]any{"spec": map[string]any{"description": "of two"}}, "two"); err != nil {
		t.Fatal(err)
	}
	if err := apply(online(false), "three"); !apierrors.IsConflict(err) {
		t.Errorf("applying another value of what another one owns: %v, want 409", err)
	}
	if err := apply(online(false), "three", client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	if err := apply(map[string]any{"spec": map[string]any{}}, "two"); err != nil { // gives up the description
		t.Fatal(err)
	}
	status := configuration(map[string]any{"status": map[string]any{"errorMessage": "applied"}, "spec": map[string]any{"description": "not by this"}})
	if err := c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(status), client.FieldOwner("two")); err != nil {
		t.Fatal(err)
	}
	var host metal3.BareMetalHost
	if err := c.Get(ctx, client.ObjectKey{Namespace: ns, Name: "worker-0"}, &host); err != nil {
		t.Fatal(err)
	}
	if host.Spec.Online || host.Spec.Description != "" || host.Status.ErrorMessage != "applied" {
		t.Errorf("applied is %+v %q", host.Spec, host.Status.ErrorMessage)
	}
	for _, fields := range host.ManagedFields {
		if fields.Manager == "three" && fields.Operation != metav1.ManagedFieldsOperationApply {
			t.Errorf("three manages %+v", fields)
		}
	}
}

// TestRuntimePower: an action by the generic client of subresources.
func TestRuntimePower(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	c := runtimeClient(t, s.Config)
	managedHost(t, ctx, ns, "worker-0")
	host := hostIs(t, ctx, ns, "worker-0", "available", isAvailable)
	comes(t, ctx, func() string {
		power := &metal3.HostPower{Spec: metal3.HostPowerSpec{Action: metal3.PowerActionOff, Mode: metal3.PowerModeHard}}
		err := c.SubResource("power").Create(ctx, host, power)
		if apierrors.IsTooManyRequests(err) {
			return err.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
		if power.Name != "worker-0" || power.Status.Mode != metal3.PowerModeHard {
			t.Errorf("the answer is %+v", power)
		}
		return ""
	})
	hostIs(t, ctx, ns, "worker-0", "off", func(h *metal3.BareMetalHost) bool { return !h.Status.PoweredOn && !h.Spec.Online })
	var now metal3.HostPower
	if err := c.SubResource("power").Get(ctx, host, &now); err != nil || now.Status.PowerState != "power off" {
		t.Errorf("power: %v %+v", err, now)
	}
	wrong := &metal3.HostPower{Spec: metal3.HostPowerSpec{Action: "explode"}}
	if err := c.SubResource("power").Create(ctx, host, wrong); !apierrors.IsInvalid(err) {
		t.Errorf("an action that there is not: %v, want 422", err)
	}
}

// TestRuntimeMetadata: reading and watching nothing but the metadata.
func TestRuntimeMetadata(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	c := runtimeClient(t, s.Config)
	before := idleHost(t, ctx, ns, "worker-0", withLabel("pool", "x"))
	gvk := metal3.SchemeGroupVersion.WithKind("BareMetalHost")
	one := &metav1.PartialObjectMetadata{}
	one.SetGroupVersionKind(gvk)
	if err := c.Get(ctx, client.ObjectKeyFromObject(before), one); err != nil || one.UID != before.UID || one.Labels["pool"] != "x" {
		t.Errorf("%v %+v", err, one)
	}
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(metal3.SchemeGroupVersion.WithKind("BareMetalHostList"))
	byName := client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", "worker-0")}
	if err := c.List(ctx, all, client.InNamespace(ns), byName); err != nil || len(all.Items) != 1 || all.ResourceVersion == "" {
		t.Fatalf("%v %+v", err, all)
	}
	w, err := c.Watch(ctx, all, client.InNamespace(ns), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: all.ResourceVersion}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	changed := s.PatchHost(t, ctx, ns, "worker-0", `{"status":{"errorCount":1}}`, "status")
	event := nextEvent(t, ctx, w)
	if partial, ok := event.Object.(*metav1.PartialObjectMetadata); !ok || event.Type != watch.Modified || partial.ResourceVersion != changed.ResourceVersion {
		t.Errorf("%s %T %+v", event.Type, event.Object, event.Object)
	}
	patched := one.DeepCopy()
	patched.Labels["by"] = "metadata"
	if err := c.Patch(ctx, patched, client.MergeFrom(one)); err != nil || patched.Labels["by"] != "metadata" || patched.UID != before.UID {
		t.Errorf("%v %+v", err, patched)
	}
}
