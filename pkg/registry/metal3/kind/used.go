package kind

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// Users finds what uses an object, in words that tell a person where it is.
type Users func(ctx context.Context, namespace, name string) ([]string, error)

// KeepWhileUsed has the spec of an object stay as it is, and the object stay there,
// while users finds anything that uses it. It must come before the first request.
//
// Nothing locks the users: one that begins to use the object at the same moment is
// not noticed. It then refers to an object that is gone, as it also could by a
// misspelt name.
func (r *REST) KeepWhileUsed(users Users) { r.users = users }

// Update writes all but the status.
func (r *REST) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc, updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.Store.Update(ctx, name, objInfo, createValidation, r.thenMayChange(updateValidation), forceAllowCreate, options)
}

// Delete deletes an object, or marks it for that.
func (r *REST) Delete(ctx context.Context, name string, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	return r.Store.Delete(ctx, name, r.thenMayDelete(deleteValidation), options)
}

// DeleteCollection deletes objects one by one, and ends with the first that may not
// be deleted.
func (r *REST) DeleteCollection(ctx context.Context, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions, listOptions *metainternalversion.ListOptions) (runtime.Object, error) {
	return r.Store.DeleteCollection(ctx, r.thenMayDelete(deleteValidation), options, listOptions)
}

// thenMayChange lets admission have its say, and then refuses another spec for what
// is used.
func (r *REST) thenMayChange(validate rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	if r.users == nil {
		return validate
	}
	return func(ctx context.Context, obj, old runtime.Object) error {
		if validate != nil {
			if err := validate(ctx, obj, old); err != nil {
				return err
			}
		}
		if equality.Semantic.DeepEqual(specOf(obj), specOf(old)) {
			return nil
		}
		m := old.(metav1.Object)
		used, err := r.use(ctx, m)
		if err != nil || used == "" {
			return err
		}
		gvks, _, err := r.strategy.ObjectKinds(obj)
		if err != nil {
			return err
		}
		return apierrors.NewInvalid(gvks[0].GroupKind(), m.GetName(), field.ErrorList{field.Forbidden(field.NewPath("spec"), "cannot change while it is used by "+used)})
	}
}

// thenMayDelete lets admission have its say, and then refuses what is used.
func (r *REST) thenMayDelete(validate rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	if r.users == nil {
		return validate
	}
	return func(ctx context.Context, obj runtime.Object) error {
		if validate != nil {
			if err := validate(ctx, obj); err != nil {
				return err
			}
		}
		m := obj.(metav1.Object)
		used, err := r.use(ctx, m)
		if err != nil || used == "" {
			return err
		}
		return apierrors.NewForbidden(metal3.Resource(r.kind.Resource), m.GetName(), fmt.Errorf("it cannot be deleted while it is used by %s", used))
	}
}

// use says what uses an object; empty is nothing. Where nobody can tell, the answer
// is an error, and nothing is changed.
func (r *REST) use(ctx context.Context, m metav1.Object) (string, error) {
	users, err := r.users(ctx, m.GetNamespace(), m.GetName())
	if err != nil {
		return "", apierrors.NewInternalError(fmt.Errorf("what uses %s %s/%s cannot be found out: %w", r.kind.Singular, m.GetNamespace(), m.GetName(), err))
	}
	const most = 5
	if more := len(users) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(users[:most], ", "), more), nil
	}
	return strings.Join(users, ", "), nil
}

// specOf is the field Spec of an object.
func specOf(obj runtime.Object) any {
	return reflect.ValueOf(obj).Elem().FieldByName("Spec").Interface()
}
