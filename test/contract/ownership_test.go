// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// dependant is an object that the operator has a host own.
type dependant struct {
	resource schema.GroupVersionResource
	kind     string
	contents map[string]any
	// blocks has a foreground deletion of the host wait for the object.
	blocks     bool
	finalizers []string
}

func dependants() []dependant {
	ours := metal3.SchemeGroupVersion.WithResource
	spec := func(spec map[string]any) map[string]any { return map[string]any{"spec": spec} }
	settings := spec(map[string]any{"settings": map[string]any{}})
	return []dependant{
		{resource: ours("hostfirmwaresettings"), kind: "HostFirmwareSettings", contents: settings, blocks: true},
		{resource: ours("hostfirmwarecomponents"), kind: "HostFirmwareComponents", contents: spec(map[string]any{"updates": []any{}}), blocks: true},
		{resource: ours("hardwaredata"), kind: "HardwareData", blocks: true, finalizers: []string{metal3.HardwareDataFinalizer}},
		{resource: ours("preprovisioningimages"), kind: "PreprovisioningImage", blocks: true},
		{resource: ours("dataimages"), kind: "DataImage", contents: spec(map[string]any{"url": "http://192.0.2.1/data.iso"}), blocks: true},
		{resource: ours("hostupdatepolicies"), kind: "HostUpdatePolicy"},
		{resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, kind: "Secret"},
	}
}

var firmwareSchema = dependant{
	resource: metal3.SchemeGroupVersion.WithResource("firmwareschemas"), kind: "FirmwareSchema",
	contents: map[string]any{"spec": map[string]any{"schema": map[string]any{}}},
}

// create makes the object, owned by what is given.
func (d dependant) create(t *testing.T, ctx context.Context, ns, name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	for key, value := range d.contents {
		obj.Object[key] = value
	}
	obj.SetGroupVersionKind(d.resource.GroupVersion().WithKind(d.kind))
	obj.SetName(name)
	obj.SetOwnerReferences(owners)
	obj.SetFinalizers(d.finalizers)
	created, err := s.Dynamic.Resource(d.resource).Namespace(ns).Create(ctx, obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// made waits until the server has made the object, which must be owned by the host, and has it owned
// in the way that is given.
func (d dependant) made(t *testing.T, ctx context.Context, ns, name string, owner metav1.OwnerReference) {
	t.Helper()
	comes(t, ctx, func() string {
		obj := d.get(t, ctx, ns, name)
		if obj == nil {
			return fmt.Sprintf("there is no %s %s", d.kind, name)
		}
		if owners := obj.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != owner.UID || owners[0].Controller != nil {
			t.Errorf("%s %s was made with the owners %v", d.kind, name, owners)
		}
		obj.SetOwnerReferences([]metav1.OwnerReference{owner})
		if _, err := s.Dynamic.Resource(d.resource).Namespace(ns).Update(ctx, obj, metav1.UpdateOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

func (d dependant) get(t *testing.T, ctx context.Context, ns, name string) *unstructured.Unstructured {
	t.Helper()
	obj, err := s.Dynamic.Resource(d.resource).Namespace(ns).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// goes waits until an object is collected.
func (d dependant) goes(t *testing.T, ctx context.Context, ns, name string) {
	t.Helper()
	comes(t, ctx, func() string {
		if obj := d.get(t, ctx, ns, name); obj != nil {
			return fmt.Sprintf("%s %s is still there: %v", d.kind, name, obj.Object["metadata"])
		}
		return ""
	})
}

func ownerOf(apiVersion, kind, name string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid}
}

func ownerOfHost(host *metal3.BareMetalHost, blocks bool) metav1.OwnerReference {
	owner := ownerOf(metal3.SchemeGroupVersion.String(), "BareMetalHost", host.Name, host.UID)
	if blocks {
		owner.Controller, owner.BlockOwnerDeletion = &blocks, &blocks
	}
	return owner
}

// noSuchOwner is the owner of what the garbage collector collects as soon as it
// knows of it.
var noSuchOwner = ownerOf("v1", "ConfigMap", "no-such", "00000000-0000-0000-0000-000000000000")

// collectorKnows waits until the garbage collector has seen whatever was created
// before. It looks for new kinds every 30 seconds, and takes what it has not seen yet
// for nothing: then an orphan is collected and not left alone.
func collectorKnows(t *testing.T, ctx context.Context, ns string, of ...dependant) {
	t.Helper()
	for _, d := range of {
		d.finalizers = nil
		d.create(t, ctx, ns, "canary", noSuchOwner)
	}
	for _, d := range of {
		d.goes(t, ctx, ns, "canary")
	}
}

// TestOwnership deletes a host that owns what the operator has it own. The garbage
// collector is the cluster's.
func TestOwnership(t *testing.T) {
	t.Parallel()
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			testOwnership(t, policy)
		})
	}
}

func testOwnership(t *testing.T, policy metav1.DeletionPropagation) {
	ctx, ns := s.Begin(t)
	host := managedHost(t, ctx, ns, "h")
	hostIs(t, ctx, ns, "h", "available", isAvailable)
	owned := dependants()
	settings := owned[0]
	settings.made(t, ctx, ns, "h", ownerOfHost(host, settings.blocks))
	for _, d := range owned[1:] {
		d.create(t, ctx, ns, "h", ownerOfHost(host, d.blocks))
	}
	// The schema of two hosts is owned by the settings of both of them.
	other := settings.create(t, ctx, ns, "other")
	byOther := ownerOf(other.GetAPIVersion(), other.GetKind(), "other", other.GetUID())
	byOwn := ownerOf(other.GetAPIVersion(), other.GetKind(), "h", settings.get(t, ctx, ns, "h").GetUID())
	firmwareSchema.create(t, ctx, ns, "schema-own", byOwn)
	firmwareSchema.create(t, ctx, ns, "schema-shared", byOwn, byOther)
	collectorKnows(t, ctx, ns, append(owned, firmwareSchema)...)

	if err := s.Hosts(ns).Delete(ctx, "h", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		t.Fatal(err)
	}
	comes(t, ctx, func() string {
		host, err := s.Hosts(ns).Get(ctx, "h", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("the host is still there: %v, %v, %v", err, host.Finalizers, host.Status.Provisioning.State)
	})
	switch policy {
	case metav1.DeletePropagationOrphan:
		for _, d := range owned {
			// The finalizer of a DataImage is removed after its host is gone.
			comes(t, ctx, func() string {
				obj := d.get(t, ctx, ns, "h")
				if obj == nil || obj.GetDeletionTimestamp() != nil || len(obj.GetOwnerReferences()) > 0 {
					t.Fatalf("the orphan %s is %v", d.kind, obj)
				}
				if len(obj.GetFinalizers()) > 0 {
					return fmt.Sprintf("the orphan %s has the finalizers %q", d.kind, obj.GetFinalizers())
				}
				return ""
			})
		}
		for name, owners := range map[string]int{"schema-own": 1, "schema-shared": 2} {
			if obj := firmwareSchema.get(t, ctx, ns, name); obj == nil || obj.GetDeletionTimestamp() != nil || len(obj.GetOwnerReferences()) != owners {
				t.Errorf("%s is %v", name, obj)
			}
		}
		// The credentials are a user's, and used by nobody now.
		secret, err := s.Core.CoreV1().Secrets(ns).Get(ctx, "h-bmc", metav1.GetOptions{})
		if err != nil || len(secret.Finalizers) > 0 || len(secret.OwnerReferences) > 0 {
			t.Errorf("the Secret of the BMC is held by %v and owned by %v (%v)", secret.Finalizers, secret.OwnerReferences, err)
		}
		return
	case metav1.DeletePropagationForeground:
		for _, d := range owned {
			if d.blocks && d.get(t, ctx, ns, "h") != nil {
				t.Errorf("%s has outlived the host", d.kind)
			}
		}
	}
	for _, d := range owned {
		d.goes(t, ctx, ns, "h")
	}
	secrets := owned[len(owned)-1]
	secrets.goes(t, ctx, ns, "h-bmc")
	firmwareSchema.goes(t, ctx, ns, "schema-own")
	comes(t, ctx, func() string {
		shared := firmwareSchema.get(t, ctx, ns, "schema-shared")
		if shared == nil {
			t.Fatal("the schema of the other host was collected")
		}
		if owners := shared.GetOwnerReferences(); !slices.Equal(owners, []metav1.OwnerReference{byOther}) {
			return fmt.Sprintf("the schema of the other host is owned by %v", owners)
		}
		return ""
	})
	if settings.get(t, ctx, ns, "other") == nil {
		t.Error("the settings of the other host were collected")
	}
}
