// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// SecretReference is a Secret that an object refers to.
type SecretReference struct {
	// Namespace is the namespace of the Secret. The default is that of the object.
	Namespace string
	// Name is the name of the Secret.
	Name string
	// Path is the field that has the name.
	Path *field.Path
}

// AuthorizeSecrets refuses new objects, and changes of the spec, by users who may not get the Secrets
// that the object refers to (see Kind.Secrets). Only users are asked about: what the server itself
// writes does not go through this storage. It must be called before the first request.
func (r *REST) AuthorizeSecrets(a authorizer.Authorizer) { r.authorizer = a }

// Create creates an object.
func (r *REST) Create(ctx context.Context, obj runtime.Object, createValidation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	return r.Store.Create(ctx, obj, Then(createValidation, r.checkSecrets), options)
}

// checkSecrets returns an error if the user of the request may not get one of the Secrets that an
// object refers to.
func (r *REST) checkSecrets(ctx context.Context, obj runtime.Object) error {
	if r.authorizer == nil || r.kind.Secrets == nil {
		return nil
	}
	m := obj.(metav1.Object)
	user, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return apierrors.NewInternalError(fmt.Errorf("the request has no user"))
	}
	for _, secret := range r.kind.Secrets(obj) {
		namespace := cmp.Or(secret.Namespace, m.GetNamespace())
		decision, _, err := r.authorizer.Authorize(ctx, authorizer.AttributesRecord{
			User: user, Verb: "get", APIVersion: "v1", Resource: "secrets", Namespace: namespace, Name: secret.Name, ResourceRequest: true,
		})
		if decision == authorizer.DecisionAllow {
			continue
		}
		reason := fmt.Sprintf("its contents are sent to where this object says, so only users who may get Secret %q in namespace %q can refer to it", secret.Name, namespace)
		if err != nil {
			reason += fmt.Sprintf("; whether you may could not be determined: %v", err)
		}
		problem := field.Forbidden(secret.Path, reason)
		refusal := apierrors.NewForbidden(r.DefaultQualifiedResource, m.GetName(), problem)
		refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseType(problem.Type), Field: problem.Field, Message: problem.ErrorBody()}}
		return refusal
	}
	return nil
}
