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

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
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
		newSecret(named("of-a-switch"), unclaimed),
	}
	ofSwitch := func(s *corev1.Secret) {
		unclaimed(s)
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: metal3.SchemeGroupVersion.String(), Kind: "BareMetalSwitch", Name: "leaf-9", UID: "leaf-9"}}
	}
	var objects, metas []runtime.Object
	for i, options := range [][]func(*corev1.Secret){{claimedBy(here)}, {claimedBy(gone)}, {claimedBy(gone, here)}, {claimedBy(gone), others}, {claimedBy(gone), goingSecret}, {others}, {ofSwitch}} {
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
	if err != nil || released != 4 {
		t.Errorf("%d Secrets released (%v), want 4", released, err)
	}
	for _, want := range wanted {
		got, err := client.CoreV1().Secrets(want.Namespace).Get(t.Context(), want.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		sameSecret(t, want.Name, want, got)
	}
}
