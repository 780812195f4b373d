// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
)

// Admission runs the admission plugins of the server for the changes that actions make to hosts.
// The API handlers run them only for the request of an action, so without this, a policy on
// updates of hosts would not apply to an action that sets spec.online to false.
type Admission struct {
	control admission.Interface
	objects admission.ObjectInterfaces
}

// NewAdmission returns an Admission that runs control. Both are nil if there is no admission.
func NewAdmission(control admission.Interface, scheme *runtime.Scheme) *Admission {
	if control == nil {
		return nil
	}
	return &Admission{admission.WithAudit(control), admission.NewObjectInterfacesFromScheme(scheme)}
}

// UserHosts changes hosts on behalf of the user whose request is being served. A change goes
// through admission as an UPDATE of baremetalhosts or one of its subresources.
type UserHosts struct {
	store       rest.Updater
	admission   *Admission
	subresource string
}

// NewUserHosts returns UserHosts that write to store, which must be the store of the subresource.
// Without an admission, changes are only validated.
func NewUserHosts(store rest.Updater, admission *Admission, subresource string) *UserHosts {
	return &UserHosts{store, admission, subresource}
}

// Change changes the latest version of a host, and returns what was written. Only changes of the
// spec and the metadata are stored, or of the status if the subresource is status. With dryRun,
// nothing is stored.
func (u *UserHosts) Change(ctx context.Context, namespace, name string, dryRun bool, change func(*metal3.BareMetalHost) error) (*metal3.BareMetalHost, error) {
	ctx = genericapirequest.WithNamespace(ctx, namespace)
	options := &metav1.UpdateOptions{}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	if u.admission == nil {
		return store.ChangeHost(ctx, u.store, name, options, change, nil, rest.ValidateAllObjectUpdateFunc)
	}
	attributes := func(obj, old runtime.Object) admission.Attributes {
		user, _ := genericapirequest.UserFrom(ctx)
		return admission.NewAttributesRecord(obj, old, metal3.SchemeGroupVersion.WithKind("BareMetalHost"), namespace, name,
			metal3.SchemeGroupVersion.WithResource("baremetalhosts"), u.subresource, admission.Update, options, dryrun.IsDryRun(options.DryRun), user)
	}
	mutate := func(ctx context.Context, obj, old runtime.Object) (runtime.Object, error) {
		mutating, ok := u.admission.control.(admission.MutationInterface)
		if !ok || !mutating.Handles(admission.Update) {
			return obj, nil
		}
		return obj, mutating.Admit(ctx, attributes(obj, old), u.admission.objects)
	}
	validate := rest.AdmissionToValidateObjectUpdateFunc(u.admission.control, attributes(nil, nil), u.admission.objects)
	return store.ChangeHost(ctx, u.store, name, options, change, mutate, validate)
}
