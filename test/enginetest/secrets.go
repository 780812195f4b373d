// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
)

// NoSecret is how a cluster answers that has no Secrets.
func NoSecret(_ context.Context, _, name string) (*corev1.Secret, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
}

// PatchedSecret returns a Secret of a fake cluster as a merge patch of its metadata makes it. It
// fails if the patch is of anything else: no contents of a Secret may be written.
func PatchedSecret(tracker clienttesting.ObjectTracker, action clienttesting.PatchAction) (*corev1.Secret, error) {
	stored, err := tracker.Get(corev1.SchemeGroupVersion.WithResource("secrets"), action.GetNamespace(), action.GetName())
	if err != nil {
		return nil, err
	}
	var patch metav1.PartialObjectMetadata
	decoder := json.NewDecoder(bytes.NewReader(action.GetPatch()))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&patch); err != nil {
		return nil, fmt.Errorf("the patch %s of Secret %s: %w", action.GetPatch(), action.GetName(), err)
	}
	secret := stored.(*corev1.Secret).DeepCopy()
	secret.Labels, secret.Finalizers, secret.OwnerReferences = patch.Labels, patch.Finalizers, patch.OwnerReferences
	return secret, nil
}
