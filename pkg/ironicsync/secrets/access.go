// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/keymutex"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// access reads and writes Secrets. It asks kube-apiserver each time.
type access struct {
	client kubernetes.Interface
	claims keymutex.KeyMutex // by Secret: serialises the claims of hosts that share one
}

// lock keeps the rest of this process from writing a Secret, given as namespace/name, until unlock is called.
func (a *access) lock(secret string) (unlock func()) {
	a.claims.LockKey(secret)
	return func() { _ = a.claims.UnlockKey(secret) } // no error of a hashed mutex
}

// get reads a Secret. If kube-apiserver refuses that, the error says in words what would help.
func (a *access) get(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	secret, err := a.client.CoreV1().Secrets(namespace).Get(quiet(ctx), name, metav1.GetOptions{})
	return secret, explain(namespace, name, "that it is read", err)
}

// Read reads a Secret as it is, which need not have the label of the Secrets of hosts.
func (a *access) Read(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	secret, err := a.get(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return secret.Data, nil
}

// modify reads a Secret and calls change with it. If change returns true, the metadata is
// written; on a conflict, modify starts again. After a write, the Secret that was passed to
// change has the new resourceVersion; the one that it was read with is returned.
func (a *access) modify(ctx context.Context, namespace, name string, change func(*corev1.Secret) bool) (read string, err error) {
	if len(validation.NameIsDNSSubdomain(name, false)) > 0 {
		// No Secret can have this name, and as part of a URL it could address something else.
		return "", apierrors.NewNotFound(corev1.Resource("secrets"), name)
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		secret, err := a.get(ctx, namespace, name)
		if err != nil {
			return err
		}
		read = secret.ResourceVersion
		before := secret.ObjectMeta.DeepCopy()
		if !change(secret) {
			return nil
		}
		patch, err := metadataPatch(secret)
		if err != nil {
			return err
		}
		written, err := a.client.CoreV1().Secrets(namespace).Patch(quiet(ctx), name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return explain(namespace, name, changeOf(before, &secret.ObjectMeta), err)
		}
		secret.ResourceVersion = written.ResourceVersion
		return nil
	})
	return read, err
}

// metadataPatch returns a merge patch with the parts of the metadata that this package changes.
// It has the resourceVersion, so kube-apiserver refuses it if the Secret has been written since
// it was read. It is used instead of an update, which would contain the Secret's data: at level
// Request, the audit log of kube-apiserver has the bodies of all writes.
func metadataPatch(secret *corev1.Secret) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": secret.ResourceVersion,
		"labels":          secret.Labels,
		"finalizers":      secret.Finalizers,
		"ownerReferences": secret.OwnerReferences,
	}})
}

// removeFinalizer has a Secret go as soon as it is deleted.
func (a *access) removeFinalizer(ctx context.Context, namespace, name string) error {
	_, err := a.modify(ctx, namespace, name, func(sec *corev1.Secret) bool {
		return metal3.RemoveFinalizer(sec, metal3.SecretFinalizer)
	})
	return ignoreNotFound(err)
}

// ReplaceData writes all data of an existing Secret, if they differ. It leaves those alone for which mayReplace, which can be nil, returns
// false.
func (a *access) ReplaceData(ctx context.Context, namespace, name string, data map[string][]byte, mayReplace func(is map[string][]byte) bool) error {
	secret, err := a.client.CoreV1().Secrets(namespace).Get(quiet(ctx), name, metav1.GetOptions{})
	if err != nil || maps.EqualFunc(secret.Data, data, bytes.Equal) || mayReplace != nil && !mayReplace(secret.Data) {
		return err
	}
	values := map[string]any{}
	for key := range secret.Data {
		values[key] = nil // removed, unless it is set below
	}
	for key, value := range data {
		values[key] = value
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": secret.ResourceVersion},
		"data":     values,
	})
	if err != nil {
		return err
	}
	_, err = a.client.CoreV1().Secrets(namespace).Patch(quiet(ctx), name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func (a *access) deleteSecret(ctx context.Context, secret *corev1.Secret) error {
	return ignoreNotFound(a.client.CoreV1().Secrets(secret.Namespace).Delete(quiet(ctx), secret.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(secret.UID))}))
}

// ignoreNotFound returns nil if err says that an object does not exist, and err otherwise.
func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
