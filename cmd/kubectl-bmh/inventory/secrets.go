// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

// fileSecret is a Secret of a manifest. Its mistakes concern the hosts that name it.
type fileSecret struct {
	line   int
	secret *corev1.Secret
	err    error
	isUsed bool
}

// secretsIn are the Secrets of a manifest.
type secretsIn struct {
	byName  map[types.NamespacedName]*fileSecret
	inOrder []*fileSecret
}

// add reads a Secret. If there are two of a name, neither is the one that a host means.
func (s *secretsIn) add(o object, namespace string) {
	secret, err := readSecret(o.node, namespace)
	read := &fileSecret{line: o.node.Line, secret: secret, err: err}
	s.inOrder = append(s.inOrder, read)
	key := types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}
	if s.byName == nil {
		s.byName = map[types.NamespacedName]*fileSecret{}
	}
	if other, found := s.byName[key]; found {
		other.err = join(other.err, fmt.Errorf("it is there again in line %d", read.line))
		read.isUsed = true // which is told with the other one
		return
	}
	s.byName[key] = read
}

// give adds the Secrets that a host names and the file has. Those that it has not exist already.
func (s *secretsIn) give(entry *Entry) error {
	spec := &entry.Spec
	names := []string{spec.BMC.CredentialsName, spec.PreprovisioningNetworkDataName}
	if spec.Image != nil {
		names = append(names, ptr.Deref(spec.Image.OCIAuthSecretName, ""))
	}
	for _, ref := range []*corev1.SecretReference{spec.UserData, spec.NetworkData, spec.MetaData} {
		if ref != nil {
			names = append(names, ref.Name)
		}
	}
	var errs []error
	for i, name := range names {
		found := s.byName[types.NamespacedName{Namespace: entry.Namespace, Name: name}]
		if found == nil || name == "" {
			continue
		}
		err := found.err
		if i == 0 && err == nil {
			err = checkCredentials(found.secret)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("its Secret %s (line %d): %w", name, found.line, err))
		} else if !slices.Contains(entry.Secrets, found.secret) {
			entry.Secrets = append(entry.Secrets, found.secret)
		}
		found.isUsed = true
	}
	return join(errs...)
}

// unused returns a mistake for each Secret that no host names, and that is left out therefore.
func (s *secretsIn) unused() (mistakes []*LineError) {
	for _, f := range s.inOrder {
		if !f.isUsed {
			err := fmt.Errorf("Secret %s is left out, because no BareMetalHost of namespace %s in this file names it", f.secret.Name, f.secret.Namespace)
			mistakes = append(mistakes, &LineError{Line: f.line, Err: join(err, f.err), IsOther: true})
		}
	}
	return mistakes
}

func checkCredentials(secret *corev1.Secret) error {
	for _, key := range []string{metal3.SecretUsernameKey, metal3.SecretPasswordKey} {
		if len(secret.Data[key]) == 0 {
			return fmt.Errorf("it has no %s", key)
		}
		if wrong := bmc.Unsendable(strings.TrimSpace(string(secret.Data[key]))); wrong != "" {
			return fmt.Errorf("its %s %s", key, wrong)
		}
	}
	return nil
}

// readSecret returns a Secret with its mistakes, which do not contain what is in it.
func readSecret(node *yaml.Node, namespace string) (*corev1.Secret, error) {
	meta, err := readMetadata(node, namespace)
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{},
	}
	if child(node, "sops") != nil {
		return secret, errors.New("is encrypted by SOPS: decrypt the file first, with sops -d")
	}
	errs := []error{err}
	var encoded, text map[string]string
	for _, field := range []struct {
		key string
		set func(*yaml.Node) error
	}{{"type", toText(&secret.Type)}, {"data", toMap(&encoded)}, {"stringData", toMap(&text)}} {
		if value := child(node, field.key); value != nil {
			errs = append(errs, within(field.key, field.set(value)))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(encoded)) {
		decoded, err := base64.StdEncoding.DecodeString(encoded[key])
		if err != nil {
			errs = append(errs, within("data."+key, errors.New("is not in base64; stringData takes text as it is")))
		}
		secret.Data[key] = decoded
	}
	for key, value := range text { // which the server prefers, too
		secret.Data[key] = []byte(value)
	}
	return secret, join(errs...)
}
