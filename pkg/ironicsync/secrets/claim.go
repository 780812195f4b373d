// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

// MaxPassword is how many bytes the password of a BMC may have. IPMI knows 20, and Redfish none of more than 255 that a BMC would take.
// Passwords are looked for in all that Ironic says of a host, in hundreds of spellings.
const MaxPassword = 256

// CredentialsIn returns the credentials of a BMC in a Secret. The error is an *IncompleteError if one of them is
// missing or cannot be sent to a BMC, or no BMC takes the password.
func CredentialsIn(secret *corev1.Secret) (username, password string, err error) {
	username = strings.TrimSpace(string(secret.Data[metal3.SecretUsernameKey]))
	password = strings.TrimSpace(string(secret.Data[metal3.SecretPasswordKey]))
	var missing, unsendable []string
	for _, is := range []struct{ key, value string }{{metal3.SecretUsernameKey, username}, {metal3.SecretPasswordKey, password}} {
		if is.value == "" {
			missing = append(missing, is.key)
		} else if wrong := bmc.Unsendable(is.value); wrong != "" {
			unsendable = append(unsendable, fmt.Sprintf("its %s %s", is.key, wrong))
		}
	}
	switch {
	case missing != nil:
		err = &IncompleteError{fmt.Sprintf("Secret %q has no %s: it needs the keys username and password of the BMC", secret.Name, strings.Join(missing, " and no "))}
	case unsendable != nil:
		err = &IncompleteError{fmt.Sprintf("Secret %q cannot be used: %s. Each has to be one line of text in UTF-8, without a byte order mark", secret.Name, strings.Join(unsendable, ", "))}
	case len(password) > MaxPassword:
		err = &IncompleteError{fmt.Sprintf("Secret %q has no password of a BMC: that has at most %d bytes, and the one in the Secret %d", secret.Name, MaxPassword, len(password))}
	}
	return username, password, err
}

// Claim reads the BMC credentials of host and marks their Secret as the host's. The Secret gets
// the label by which Secrets of hosts are found, a finalizer, with which it exists until the host
// is gone, and an owner reference, with which it is deleted after the host. The last is left out where
// the cluster does not admit it, as with the admission plugin OwnerReferencesPermissionEnforcement:
// this server may not delete Secrets, and who may not delete an object may not change its owners then.
// Such a Secret is there for its user to delete. A Secret without
// BMC credentials is not changed. Otherwise, users who are only permitted to create hosts could
// have any Secret deleted together with a host. The error is an *IncompleteError if the
// Secret does not have them.
func (s *Secrets) Claim(ctx context.Context, host *metal3.BareMetalHost) (Credentials, error) {
	key := host.Namespace + "/" + host.Spec.BMC.CredentialsName
	defer s.lock(key)()
	var secret *corev1.Secret
	claimWith := func(own bool) (read string, err error) {
		return s.modify(ctx, host.Namespace, host.Spec.BMC.CredentialsName, func(sec *corev1.Secret) bool {
			secret = sec
			_, _, err := CredentialsIn(sec)
			return err == nil && s.claim(sec, host, own)
		})
	}
	read, err := claimWith(true)
	if IsRefusal(err) && !LacksRight(err) {
		klog.FromContext(ctx).V(1).Info("The cluster does not admit the host as an owner of its Secret", "secret", key, "err", err)
		read, err = claimWith(false)
	}
	if err != nil {
		return Credentials{}, err
	}
	c := Credentials{Version: secret.ResourceVersion, Since: s.memory.note(secret, read, true), Leaving: !secret.DeletionTimestamp.IsZero()}
	if c.Username, c.Password, err = CredentialsIn(secret); err != nil {
		return Credentials{Version: c.Version}, err
	}
	return c, nil
}

// Data is the contents of a Secret that a host names, other than the one with its BMC
// credentials.
type Data struct {
	Type corev1.SecretType
	Data map[string][]byte
	// Since is the earliest resourceVersion known to have had the same contents.
	Since string
}

// Data reads a Secret that a host names, other than the one with its BMC credentials, and marks
// it with the label by which Secrets of hosts are found. The host does not become its owner.
func (s *Secrets) Data(ctx context.Context, namespace, name string) (Data, error) {
	defer s.lock(namespace + "/" + name)()
	var secret *corev1.Secret
	read, err := s.modify(ctx, namespace, name, func(sec *corev1.Secret) bool {
		secret = sec
		return label(sec)
	})
	if err != nil {
		return Data{}, err
	}
	return Data{Type: secret.Type, Data: secret.Data, Since: s.memory.note(secret, read, false)}, nil
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

// Release ends the claim of host on a Secret. It is not an error if the Secret does not exist, or if
// the namespace is being deleted and has taken the right to its Secrets along: see letgo.go.
func (s *Secrets) Release(ctx context.Context, host *metal3.BareMetalHost, name string) error {
	_, err := s.modify(ctx, host.Namespace, name, func(sec *corev1.Secret) bool {
		if ownedByAnother(sec, host) {
			// Another host claims the Secret, too. The last of them removes the finalizer.
			n := len(sec.OwnerReferences)
			sec.OwnerReferences = slices.DeleteFunc(sec.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == host.UID })
			return len(sec.OwnerReferences) < n
		}
		return metal3.RemoveFinalizer(sec, metal3.SecretFinalizer)
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case LacksRight(err) && (s.letGo.isGoing(host.Namespace) || s.letGo.isGone(host.Namespace)):
		klog.FromContext(ctx).Error(err, "The host goes although its Secret cannot be released: the namespace is being deleted, and the right to its Secrets has gone first", "secret", host.Namespace+"/"+name)
		return nil
	case IsRefusal(err) && !LacksRight(err):
		// The owners of the Secret cannot be changed, see Claim. That of a host that is gone is removed by
		// the garbage collector; but until then, it would keep the other host from removing the finalizer.
		return s.removeFinalizer(ctx, host.Namespace, name)
	}
	return err
}

// label sets the label by which Secrets of hosts are found.
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

// claim adds the label, the finalizer and, if own is set, the owner reference of host.
func (s *Secrets) claim(secret *corev1.Secret, host *metal3.BareMetalHost, own bool) (changed bool) {
	changed = label(secret)
	// Do not delay a deletion of the Secret, the host or the namespace that is under way already.
	if !secret.DeletionTimestamp.IsZero() || !host.DeletionTimestamp.IsZero() || s.letGo.isGoing(secret.Namespace) {
		return changed
	}
	if metal3.AddFinalizer(secret, metal3.SecretFinalizer) {
		changed = true
	}
	if own && !metal3.IsOwnedBy(secret, host) {
		secret.OwnerReferences = append(secret.OwnerReferences, metal3.NewOwnerReference("BareMetalHost", host))
		changed = true
	}
	return changed
}

// ownedByAnother reports whether a host other than host claims the Secret.
func ownedByAnother(secret *corev1.Secret, host *metal3.BareMetalHost) bool {
	return slices.ContainsFunc(secret.OwnerReferences, func(o metav1.OwnerReference) bool {
		return isHost(o) && o.UID != host.UID
	})
}
