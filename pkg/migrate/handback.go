// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// goneAnnotation marks a custom resource whose object had been deleted from metal3-apiserver when
// the group was given back to the CRDs. A run that prunes after that deletes nothing else: what has
// no mark was created in the CRDs. The value is the UID, so that a copy of the object has no mark.
const goneAnnotation = "metal3-apiserver.metal3.io/deleted-after-switch"

func isMarkedGone(item *unstructured.Unstructured) bool {
	return item.GetAnnotations()[goneAnnotation] == string(item.GetUID())
}

// leftAs says how a run has left a custom resource before it gave the group back.
type leftAs struct {
	// stored is the resourceVersion of the object in the store.
	stored string
	// uid and resourceVersion are those of the custom resource.
	uid             types.UID
	resourceVersion string
}

// lookAgain compares the store and the CRDs once clients can write to the CRDs again. These count
// now: a custom resource is only written if its object has changed in the store since this run has
// written it, and the custom resource has not. A run that has not given the group back by itself
// cannot know that, and writes none. lookAgain returns the names of custom resources that remain
// although they are no longer in the store, and adds the UIDs of all others to uids.
func (e *Export) lookAgain(ctx context.Context, uids UIDs) (remaining []string, err error) {
	stored := make([]Objects, len(e.kinds))
	there := make([]map[types.NamespacedName]*unstructured.Unstructured, len(e.kinds))
	for n, kind := range e.kinds {
		if stored[n], there[n], err = e.both(ctx, kind, storedVersion); err != nil {
			return nil, err
		}
		for key, obj := range stored[n] {
			delete(uids, obj.UID)
			if is := there[n][key]; is != nil {
				uids[obj.UID] = is.GetUID()
			}
		}
	}
	for n, kind := range e.kinds {
		for _, obj := range sortedObjects(stored[n]) {
			if err := e.followLate(ctx, obj, there[n][obj.Key], uids); err != nil {
				return nil, err
			}
			delete(there[n], obj.Key)
		}
		for _, item := range sortedItems(there[n]) {
			if !isMarkedGone(item) && !e.hasLeft(item) {
				continue // it was created in the CRDs
			}
			if err := e.markOrPrune(ctx, kind, storedVersion, item); err != nil {
				return nil, err
			}
			if !e.Prune {
				remaining = append(remaining, nameOf(kind, item))
			}
		}
	}
	return remaining, nil
}

// hasLeft reports whether this run has brought a custom resource up to date.
func (e *Export) hasLeft(item *unstructured.Unstructured) bool {
	for _, left := range e.left {
		if left.uid == item.GetUID() {
			return true
		}
	}
	return false
}

// followLate writes the custom resource of an object that was changed in the store while the group
// was given back. If it may have been changed in the CRDs, too, the user is told.
func (e *Export) followLate(ctx context.Context, obj *Object, is *unstructured.Unstructured, uids UIDs) error {
	w := e.writer(obj, uids, storedVersion)
	switch left, known := e.left[obj.UID]; {
	case known && left.stored == obj.ResourceVersion:
		return nil
	case e.left != nil && !known && is == nil, known && is != nil && is.GetResourceVersion() == left.resourceVersion:
		is, did, err := e.apply(ctx, w, is)
		if err != nil {
			return err
		}
		uids[obj.UID] = is.GetUID()
		if did != outcomeUnchanged {
			e.Report.Done("%s was written in metal3-apiserver; it is written to the CRDs too", obj)
		}
		return nil
	case is == nil:
		e.Report.Warn("%s is in the store of metal3-apiserver, but not in the CRDs: "+
			"it was deleted from them after they had got the group back, or created just before", obj)
		return nil
	}
	next := withWritableFields(is, w.wanted(), obj.Kind.HasStatus)
	if path := firstDifferenceAt("", is.Object, next.Object); path != "" {
		e.Report.Warn("%s differs from metal3-apiserver in %s: it was changed after the CRDs had got the group back, "+
			"or just before, and is left as it is in the CRDs", obj, path)
	}
	return nil
}

// markOrPrune deletes a custom resource that is no longer in the store. Without e.Prune, it marks it
// for a later run.
func (e *Export) markOrPrune(ctx context.Context, kind *Kind, version string, item *unstructured.Unstructured) error {
	client := e.Cluster.dynamic.Resource(kind.resource(version)).Namespace(item.GetNamespace())
	uid := item.GetUID()
	// The patches have no resourceVersion: the garbage collector may have written the object since it
	// was listed, because its owner has just been pruned.
	patch := func(metadata map[string]any) error {
		metadata["uid"] = uid
		text, err := json.Marshal(map[string]any{"metadata": metadata})
		if err != nil {
			return err
		}
		_, err = client.Patch(ctx, item.GetName(), types.MergePatchType, text, metav1.PatchOptions{FieldManager: fieldManager})
		return ignoreNotFound(err)
	}
	if !e.Prune {
		if isMarkedGone(item) {
			return nil
		}
		if err := patch(map[string]any{"annotations": map[string]any{goneAnnotation: uid}}); err != nil {
			return fmt.Errorf("%s: marking it as deleted: %w", nameOf(kind, item), err)
		}
		return nil
	}
	// The work that the finalizers stand for was done when the object was deleted from metal3-apiserver.
	if len(item.GetFinalizers()) > 0 {
		if err := patch(map[string]any{"finalizers": nil}); err != nil {
			return fmt.Errorf("%s: removing its finalizers: %w", nameOf(kind, item), err)
		}
	}
	err := client.Delete(ctx, item.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if ignoreNotFound(err) != nil {
		return fmt.Errorf("%s: %w", nameOf(kind, item), err)
	}
	e.Report.Done("%s is deleted, because it was deleted from metal3-apiserver", nameOf(kind, item))
	return nil
}

func nameOf(kind *Kind, item *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s", kind.Kind, types.NamespacedName{Namespace: item.GetNamespace(), Name: item.GetName()})
}

// sortedItems returns custom resources in the order of their namespaces and names.
func sortedItems(items map[types.NamespacedName]*unstructured.Unstructured) []*unstructured.Unstructured {
	sorted := make([]*unstructured.Unstructured, 0, len(items))
	for _, item := range items {
		sorted = append(sorted, item)
	}
	slices.SortFunc(sorted, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return sorted
}
