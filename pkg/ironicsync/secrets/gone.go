// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// ReleaseGone ends the claims of hosts and switches that do not exist. It is for a server whose etcd was restored from a backup, before
// it serves: the garbage collector of the cluster deletes a Secret when it can ask for its owner and there is none, and owners that are
// newer than the backup are to be created again. A Secret whose owners the cluster does not let us change keeps its finalizer, with which
// it is there until somebody releases it. released counts the others. Only the Secrets in the given namespaces are looked at, or those
// in all namespaces if none is given.
func ReleaseGone(ctx context.Context, client kubernetes.Interface, meta metadata.Interface, namespaces []string, exists func(types.UID) bool) (released int, err error) {
	s := New(client, meta, namespaces)
	var errs []error
	for namespace := range s.informers {
		list, err := meta.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace).List(quiet(ctx), metav1.ListOptions{
			LabelSelector: metal3.EnvironmentLabel + "=" + metal3.EnvironmentLabelValue,
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("listing the Secrets of hosts: %w", err))
			continue
		}
		for i := range list.Items {
			switch changed, err := s.releaseGone(ctx, &list.Items[i], exists); {
			case err != nil:
				errs = append(errs, fmt.Errorf("Secret %s/%s: %w", list.Items[i].Namespace, list.Items[i].Name, err))
			case changed:
				released++
			}
		}
	}
	return released, errors.Join(errs...)
}

// releaseGone ends the claims on a Secret of hosts and switches that do not exist.
func (a *access) releaseGone(ctx context.Context, found *metav1.PartialObjectMetadata, exists func(types.UID) bool) (changed bool, err error) {
	isGone := func(o metav1.OwnerReference) bool { return (isHost(o) || isSwitch(o)) && !exists(o.UID) }
	if !slices.ContainsFunc(found.OwnerReferences, isGone) {
		return false, nil
	}
	_, err = a.modify(ctx, found.Namespace, found.Name, func(secret *corev1.Secret) bool {
		if !secret.DeletionTimestamp.IsZero() {
			return false // only the finalizer keeps it by now, for the host that is to be created again
		}
		owners := len(secret.OwnerReferences)
		secret.OwnerReferences = slices.DeleteFunc(secret.OwnerReferences, isGone)
		if !slices.ContainsFunc(secret.OwnerReferences, isHost) {
			metal3.RemoveFinalizer(secret, metal3.SecretFinalizer)
		}
		changed = len(secret.OwnerReferences) < owners
		return changed
	})
	return changed, err
}

func isHost(o metav1.OwnerReference) bool   { return o.Kind == "BareMetalHost" }
func isSwitch(o metav1.OwnerReference) bool { return o.Kind == "BareMetalSwitch" }
