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

// Object is an object of one of our kinds, from wherever.
type Object struct {
	Kind *Kind
	Key  types.NamespacedName
	UID  types.UID
	// ResourceVersion is that of the server that it comes from.
	ResourceVersion string
	// Unknown are the paths of fields that our types do not have, and so not typed.
	Unknown []string

	typed runtime.Object
	// fields are typed in JSON's terms, without resourceVersion.
	fields map[string]any
}

func (o *Object) String() string { return fmt.Sprintf("%s %s", o.Kind.Kind, o.Key) }

func newObject(kind *Kind, typed runtime.Object) (*Object, error) {
	accessor, err := meta.Accessor(typed)
	if err != nil {
		return nil, err
	}
	typed.GetObjectKind().SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(kind.Kind))
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

// fromCustomResource reads a custom resource as our server would store it. What our
// types do not know is named in Unknown.
func fromCustomResource(scheme *runtime.Scheme, kind *Kind, item *unstructured.Unstructured) (*Object, error) {
	item.SetAPIVersion(v1alpha1.SchemeGroupVersion.String())
	text, err := item.MarshalJSON()
	if err != nil {
		return nil, err
	}
	typed := kind.store.NewFunc()
	unknown, err := kjson.UnmarshalStrict(text, typed)
	if err != nil {
		return nil, fmt.Errorf("%s %s/%s cannot be read as our type: %w", kind.Kind, item.GetNamespace(), item.GetName(), err)
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

// wish is the object without what servers write into it by themselves.
func (o *Object) wish() *Object {
	wish := &Object{Kind: o.Kind, Key: o.Key, UID: o.UID, fields: runtime.DeepCopyJSON(o.fields)}
	if o.Kind.HasStatus {
		delete(wish.fields, "status")
	}
	for _, field := range []string{"managedFields", "generation"} {
		unstructured.RemoveNestedField(wish.fields, "metadata", field)
	}
	return wish
}

// difference is the path of the first field in which two objects differ, and empty
// when there is none.
func difference(a, b *Object) string { return differs("", a.fields, b.fields) }

func differs(path string, a, b any) string {
	x, isMap := a.(map[string]any)
	y, areMaps := b.(map[string]any)
	if !isMap || !areMaps {
		if reflect.DeepEqual(numbers(a), numbers(b)) {
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
		if found := differs(path+"."+key, x[key], y[key]); found != "" {
			return found
		}
	}
	return ""
}

// numbers gives all numbers one type: 2 and 2.0 are read from JSON as different ones.
func numbers(value any) any {
	switch v := value.(type) {
	case int64:
		return float64(v)
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = numbers(v[i])
		}
		return all
	case map[string]any: // within a list
		all := make(map[string]any, len(v))
		for key := range v {
			all[key] = numbers(v[key])
		}
		return all
	}
	return value
}

// sortedObjects are in the order of their names.
func sortedObjects(objects Objects) []*Object {
	return slices.SortedFunc(maps.Values(objects), func(a, b *Object) int {
		return strings.Compare(a.Key.String(), b.Key.String())
	})
}
