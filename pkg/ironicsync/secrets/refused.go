// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// role is the ClusterRole of the manifests with the rights to Secrets.
const role = "metal3-apiserver-secrets"

// RefusedError says in words that kube-apiserver has refused a request for a Secret, and what would help.
type RefusedError struct {
	message string
	err     error
}

func (e *RefusedError) Error() string { return e.message }
func (e *RefusedError) Unwrap() error { return e.err }

// missingRight matches how authorizers of kube-apiserver say that a right is missing. Admission refuses with the same code.
var missingRight = regexp.MustCompile(`cannot (\w+) resource "secrets"`)

// LacksRight reports whether an error means that this server does not have the right to a Secret. Admission, which includes
// quotas, refuses with the same code and reason.
func LacksRight(err error) bool {
	return apierrors.IsForbidden(err) && missingRight.MatchString(err.Error())
}

// deniedByWebhook matches how kube-apiserver says that a webhook has denied a request.
var deniedByWebhook = regexp.MustCompile(`^admission webhook ".*" denied the request`)

// IsRefusal reports whether authorization or admission has refused a request. Policies refuse with Invalid by default, and
// the plugins of kube-apiserver with Forbidden. Webhooks choose the code, such as Gatekeeper Forbidden; those that choose
// none refuse with 400, which has no reason.
func IsRefusal(err error) bool {
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return true
	}
	var status apierrors.APIStatus
	return errors.As(err, &status) && deniedByWebhook.MatchString(status.Status().Message)
}

// explain returns an error of kube-apiserver, in words if it is a refusal. change is what admission would have to admit.
func explain(namespace, name, change string, err error) error {
	switch {
	case err == nil || !IsRefusal(err):
		return err
	case LacksRight(err):
		verb := missingRight.FindStringSubmatch(err.Error())[1]
		return &RefusedError{fmt.Sprintf("metal3-apiserver has no right to %s Secrets in namespace %q. Bind the ClusterRole %s to its service account there. kube-apiserver: %v", verb, namespace, role, err), err}
	}
	return &RefusedError{fmt.Sprintf("the admission of the cluster does not let metal3-apiserver change Secret %q. It has to admit %s. kube-apiserver: %v", name, change, err), err}
}

// changeOf names what has changed of the metadata of a Secret, for who can have it admitted.
func changeOf(before, after *metav1.ObjectMeta) string {
	var changes []string
	if !maps.Equal(before.Labels, after.Labels) {
		changes = append(changes, "a label")
	}
	switch added := len(after.Finalizers) - len(before.Finalizers); {
	case added > 0:
		changes = append(changes, "a finalizer")
	case added < 0:
		changes = append(changes, "the removal of a finalizer")
	}
	if !slices.EqualFunc(before.OwnerReferences, after.OwnerReferences, func(a, b metav1.OwnerReference) bool { return a.UID == b.UID }) {
		changes = append(changes, "another owner")
	}
	return strings.Join(changes, " and ")
}
