// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"errors"
	"fmt"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// explain returns an error of kube-apiserver, in words if it is a refusal.
func explain(namespace, name string, err error) error {
	switch {
	case err == nil || !IsRefusal(err):
		return err
	case LacksRight(err):
		verb := missingRight.FindStringSubmatch(err.Error())[1]
		return &RefusedError{fmt.Sprintf("metal3-apiserver has no right to %s Secrets in namespace %q. Bind the ClusterRole %s to its service account there. kube-apiserver: %v", verb, namespace, role, err), err}
	}
	return &RefusedError{fmt.Sprintf("the admission of the cluster does not let metal3-apiserver change Secret %q. It has to admit a label and a finalizer. kube-apiserver: %v", name, err), err}
}
