// SPDX-License-Identifier: Apache-2.0

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
)

// Users returns descriptions, for people, of everything that uses an object.
type Users func(ctx context.Context, namespace, name string) ([]string, error)

// KeepWhileUsed refuses changes of the spec of an object, and its deletion, while users finds
// anything that uses the object. It must be called before the first request.
//
// There is no lock: if something begins to use the object at the same moment, this is not
// noticed. It then refers to an object that no longer exists, just as it could because of a
// misspelt name.
func (r *REST) KeepWhileUsed(users Users) { r.users = users }

// Update writes everything except the status.
func (r *REST) Update(ctx context.Context, name string, objInfo rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc, updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.Store.Update(ctx, name, objInfo, Then(createValidation, r.checkSecrets), ThenOnUpdate(updateValidation, r.checkChange), forceAllowCreate, options)
}

// Delete deletes an object, or marks it for deletion if it has finalizers.
func (r *REST) Delete(ctx context.Context, name string, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	return r.Store.Delete(ctx, name, Then(deleteValidation, r.refuseDeletionWhileUsed), options)
}

// DeleteCollection deletes objects one by one, and stops at the first that may not be deleted.
func (r *REST) DeleteCollection(ctx context.Context, deleteValidation rest.ValidateObjectFunc, options *metav1.DeleteOptions, listOptions *metainternalversion.ListOptions) (runtime.Object, error) {
	return r.Store.DeleteCollection(ctx, Then(deleteValidation, r.refuseDeletionWhileUsed), options, listOptions)
}

// checkChange refuses a change of the spec of an object that is used, or that refers to a Secret that the user may not get: not
// only the name of the Secret matters, but also where its contents are sent. Users without permission on the Secret can still
// change the metadata, for example to remove a finalizer.
func (r *REST) checkChange(ctx context.Context, obj, old runtime.Object) error {
	if equality.Semantic.DeepEqual(specOf(obj), specOf(old)) {
		return nil
	}
	if err := r.refuseChangeWhileUsed(ctx, obj, old.(metav1.Object)); err != nil {
		return err
	}
	return r.checkSecrets(ctx, obj)
}

func (r *REST) refuseChangeWhileUsed(ctx context.Context, obj runtime.Object, old metav1.Object) error {
	used, err := r.describeUsers(ctx, old)
	if err != nil || used == "" {
		return err
	}
	gvks, _, err := r.strategy.ObjectKinds(obj)
	if err != nil {
		return err
	}
	return apierrors.NewInvalid(gvks[0].GroupKind(), old.GetName(), field.ErrorList{field.Forbidden(field.NewPath("spec"), "cannot change while it is used by "+used)})
}

// refuseDeletionWhileUsed refuses the deletion of an object that is used.
func (r *REST) refuseDeletionWhileUsed(ctx context.Context, obj runtime.Object) error {
	m := obj.(metav1.Object)
	used, err := r.describeUsers(ctx, m)
	if err != nil || used == "" {
		return err
	}
	return apierrors.NewForbidden(r.DefaultQualifiedResource, m.GetName(), fmt.Errorf("it cannot be deleted while it is used by %s", used))
}

// describeUsers lists what uses an object, or returns an empty string if nothing does. If that
// cannot be determined, it returns an error, so that nothing is changed.
func (r *REST) describeUsers(ctx context.Context, m metav1.Object) (string, error) {
	if r.users == nil {
		return "", nil
	}
	users, err := r.users(ctx, m.GetNamespace(), m.GetName())
	if err != nil {
		return "", apierrors.NewInternalError(fmt.Errorf("cannot determine what uses %s %s/%s: %w", r.kind.Singular, m.GetNamespace(), m.GetName(), err))
	}
	const maxNamed = 5
	if more := len(users) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(users[:maxNamed], ", "), more), nil
	}
	return strings.Join(users, ", "), nil
}

// specOf returns the field Spec of an object.
func specOf(obj runtime.Object) any {
	return reflect.ValueOf(obj).Elem().FieldByName("Spec").Interface()
}
