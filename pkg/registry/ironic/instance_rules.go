// SPDX-License-Identifier: Apache-2.0

package ironic

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/validation"
)

// The rules about more than one object. Nothing is locked while they are checked:
//
//   - Two instances that are written at the same moment can both be the default, or of the same Ironic.
//     Whatever uses the instances has to choose one of them, and tell of the other that it is not accepted.
//   - A host can get its node in an Ironic whose instance is just being deleted. Its node then is in an Ironic
//     that the server does not know, so it is treated like a host whose Ironic does not answer: nothing is
//     done to it. Creating the instance again, with the same name, brings everything back.

// refuseTwin refuses an instance that is a second default, or of the Ironic of another instance.
func (r *instances) refuseTwin(ctx context.Context, obj runtime.Object) error {
	return r.refuseTwinOnChange(ctx, obj, &api.IronicInstance{})
}

// refuseTwinOnChange does what refuseTwin does, for changes: an instance that is a twin already can still be
// changed in other ways.
func (r *instances) refuseTwinOnChange(ctx context.Context, obj, old runtime.Object) error {
	return r.checkTwins(ctx, obj.(*api.IronicInstance), old.(*api.IronicInstance))
}

// checkTwins compares with the other instances what differs from old. The answer is 422, and not 409: clients
// repeat a request that is answered with the latter.
func (r *instances) checkTwins(ctx context.Context, instance, old *api.IronicInstance) error {
	endpoint := validation.CanonicalEndpoint(instance.Spec.Endpoint)
	if endpoint == validation.CanonicalEndpoint(old.Spec.Endpoint) {
		endpoint = ""
	}
	object := r.objectOf(instance)
	if object == r.objectOf(old) {
		object = api.IronicReference{}
	}
	isDefault := instance.Spec.Default && !old.Spec.Default
	if endpoint == "" && object.Name == "" && !isDefault {
		return nil
	}
	list, err := r.REST.List(ctx, &metainternalversion.ListOptions{})
	if err != nil {
		return err
	}
	var errs field.ErrorList
	for _, other := range list.(*api.IronicInstanceList).Items {
		if other.Name == instance.Name {
			continue
		}
		if isDefault && other.Spec.Default {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "default"),
				fmt.Sprintf("IronicInstance %q is the default, and there can be only one: set its spec.default to false first", other.Name)))
		}
		if endpoint != "" && endpoint == validation.CanonicalEndpoint(other.Spec.Endpoint) {
			errs = append(errs, field.Invalid(field.NewPath("spec", "endpoint"), instance.Spec.Endpoint,
				fmt.Sprintf("IronicInstance %q is of the same Ironic", other.Name)))
		}
		if object.Name != "" && object == r.objectOf(&other) {
			errs = append(errs, field.Invalid(field.NewPath("spec", "ironicRef", "name"), object.Name,
				fmt.Sprintf("IronicInstance %q is of the same Ironic", other.Name)))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(api.SchemeGroupVersion.WithKind("IronicInstance").GroupKind(), instance.Name, errs)
}

// objectOf returns the Ironic object that an instance names, with its namespace; empty if it names none.
func (r *instances) objectOf(instance *api.IronicInstance) api.IronicReference {
	ref := instance.Spec.IronicRef
	if ref == nil {
		return api.IronicReference{}
	}
	return api.IronicReference{Namespace: cmp.Or(ref.Namespace, r.namespace), Name: ref.Name}
}

// refuseDeletionWithHosts refuses the deletion of an instance in which hosts have their nodes.
func (r *instances) refuseDeletionWithHosts(ctx context.Context, obj runtime.Object) error {
	name := obj.(*api.IronicInstance).Name
	hosts, err := r.hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	n, example := 0, ""
	for i := range hosts.Items {
		host := &hosts.Items[i]
		record := &host.Status.Record
		if record.Ironic == name && host.Status.Provisioning.ID != "" || record.Transfer != nil && record.Transfer.To == name {
			n, example = n+1, host.Namespace+"/"+host.Name
		}
	}
	if n == 0 {
		return nil
	}
	return apierrors.NewConflict(api.Resource("ironicinstances"), name, fmt.Errorf(
		"the nodes of %d hosts are in this Ironic, or on their way to it, for example that of %s; move these hosts to another one (subresource transfer) or delete them first, because without the IronicInstance nothing could be done to them any more", n, example))
}
