// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
)

// IronicObjects is the resource of the Ironic Standalone Operator's Ironic objects.
var IronicObjects = schema.GroupVersionResource{Group: "ironic.metal3.io", Version: "v1alpha1", Resource: "ironics"}

// operatorLabel is what the operator requires of a Secret to use it. So nobody who may write Ironic objects can have the server send a
// Secret that is not meant for them.
const operatorLabel = "environment.metal3.io/ironic-standalone-operator"

// readyCondition is the condition of an Ironic object that reports whether Ironic runs.
const readyCondition = "Ready"

// ironicObject is what an Ironic object says that a client needs.
type ironicObject struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		APICredentialsName string `json:"apiCredentialsName"`
		TLS                struct {
			CertificateName string `json:"certificateName"`
		} `json:"tls"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// objectOf returns the Ironic object that an IronicInstance names, or nil if it names none. If it cannot be read now, it is as it was
// read before.
func (c connector) objectOf(ctx context.Context, instance *api.IronicInstance, former *ironicObject) (*ironicObject, error) {
	ref := instance.Spec.IronicRef
	if ref == nil {
		return nil, nil
	}
	namespace := cmp.Or(ref.Namespace, c.deps.Namespace)
	if former != nil && (former.Namespace != namespace || former.Name != ref.Name) {
		former = nil
	}
	object, err := c.readObject(ctx, namespace, ref.Name)
	switch {
	case err != nil && former != nil && !apierrors.IsNotFound(err):
		return former, nil
	case err != nil:
		return nil, &Problem{api.IronicNotFoundReason, fmt.Sprintf("Ironic %q of the Ironic Standalone Operator in namespace %q cannot be read: %v", ref.Name, namespace, err)}
	case former != nil && equality.Semantic.DeepEqual(former, object):
		return former, nil
	}
	return object, nil
}

func (c connector) readObject(ctx context.Context, namespace, name string) (*ironicObject, error) {
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	u, err := c.deps.IronicObject(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	object := &ironicObject{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, object); err != nil {
		return nil, err
	}
	object.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: name} // the rest changes with each write of anybody
	return object, nil
}

// endpoint returns the URL of the Service that the operator creates: it has the name of the object, and the ports of http and https,
// whatever port Ironic itself listens at.
func (o *ironicObject) endpoint() string {
	scheme := "http"
	if o.Spec.TLS.CertificateName != "" {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s.%s.svc", scheme, o.Name, o.Namespace)
}

func (o *ironicObject) describe() string {
	return fmt.Sprintf("Ironic %q in namespace %q", o.Name, o.Namespace)
}

// readiness returns the condition IronicReady of an IronicInstance with the object. The object of an Ironic that is being upgraded
// is not ready, while Ironic may answer.
func (o *ironicObject) readiness() *metav1.Condition {
	c := metav1.Condition{Type: api.IronicInstanceIronicReady, Status: metav1.ConditionUnknown, Reason: "NoCondition", Message: o.describe() + " has no condition Ready yet"}
	if ready := meta.FindStatusCondition(o.Status.Conditions, readyCondition); ready != nil {
		c.Status, c.Reason = ready.Status, ready.Reason
		c.Message = o.describe() + ": " + cmp.Or(ready.Message, ready.Reason)
	}
	return &c
}

// authoritiesIn returns who may have signed the certificate in a Secret: its ca.crt, which cert-manager writes, or else the certificate
// itself, which then can be self-signed.
func authoritiesIn(secret *corev1.Secret) []byte {
	if ca := secret.Data["ca.crt"]; len(ca) > 0 {
		return ca
	}
	return secret.Data[corev1.TLSCertKey]
}
