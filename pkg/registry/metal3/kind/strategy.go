// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// strategy determines how objects that clients write are changed and validated before they
// are stored.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	kind Kind
}

func (s strategy) NamespaceScoped() bool { return !s.kind.ClusterScoped }

func (s strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if !s.kind.HasStatus {
		return nil
	}
	return ResetFields(s.kind.groupVersion(), "status")
}

func (s strategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	if s.kind.HasStatus {
		setStatus(obj, s.kind.New())
	}
	obj.(metav1.Object).SetGeneration(1)
}

func (s strategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	if s.kind.HasStatus {
		setStatus(obj, old)
	}
	if !equalContents(obj, old) {
		obj.(metav1.Object).SetGeneration(old.(metav1.Object).GetGeneration() + 1)
	}
}

func (s strategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	all := metavalidation.ValidateObjectMetaAccessor(obj.(metav1.Object), s.NamespaceScoped(), metavalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	all = append(all, s.kind.SizeLimits().Validate(obj.(metav1.Object), nil)...)
	if s.kind.Validate == nil {
		return FirstErrors(all)
	}
	return FirstErrors(append(all, s.kind.Validate(obj, nil)...))
}

func (s strategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	all := metavalidation.ValidateObjectMetaAccessorUpdate(obj.(metav1.Object), old.(metav1.Object), field.NewPath("metadata"))
	all = append(all, s.kind.SizeLimits().Validate(obj.(metav1.Object), old.(metav1.Object))...)
	if s.kind.Validate == nil {
		return FirstErrors(all)
	}
	return FirstErrors(append(all, s.kind.Validate(obj, old)...))
}

func (s strategy) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	if s.kind.Warnings == nil {
		return nil
	}
	return s.kind.Warnings(obj)
}

func (s strategy) WarningsOnUpdate(ctx context.Context, obj, _ runtime.Object) []string {
	return s.WarningsOnCreate(ctx, obj)
}

func (strategy) Canonicalize(runtime.Object) {}

// A PUT cannot create an object, and cannot overwrite one without a resourceVersion. CRDs do
// not allow this either.
func (strategy) AllowCreateOnUpdate(context.Context) bool      { return false }
func (strategy) AllowUnconditionalUpdate(context.Context) bool { return false }

// statusStrategy is the strategy of the status subresource. It takes only the status from the
// request.
type statusStrategy struct{ strategy }

func (s statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return ResetFields(s.kind.groupVersion(), "spec", "metadata")
}

func (statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	kept := old.DeepCopyObject()
	setStatus(kept, obj)
	kept.(metav1.Object).SetManagedFields(obj.(metav1.Object).GetManagedFields())
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(kept).Elem())
}

// setStatus copies the status from another object of the same kind.
func setStatus(obj, from runtime.Object) {
	if status := reflect.ValueOf(obj).Elem().FieldByName("Status"); status.IsValid() {
		status.Set(reflect.ValueOf(from).Elem().FieldByName("Status"))
	}
}

// equalContents reports whether two objects of a kind are equal except for their metadata. It
// compares the status, too.
func equalContents(a, b runtime.Object) bool {
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range x.NumField() {
		if name := x.Type().Field(i).Name; name == "TypeMeta" || name == "ObjectMeta" {
			continue
		}
		if !equality.Semantic.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			return false
		}
	}
	return true
}

// ResetFields returns top-level fields of a version, by their names, in the form in which a strategy names
// the fields that a write does not own.
func ResetFields(version schema.GroupVersion, names ...string) map[fieldpath.APIVersion]*fieldpath.Set {
	set := fieldpath.NewSet()
	for _, name := range names {
		set.Insert(fieldpath.MakePathOrDie(name))
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(version.String()): set}
}
