// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// outcome is what apply did. Greater values include lesser ones.
type outcome int

const (
	outcomeUnchanged outcome = iota
	outcomeUpdated
	outcomeCreated
)

// writer makes one custom resource the same as the object in the store.
type writer struct {
	client  dynamic.ResourceInterface
	obj     *Object
	uids    UIDs
	version string
}

// errDying says that an object lives whose custom resource is being deleted, for example one of an earlier object of the name. Nothing
// takes a deletion back, so the operator would undeploy the machine of such a host.
var errDying = errors.New("its custom resource is being deleted, and it is not")

// apply creates the custom resource, or updates it where it differs, including everything
// that a client can write. is is the existing custom resource, or nil. apply returns the
// resulting one.
func (w *writer) apply(ctx context.Context, is *unstructured.Unstructured) (_ *unstructured.Unstructured, did outcome, err error) {
	wanted := w.wanted()
	if is != nil && is.GetDeletionTimestamp() != nil && wanted.GetDeletionTimestamp() == nil {
		return nil, 0, fmt.Errorf("%w: kubectl patch %s.%s.%s -n %s %s --type=merge -p '{\"metadata\":{\"finalizers\":null}}' lets that custom resource go",
			errDying, w.obj.Kind.Resource, w.version, v1alpha1.GroupName, is.GetNamespace(), is.GetName())
	}
	if is == nil {
		created := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(wanted.Object)}
		if is, err = w.client.Create(ctx, created, metav1.CreateOptions{FieldManager: fieldManager}); err != nil {
			return nil, 0, err
		}
		did = outcomeCreated
	} else if next := withWritableFields(is, wanted, w.obj.Kind.HasStatus); firstDifferenceAt("", is.Object, next.Object) != "" {
		if is, err = w.client.Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil {
			return nil, 0, err
		}
		did = outcomeUpdated
	}
	if status, has := wanted.Object["status"]; has && w.obj.Kind.HasStatus {
		next := is.DeepCopy()
		next.Object["status"] = withoutAbsent(status, is.Object["status"], statusFieldsUnknownToCRD[w.obj.Kind.Kind])
		if was := is.Object["status"]; firstDifferenceAt("status", was, next.Object["status"]) != "" {
			next.Object["status"] = status
			if is, err = w.client.UpdateStatus(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil {
				return nil, 0, fmt.Errorf("status: %w", err)
			}
			if firstDifferenceAt("status", was, is.Object["status"]) != "" { // otherwise the CRD has pruned all that differs
				did = max(did, outcomeUpdated)
			}
		}
	}
	if wanted.GetDeletionTimestamp() != nil && is.GetDeletionTimestamp() == nil {
		// Its finalizers keep it until the operator has done its part.
		if err := w.client.Delete(ctx, is.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(is.GetUID())}}); err != nil {
			return nil, 0, ignoreNotFound(err)
		}
		did = max(did, outcomeUpdated)
	}
	return is, did, nil
}

// wanted returns the object with the UIDs that its owners have in the CRDs.
func (w *writer) wanted() *unstructured.Unstructured {
	wanted := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(w.obj.fields)}
	wanted.SetAPIVersion(v1alpha1.GroupName + "/" + w.version)
	if status := reflect.ValueOf(w.obj.typed).Elem().FieldByName("Status"); w.obj.Kind.HasStatus && (!status.IsValid() || status.IsZero()) {
		// The type has no status, or it was never written. A zero value in Go would be encoded as a status
		// that lacks fields that the CRD requires.
		delete(wanted.Object, "status")
	}
	owners := wanted.GetOwnerReferences()
	for n := range owners {
		if uid, known := w.uids[owners[n].UID]; known {
			owners[n].UID = uid
		}
	}
	if len(owners) > 0 {
		wanted.SetOwnerReferences(owners)
	}
	return wanted
}

// writableMetadata lists the fields of the metadata that a client can write.
var writableMetadata = []string{"labels", "annotations", "finalizers", "ownerReferences"}

// withWritableFields returns a copy of is with those fields of wanted that the main
// endpoint accepts.
func withWritableFields(is, wanted *unstructured.Unstructured, hasStatus bool) *unstructured.Unstructured {
	next := is.DeepCopy()
	for _, field := range writableMetadata {
		value, has, _ := unstructured.NestedFieldNoCopy(wanted.Object, "metadata", field)
		if !has {
			unstructured.RemoveNestedField(next.Object, "metadata", field)
			continue
		}
		_ = unstructured.SetNestedField(next.Object, runtime.DeepCopyJSONValue(value), "metadata", field) // the metadata is an object
	}
	for field := range next.Object {
		if _, has := wanted.Object[field]; !has && field != "status" {
			delete(next.Object, field)
		}
	}
	for field, value := range wanted.Object {
		if field == "metadata" || field == "status" && hasStatus {
			continue
		}
		next.Object[field] = value
	}
	return next
}

// withoutAbsent returns a status without those of the named fields that the status of the custom resource does not have.
func withoutAbsent(status, is any, names []string) any {
	fields, ok := status.(map[string]any)
	if !ok {
		return status
	}
	stored, _ := is.(map[string]any)
	fields = maps.Clone(fields)
	for _, name := range names {
		if _, has := stored[name]; !has {
			delete(fields, name)
		}
	}
	return fields
}

// statusFieldsUnknownToCRD are the fields of a status that only metal3-apiserver knows, by kind. All CRDs drop them: the update would be
// made again and again.
var statusFieldsUnknownToCRD = map[string][]string{
	"BareMetalHost":          {"ironic", "record"},
	"HostFirmwareComponents": {"preparedAt", "source"},
	"HostFirmwareSettings":   {"source"},
}

// laterStatusFields are the fields of a status that the CRDs of operator 0.13 do not have, by kind. No user has written them, and an
// operator that does not know them does not miss them.
var laterStatusFields = map[string][]string{"BareMetalHost": {"lastAttemptedImage", "provisioningFailCount"}}

// droppedPaths returns the paths of fields that the CRD dropped when is was written, and whose loss matters.
func (w *writer) droppedPaths(is *unstructured.Unstructured) []string {
	var paths []string
	wanted := w.wanted().Object
	for _, names := range []map[string][]string{statusFieldsUnknownToCRD, laterStatusFields} {
		wanted["status"] = withoutAbsent(wanted["status"], is.Object["status"], names[w.obj.Kind.Kind])
	}
	for _, field := range slices.Sorted(maps.Keys(wanted)) {
		if field != "metadata" && field != "apiVersion" && field != "kind" {
			collectDropped(field, wanted[field], is.Object[field], &paths)
		}
	}
	return paths
}

// collectDropped adds the paths of fields that value has and stored lacks. Empty objects and
// nulls do not count, because defaults in the schema and zero values in Go add and remove
// them.
func collectDropped(path string, value, stored any, paths *[]string) {
	fields, ok := value.(map[string]any)
	if !ok {
		if stored == nil && value != nil {
			*paths = append(*paths, path)
		}
		return
	}
	is, _ := stored.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		collectDropped(path+"."+name, fields[name], is[name], paths)
	}
}

// ignoreNotFound returns nil if err says that an object does not exist, and err otherwise.
func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
