// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// All data of a Secret are replaced, and nothing else. One that has them already is not written, nor is one whose data are not to be
// replaced.
func TestReplaceData(t *testing.T) {
	stored := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "configs", Labels: map[string]string{"app": "ironic"}},
		Data:       map[string][]byte{"old": []byte("1"), "kept": []byte("2")},
	}
	client := fake.NewClientset(stored)
	s := &access{client: client}
	want := map[string][]byte{"kept": []byte("3"), "new": []byte("4")}
	if err := s.ReplaceData(t.Context(), "metal3", "configs", want, func(is map[string][]byte) bool { return string(is["old"]) != "1" }); err != nil {
		t.Fatal(err)
	}
	if data, err := s.Read(t.Context(), "metal3", "configs"); err != nil || string(data["kept"]) != "2" {
		t.Errorf("what is not to be replaced is %q: %v", data, err)
	}
	for range 2 {
		if err := s.ReplaceData(t.Context(), "metal3", "configs", want, func(map[string][]byte) bool { return true }); err != nil {
			t.Fatal(err)
		}
	}
	data, err := s.Read(t.Context(), "metal3", "configs")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, data); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	patches := 0
	for _, action := range client.Actions() {
		if action.GetVerb() == "patch" {
			patches++
		}
	}
	if patches != 1 {
		t.Errorf("the Secret was written %d times, want once", patches)
	}
	if err := s.ReplaceData(t.Context(), "metal3", "other", want, nil); !apierrors.IsNotFound(err) {
		t.Errorf("a Secret that does not exist: %v", err)
	}
}
