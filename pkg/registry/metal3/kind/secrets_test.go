// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// secretReaders lets the given users get the Secret "bmc", and no other.
func secretReaders(readers ...string) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		name := a.GetUser().GetName()
		if name == "unknown" {
			return authorizer.DecisionNoOpinion, "", errors.New("kube-apiserver is away")
		}
		isGet := a.IsResourceRequest() && a.GetVerb() == "get" && a.GetAPIGroup() == "" && a.GetResource() == "secrets" && a.GetNamespace() == storetest.Namespace
		if isGet && a.GetName() == "bmc" && slices.Contains(readers, name) {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
}

// Who refers to a Secret, or changes where its contents go, must be permitted to get it. Whatever else
// users do with the object is up to their permissions on the object.
func TestAuthorizeSecrets(t *testing.T) {
	k := hosts()
	k.Secrets = func(obj runtime.Object) []SecretReference {
		return []SecretReference{{Name: obj.(*metal3.BareMetalHost).Spec.BMC.CredentialsName, Path: field.NewPath("spec", "bmc", "credentialsName")}}
	}
	eachCache(t, k, func(t *testing.T, r *REST) {
		r.AuthorizeSecrets(secretReaders("reader"))
		as := func(name string) context.Context {
			return genericapirequest.WithUser(storetest.InNamespace(t), &user.DefaultInfo{Name: name})
		}
		host := func(name, secret string) *metal3.BareMetalHost {
			return newHost(name, func(h *metal3.BareMetalHost) { h.Spec.BMC.CredentialsName = secret })
		}
		created := func(user, name, secret string) error {
			_, err := r.Create(as(user), host(name, secret), rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
			return err
		}
		changed := func(user string, change func(*metal3.BareMetalHost)) error {
			obj, err := r.Get(as(user), "worker-0", &metav1.GetOptions{})
			if err != nil {
				return err
			}
			next := obj.(*metal3.BareMetalHost).DeepCopy()
			change(next)
			_, _, err = r.Update(as(user), "worker-0", rest.DefaultUpdatedObjectInfo(next), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
			return err
		}
		label := func(h *metal3.BareMetalHost) { h.Labels = map[string]string{"rack": "7"} }
		redirect := func(h *metal3.BareMetalHost) { h.Spec.BMC.Address = "redfish://192.0.2.1" }
		for _, test := range []struct {
			name  string
			err   error
			words string // of the refusal; none if it is accepted
		}{
			{"create", created("reader", "worker-0", "bmc"), ""},
			{"create without permission", created("editor", "worker-1", "bmc"), `Secret "bmc"`},
			{"create with another Secret", created("reader", "worker-1", "other"), `Secret "other"`},
			{"create when nobody knows", created("unknown", "worker-1", "bmc"), "kube-apiserver is away"},
			{"change of the metadata", changed("editor", label), ""},
			{"change of the destination", changed("editor", redirect), `Secret "bmc"`},
			{"change of the destination by a reader", changed("reader", redirect), ""},
			{"change of the Secret", changed("reader", func(h *metal3.BareMetalHost) { h.Spec.BMC.CredentialsName = "other" }), `Secret "other"`},
		} {
			if test.words == "" {
				if test.err != nil {
					t.Errorf("%s: %v", test.name, test.err)
				}
				continue
			}
			var status *apierrors.StatusError
			if !errors.As(test.err, &status) || !apierrors.IsForbidden(test.err) || !strings.Contains(status.ErrStatus.Message, test.words) {
				t.Errorf("%s: %v, want 403 with %q", test.name, test.err, test.words)
				continue
			}
			var fields []string
			for _, cause := range status.ErrStatus.Details.Causes {
				fields = append(fields, cause.Field)
			}
			if diff := cmp.Diff([]string{"spec.bmc.credentialsName"}, fields); diff != "" {
				t.Errorf("%s: fields (-want +got):\n%s", test.name, diff)
			}
		}
	})
}
