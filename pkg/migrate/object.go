// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// Object is an object of one of the kinds of the group, from the CRDs or from the store.
type Object struct {
	Kind *Kind
	Key  types.NamespacedName
	UID  types.UID
	// ResourceVersion is the resourceVersion on the server that the object comes from.
	ResourceVersion string
	// Unknown has the paths of fields that the types of metal3-apiserver do not have, and
	// that typed therefore lacks.
	Unknown []string

	typed runtime.Object
	// fields is typed in its JSON form, without resourceVersion.
	fields map[string]any
}

func (o *Object) String() string { return fmt.Sprintf("%s %s", o.Kind.Kind, o.Key) }

func newObject(kind *Kind, typed runtime.Object) (*Object, error) {
	accessor, err := meta.Accessor(typed)
	if err != nil {
		return nil, err
	}
	typed.GetObjectKind().SetGroupVersionKind(kind.version.WithKind(kind.Kind))
	obj := &Object{
		Kind: kind, typed: typed, UID: accessor.GetUID(), ResourceVersion: accessor.GetResourceVersion(),
		Key: types.NamespacedName{Namespace: accessor.GetNamespace(), Name: accessor.GetName()},
	}
	if obj.fields, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed); err != nil {
		return nil, fmt.Errorf("%s: %w", obj, err)
	}
	unstructured.RemoveNestedField(obj.fields, "metadata", "resourceVersion")
	return obj, nil
}

// fromCustomResource decodes a custom resource as metal3-apiserver would store it. Fields
// that its types do not have are listed in Unknown.
func fromCustomResource(scheme *runtime.Scheme, kind *Kind, item *unstructured.Unstructured) (*Object, error) {
	item.SetAPIVersion(v1alpha1.SchemeGroupVersion.String())
	text, err := item.MarshalJSON()
	if err != nil {
		return nil, err
	}
	typed := kind.store.NewFunc()
	unknown, err := kjson.UnmarshalStrict(text, typed)
	if err != nil {
		return nil, fmt.Errorf("%s %s/%s cannot be read: %w", kind.Kind, item.GetNamespace(), item.GetName(), err)
	}
	scheme.Default(typed)
	obj, err := newObject(kind, typed)
	if err != nil {
		return nil, err
	}
	for _, err := range unknown {
		path := err.Error()
		var field kjson.FieldError
		if errors.As(err, &field) {
			path = field.FieldPath()
		}
		obj.Unknown = append(obj.Unknown, path)
	}
	return obj, nil
}

// withoutServerFields returns the object without the fields that servers set by themselves.
func (o *Object) withoutServerFields() *Object {
	wish := &Object{Kind: o.Kind, Key: o.Key, UID: o.UID, fields: runtime.DeepCopyJSON(o.fields)}
	if o.Kind.HasStatus {
		delete(wish.fields, "status")
	}
	for _, field := range []string{"managedFields", "generation"} {
		unstructured.RemoveNestedField(wish.fields, "metadata", field)
	}
	return wish
}

// firstDifference returns the path of the first field in which two objects differ, or an
// empty string if they are the same.
func firstDifference(a, b *Object) string { return firstDifferenceAt("", a.fields, b.fields) }

func firstDifferenceAt(path string, a, b any) string {
	x, isMap := a.(map[string]any)
	y, areMaps := b.(map[string]any)
	if !isMap || !areMaps {
		if reflect.DeepEqual(withFloats(a), withFloats(b)) {
			return ""
		}
		return strings.TrimPrefix(path, ".")
	}
	keys := slices.Sorted(maps.Keys(x))
	for _, key := range slices.Sorted(maps.Keys(y)) {
		if _, both := x[key]; !both {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		if found := firstDifferenceAt(path+"."+key, x[key], y[key]); found != "" {
			return found
		}
	}
	return ""
}

// withFloats converts all integers in value to floating-point numbers, because 2 and 2.0
// are decoded from JSON as different types.
func withFloats(value any) any {
	switch v := value.(type) {
	case int64:
		return float64(v)
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = withFloats(v[i])
		}
		return all
	case map[string]any: // an item of a list
		all := make(map[string]any, len(v))
		for key := range v {
			all[key] = withFloats(v[key])
		}
		return all
	}
	return value
}

// sortedObjects returns objects in the order of their namespaces and names.
func sortedObjects(objects Objects) []*Object {
	return slices.SortedFunc(maps.Values(objects), func(a, b *Object) int {
		return strings.Compare(a.Key.String(), b.Key.String())
	})
}
