// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// Copy makes a copy of a Secret in another namespace, with these labels and this owner, or brings it
// up to date. It returns a NotFound error if there is no such Secret, and an AlreadyExists error if
// there is a Secret in the place of the copy that does not have the labels. No request is sent if
// nothing has changed since the copy was made.
func (s *Secrets) Copy(ctx context.Context, from, to types.NamespacedName, labels map[string]string, owner metav1.OwnerReference) error {
	if len(validation.NameIsDNSSubdomain(from.Name, false)) > 0 {
		return apierrors.NewNotFound(corev1.Resource("secrets"), from.Name)
	}
	defer s.lock(to.String())()
	version := s.watched(from.Namespace, from.Name)
	known, isKnown := s.memory.copyOf(to.String())
	if isKnown && known.from == from && version != "" && !lifecycle.IsNewerVersion(version, known.version) && s.Watched(to.Namespace, to.Name) {
		return nil
	}
	source, err := s.client.CoreV1().Secrets(from.Namespace).Get(quiet(ctx), from.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := s.writeCopy(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: to.Namespace, Name: to.Name, Labels: labels, OwnerReferences: []metav1.OwnerReference{owner}},
		Type:       typeOfCopy(source.Type), Data: source.Data,
	}); err != nil {
		return err
	}
	s.memory.noteCopy(to.String(), copied{from, source.ResourceVersion})
	return nil
}

// typeOfCopy returns the type of the copy of a Secret. Only types that hosts tell apart are kept: others
// can have a meaning for other components of the cluster.
func typeOfCopy(source corev1.SecretType) corev1.SecretType {
	switch source {
	case corev1.SecretTypeDockerConfigJson, corev1.SecretTypeDockercfg:
		return source
	}
	return corev1.SecretTypeOpaque
}

func (a *access) writeCopy(ctx context.Context, wanted *corev1.Secret) error {
	secrets := a.client.CoreV1().Secrets(wanted.Namespace)
	existing, err := secrets.Get(quiet(ctx), wanted.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return err
	case !hasLabels(existing, wanted.Labels):
		return apierrors.NewAlreadyExists(corev1.Resource("secrets"), wanted.Name)
	case existing.Type != wanted.Type: // which cannot be changed
		if err := a.deleteSecret(ctx, existing); err != nil {
			return err
		}
	case maps.EqualFunc(existing.Data, wanted.Data, bytes.Equal):
		return nil
	default:
		return a.ReplaceData(ctx, wanted.Namespace, wanted.Name, wanted.Data, nil)
	}
	_, err = secrets.Create(quiet(ctx), wanted, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("copy %s/%s was created in the meantime", wanted.Namespace, wanted.Name) // and is looked at again
	}
	return err
}

// DeleteCopy deletes a Secret if it exists and has the labels.
func (s *Secrets) DeleteCopy(ctx context.Context, copy types.NamespacedName, labels map[string]string) error {
	defer s.lock(copy.String())()
	s.memory.forgetCopy(copy.String())
	existing, err := s.get(ctx, copy.Namespace, copy.Name)
	if apierrors.IsNotFound(err) || LacksRight(err) && (s.letGo.isGoing(copy.Namespace) || s.letGo.isGone(copy.Namespace)) { // it goes with the namespace
		return nil
	}
	if err != nil || !hasLabels(existing, labels) {
		return err
	}
	return s.deleteSecret(ctx, existing)
}

func hasLabels(secret *corev1.Secret, wanted map[string]string) bool {
	return labels.SelectorFromSet(wanted).Matches(labels.Set(secret.Labels))
}
