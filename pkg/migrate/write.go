package migrate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

type outcome int

const (
	didNothing outcome = iota
	didUpdate
	didCreate
)

// writer brings one custom resource to what our store has.
type writer struct {
	client  dynamic.ResourceInterface
	obj     *Object
	uids    UIDs
	version string
}

// bring creates the custom resource or updates it, where it is not so already: all
// that a client can write. is is what it became.
func (w *writer) bring(ctx context.Context, is *unstructured.Unstructured) (_ *unstructured.Unstructured, did outcome, err error) {
	wanted := w.wanted()
	if is == nil {
		created := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(wanted.Object)}
		if is, err = w.client.Create(ctx, created, metav1.CreateOptions{FieldManager: fieldManager}); err != nil {
			return nil, 0, err
		}
		did = didCreate
	} else if next := withMain(is, wanted, w.obj.Kind.HasStatus); differs("", is.Object, next.Object) != "" {
		if is, err = w.client.Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil {
			return nil, 0, err
		}
		did = didUpdate
	}
	if status, has := wanted.Object["status"]; has && w.obj.Kind.HasStatus {
		next := is.DeepCopy()
		next.Object["status"] = pruned(status, is.Object["status"])
		if differs("status", is.Object["status"], next.Object["status"]) != "" {
			next.Object["status"] = status
			if is, err = w.client.UpdateStatus(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil {
				return nil, 0, fmt.Errorf("status: %w", err)
			}
			did = max(did, didUpdate)
		}
	}
	if wanted.GetDeletionTimestamp() != nil && is.GetDeletionTimestamp() == nil {
		// Its finalizers hold it until the operator has done its part.
		if err := w.client.Delete(ctx, is.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(is.GetUID())}}); err != nil {
			return nil, 0, ignoreNotFound(err)
		}
		did = max(did, didUpdate)
	}
	return is, did, nil
}

// wanted is the object with the UIDs that its owners have in the CRDs.
func (w *writer) wanted() *unstructured.Unstructured {
	wanted := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(w.obj.fields)}
	wanted.SetAPIVersion(v1alpha1.GroupName + "/" + w.version)
	if status := reflect.ValueOf(w.obj.typed).Elem().FieldByName("Status"); w.obj.Kind.HasStatus && status.IsZero() {
		// Never written. Go has no other way to say so than a status of which the CRD
		// would miss the required fields.
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

// clientsMetadata is what a client can write of the metadata.
var clientsMetadata = []string{"labels", "annotations", "finalizers", "ownerReferences"}

// withMain is a custom resource with what the main endpoint takes of wanted.
func withMain(is, wanted *unstructured.Unstructured, hasStatus bool) *unstructured.Unstructured {
	next := is.DeepCopy()
	for _, field := range clientsMetadata {
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
		next.Object[field] = pruned(value, is.Object[field])
	}
	return next
}

// pruned is value without what a CRD's schema does not have, as far as that can be
// told: an ignored update would otherwise be made again and again. That is
// status.ironic, which the operator does not know.
func pruned(value, is any) any {
	fields, ok := value.(map[string]any)
	if !ok {
		return value
	}
	stored, _ := is.(map[string]any)
	fields = maps.Clone(fields)
	for _, name := range oursAlone {
		if _, has := stored[name]; !has {
			delete(fields, name)
		}
	}
	return fields
}

// oursAlone are the fields of a status that only our server knows.
var oursAlone = []string{"ironic"}

// lost are the paths that the CRD has dropped of what was written.
func (w *writer) lost(is *unstructured.Unstructured) []string {
	var paths []string
	wanted := w.wanted().Object
	for _, field := range slices.Sorted(maps.Keys(wanted)) {
		if field != "metadata" && field != "apiVersion" && field != "kind" {
			missing(field, pruned(wanted[field], nil), is.Object[field], &paths)
		}
	}
	return paths
}

// missing finds what value has and stored has not. Empty values count for nothing:
// a schema's defaults and Go's zero values come and go.
func missing(path string, value, stored any, paths *[]string) {
	fields, ok := value.(map[string]any)
	if !ok {
		if stored == nil && value != nil {
			*paths = append(*paths, path)
		}
		return
	}
	is, _ := stored.(map[string]any)
	for _, name := range slices.SortedFunc(maps.Keys(fields), cmp.Compare[string]) {
		missing(path+"."+name, fields[name], is[name], paths)
	}
}

// prune deletes custom resources that our store does not have, or names them.
func (e *Export) prune(ctx context.Context, kind *Kind, version string, extra map[types.NamespacedName]*unstructured.Unstructured) (left []string, err error) {
	for _, key := range slices.SortedFunc(maps.Keys(extra), func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) }) {
		item := extra[key]
		if !e.Prune {
			left = append(left, fmt.Sprintf("%s %s", kind.Kind, key))
			continue
		}
		client := e.Cluster.dynamic.Resource(kind.resource(version)).Namespace(key.Namespace)
		uid := item.GetUID()
		// What the finalizers stand for was done when it was deleted from our store.
		if len(item.GetFinalizers()) > 0 {
			item.SetFinalizers(nil)
			if _, err := client.Update(ctx, item, metav1.UpdateOptions{FieldManager: fieldManager}); ignoreNotFound(err) != nil {
				return nil, fmt.Errorf("%s %s: removing its finalizers: %w", kind.Kind, key, err)
			}
		}
		err := client.Delete(ctx, key.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if ignoreNotFound(err) != nil {
			return nil, fmt.Errorf("%s %s: %w", kind.Kind, key, err)
		}
		e.Report.Done("%s %s is deleted, as it was from metal3-apiserver", kind.Kind, key)
	}
	return left, nil
}

// counter counts from several goroutines.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add(yes bool) {
	if yes {
		c.mu.Lock()
		c.n++
		c.mu.Unlock()
	}
}
