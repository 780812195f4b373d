// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// Read reads a Secret as it is, which need not have the label of the Secrets of hosts.
func (s *Secrets) Read(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	secret, err := s.get(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return secret.Data, nil
}

// Own reads a Secret. If it has the credentials that isCredentials looks for, it gets the label of
// the Secrets of hosts and an owner, with which it is deleted. Other Secrets are not changed:
// whoever may create the owner could otherwise have any Secret deleted. The owner is left out where
// the cluster does not admit it, see Claim.
func (s *Secrets) Own(ctx context.Context, namespace, name string, owner metav1.OwnerReference, isCredentials func(*corev1.Secret) bool) (map[string][]byte, error) {
	defer s.lock(namespace + "/" + name)()
	var data map[string][]byte
	ownWith := func(own bool) error {
		_, err := s.modify(ctx, namespace, name, func(secret *corev1.Secret) bool {
			data = secret.Data
			if !isCredentials(secret) || !secret.DeletionTimestamp.IsZero() {
				return false
			}
			changed := label(secret)
			if own && !slices.ContainsFunc(secret.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID }) {
				secret.OwnerReferences = append(secret.OwnerReferences, owner)
				changed = true
			}
			return changed
		})
		return err
	}
	err := ownWith(true)
	if IsRefusal(err) && !LacksRight(err) {
		klog.FromContext(ctx).V(1).Info("The cluster does not admit the owner of a Secret", "secret", namespace+"/"+name,
			"owner", owner.Kind+" "+owner.Name, "err", err)
		err = ownWith(false)
	}
	return data, err
}

// ReplaceData writes all data of an existing Secret, if they differ.
func (s *Secrets) ReplaceData(ctx context.Context, namespace, name string, data map[string][]byte) error {
	secret, err := s.client.CoreV1().Secrets(namespace).Get(Quiet(ctx), name, metav1.GetOptions{})
	if err != nil || maps.EqualFunc(secret.Data, data, bytes.Equal) {
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
	_, err = s.client.CoreV1().Secrets(namespace).Patch(Quiet(ctx), name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
