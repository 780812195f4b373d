// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
)

// A copy has the contents of its Secret, and nothing else of it. What is in its place and is no copy is
// neither written nor deleted.
func TestCopy(t *testing.T) {
	labels := map[string]string{"metal3.io/hostclaim": "uid"}
	owner := metav1.OwnerReference{Kind: "BareMetalHost", Name: "worker-0", UID: "host"}
	from, to := types.NamespacedName{Namespace: "tenant", Name: "first-boot"}, types.NamespacedName{Namespace: "racks", Name: "copy"}
	source := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: from.Namespace, Name: from.Name, Annotations: map[string]string{corev1.ServiceAccountNameKey: "admin"}},
		Type:       corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{"userData": []byte("a")},
	}
	client := fake.NewClientset(source)
	s := New(client, metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme()), nil)
	ctx := t.Context()
	copied := func() *corev1.Secret {
		t.Helper()
		secret, err := client.CoreV1().Secrets(to.Namespace).Get(ctx, to.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	isCopy := func(kind corev1.SecretType, data map[string][]byte) {
		t.Helper()
		if err := s.Copy(ctx, from, to, labels, owner); err != nil {
			t.Fatal(err)
		}
		got := copied()
		want := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: to.Namespace, Name: to.Name, Labels: labels, OwnerReferences: []metav1.OwnerReference{owner}}, Type: kind, Data: data}
		want.TypeMeta, want.ResourceVersion, want.ManagedFields = got.TypeMeta, got.ResourceVersion, got.ManagedFields
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the copy (-want +got):\n%s", diff)
		}
	}
	change := func(change func(*corev1.Secret)) {
		t.Helper()
		change(source)
		if _, err := client.CoreV1().Secrets(from.Namespace).Update(ctx, source, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	isCopy(corev1.SecretTypeOpaque, map[string][]byte{"userData": []byte("a")})
	change(func(s *corev1.Secret) { s.Data = map[string][]byte{"value": []byte("b")} })
	isCopy(corev1.SecretTypeOpaque, map[string][]byte{"value": []byte("b")})
	change(func(s *corev1.Secret) { s.Type = corev1.SecretTypeDockerConfigJson })
	isCopy(corev1.SecretTypeDockerConfigJson, map[string][]byte{"value": []byte("b")})

	for _, name := range []string{"../../kube-system/secrets/x", "missing"} {
		if err := s.Copy(ctx, types.NamespacedName{Namespace: from.Namespace, Name: name}, to, labels, owner); !apierrors.IsNotFound(err) {
			t.Errorf("a copy of %s: %v", name, err)
		}
	}
	other := map[string]string{"metal3.io/hostclaim": "another"}
	if err := s.DeleteCopy(ctx, to, other); err != nil {
		t.Error(err)
	}
	if err := s.Copy(ctx, from, to, other, owner); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a copy in the place of another one: %v", err)
	}
	copied()
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: to.Namespace, Name: "theirs"}, Data: map[string][]byte{"value": []byte("theirs")}}
	if _, err := client.CoreV1().Secrets(to.Namespace).Create(ctx, theirs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Copy(ctx, from, types.NamespacedName{Namespace: to.Namespace, Name: theirs.Name}, labels, owner); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a copy in the place of a Secret without labels: %v", err)
	}
	if got, err := client.CoreV1().Secrets(to.Namespace).Get(ctx, theirs.Name, metav1.GetOptions{}); err != nil || string(got.Data["value"]) != "theirs" {
		t.Errorf("a Secret that is no copy was replaced (%v)", err)
	}
	for range 2 {
		if err := s.DeleteCopy(ctx, to, labels); err != nil {
			t.Error(err)
		}
	}
	if _, err := client.CoreV1().Secrets(to.Namespace).Get(ctx, to.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the copy is still there: %v", err)
	}
}
