package secrets

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// CredentialsIn returns what a Secret has for a BMC, and the keys that it lacks.
func CredentialsIn(secret *corev1.Secret) (username, password string, missing []string) {
	username = strings.TrimSpace(string(secret.Data[metal3.SecretUsernameKey]))
	password = strings.TrimSpace(string(secret.Data[metal3.SecretPasswordKey]))
	if username == "" {
		missing = append(missing, metal3.SecretUsernameKey)
	}
	if password == "" {
		missing = append(missing, metal3.SecretPasswordKey)
	}
	return username, password, missing
}

// Claim reads the credentials of host and marks the Secret as the host's: the
// label by which Secrets of hosts are found, an owner reference so that it goes
// with the host, and a finalizer so that it stays until the host is gone. A Secret
// without credentials of a BMC is left as it is: whoever may create hosts, and no
// more, could have any Secret deleted with a host otherwise.
func (s *Secrets) Claim(ctx context.Context, host *metal3.BareMetalHost) (Credentials, error) {
	key := host.Namespace + "/" + host.Spec.BMC.CredentialsName
	s.claims.LockKey(key)
	defer func() { _ = s.claims.UnlockKey(key) }()
	var secret *corev1.Secret
	read, err := s.modify(ctx, host.Namespace, host.Spec.BMC.CredentialsName, func(sec *corev1.Secret) bool {
		secret = sec
		_, _, missing := CredentialsIn(sec)
		return len(missing) == 0 && claim(sec, host)
	})
	if err != nil {
		return Credentials{}, err
	}
	c := Credentials{Version: secret.ResourceVersion, Since: s.note(secret, read, true)}
	var missing []string
	if c.Username, c.Password, missing = CredentialsIn(secret); missing != nil {
		return Credentials{Version: c.Version}, &IncompleteError{fmt.Sprintf("Secret %q has no %s: it needs the keys username and password of the BMC", secret.Name, strings.Join(missing, " and no "))}
	}
	return c, nil
}

// Data is what a Secret holds that a host names apart from its credentials.
type Data struct {
	Type corev1.SecretType
	Data map[string][]byte
	// Since is the earliest resourceVersion known to have had the same contents.
	Since string
}

// Data reads a Secret that a host names apart from its credentials, and marks it
// with the label by which Secrets of hosts are found. It stays its owner's.
func (s *Secrets) Data(ctx context.Context, namespace, name string) (Data, error) {
	key := namespace + "/" + name
	s.claims.LockKey(key)
	defer func() { _ = s.claims.UnlockKey(key) }()
	var secret *corev1.Secret
	read, err := s.modify(ctx, namespace, name, func(sec *corev1.Secret) bool {
		secret = sec
		return label(sec)
	})
	if err != nil {
		return Data{}, err
	}
	return Data{Type: secret.Type, Data: secret.Data, Since: s.note(secret, read, false)}, nil
}

// Release lets a Secret go that host claimed. That it is gone is no error.
func (s *Secrets) Release(ctx context.Context, host *metal3.BareMetalHost, name string) error {
	_, err := s.modify(ctx, host.Namespace, name, func(sec *corev1.Secret) bool {
		if ownedByAnother(sec, host) {
			// Shared: the last host to go takes the finalizer with it.
			n := len(sec.OwnerReferences)
			sec.OwnerReferences = slices.DeleteFunc(sec.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == host.UID })
			return len(sec.OwnerReferences) < n
		}
		i := slices.Index(sec.Finalizers, metal3.SecretFinalizer)
		if i < 0 {
			return false
		}
		sec.Finalizers = slices.Delete(sec.Finalizers, i, i+1)
		return true
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// modify reads the Secret, lets change change it and writes it if change says so.
// The Secret that change saw last carries the resulting resourceVersion; the one that
// it was read at is returned.
func (s *Secrets) modify(ctx context.Context, namespace, name string, change func(*corev1.Secret) bool) (read string, err error) {
	if len(validation.NameIsDNSSubdomain(name, false)) > 0 {
		// Not asked for: in a path, it might be that of something else.
		return "", apierrors.NewNotFound(corev1.Resource("secrets"), name)
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		secret, err := s.client.CoreV1().Secrets(namespace).Get(Quiet(ctx), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		read = secret.ResourceVersion
		if !change(secret) {
			return nil
		}
		patch, err := metadataPatch(secret)
		if err != nil {
			return err
		}
		written, err := s.client.CoreV1().Secrets(namespace).Patch(Quiet(ctx), name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return err
		}
		secret.ResourceVersion = written.ResourceVersion
		return nil
	})
	return read, err
}

// metadataPatch returns a merge patch that writes those parts of the metadata that are ever
// changed here, unless the Secret has been written since it was read. An update would carry the
// contents as well: they would be in the audit log of kube-apiserver, which at level Request has
// the bodies of all writes.
func metadataPatch(secret *corev1.Secret) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": secret.ResourceVersion,
		"labels":          secret.Labels,
		"finalizers":      secret.Finalizers,
		"ownerReferences": secret.OwnerReferences,
	}})
}

func label(secret *corev1.Secret) (changed bool) {
	if secret.Labels[metal3.EnvironmentLabel] == metal3.EnvironmentLabelValue {
		return false
	}
	if secret.Labels == nil {
		secret.Labels = map[string]string{}
	}
	secret.Labels[metal3.EnvironmentLabel] = metal3.EnvironmentLabelValue
	return true
}

func claim(secret *corev1.Secret, host *metal3.BareMetalHost) (changed bool) {
	changed = label(secret)
	// A Secret or a host on its way out is not held any longer than it is already.
	if !secret.DeletionTimestamp.IsZero() || !host.DeletionTimestamp.IsZero() {
		return changed
	}
	if !slices.Contains(secret.Finalizers, metal3.SecretFinalizer) {
		secret.Finalizers = append(secret.Finalizers, metal3.SecretFinalizer)
		changed = true
	}
	if !slices.ContainsFunc(secret.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == host.UID }) {
		secret.OwnerReferences = append(secret.OwnerReferences, metav1.OwnerReference{
			APIVersion: metal3.SchemeGroupVersion.String(), Kind: "BareMetalHost", Name: host.Name, UID: host.UID,
		})
		changed = true
	}
	return changed
}

// ownedByAnother tells whether another host claims the Secret too.
func ownedByAnother(secret *corev1.Secret, host *metal3.BareMetalHost) bool {
	return slices.ContainsFunc(secret.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "BareMetalHost" && o.UID != host.UID
	})
}
