// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
)

// TestReleaseGone: after a restore, the Secrets of hosts that are missing belong to nobody, so that the garbage collector leaves them
// alone, and those of others are as they were.
func TestReleaseGone(t *testing.T) {
	here, gone := newHost(), anotherHost()
	named := func(name string) func(*corev1.Secret) { return func(s *corev1.Secret) { s.Name = name } }
	others := func(s *corev1.Secret) {
		s.Finalizers = append(s.Finalizers, "example.com/other")
		s.OwnerReferences = append(s.OwnerReferences, metav1.OwnerReference{Kind: "ConfigMap", Name: "x", UID: "x"})
	}
	unclaimed := func(s *corev1.Secret) {
		claimedBy()(s)
		s.Finalizers, s.OwnerReferences = nil, nil
	}
	wanted := []*corev1.Secret{
		newSecret(named("of-one-that-is-there"), claimedBy(here)),
		newSecret(named("of-one-that-is-missing"), unclaimed),
		newSecret(named("of-both"), claimedBy(here)),
		newSecret(named("with-others"), unclaimed, others),
		newSecret(named("going-already"), claimedBy(gone), goingSecret),
		newSecret(named("unlabelled"), others),
	}
	var objects, metas []runtime.Object
	for i, options := range [][]func(*corev1.Secret){{claimedBy(here)}, {claimedBy(gone)}, {claimedBy(gone, here)}, {claimedBy(gone), others}, {claimedBy(gone), goingSecret}, {others}} {
		secret := newSecret(append(options, named(wanted[i].Name))...)
		objects = append(objects, secret)
		metas = append(metas, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: secret.ObjectMeta})
	}
	client := fake.NewClientset(objects...)
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	released, err := ReleaseGone(t.Context(), client, metadatafake.NewSimpleMetadataClient(scheme, metas...), nil, func(uid types.UID) bool { return uid == here.UID })
	if err != nil || released != 3 {
		t.Errorf("%d Secrets released (%v), want 3", released, err)
	}
	for _, want := range wanted {
		got, err := client.CoreV1().Secrets(want.Namespace).Get(t.Context(), want.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		sameSecret(t, want.Name, want, got)
	}
}
