package migrate

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Each finalizer of the Bare Metal Operator is in the table, and what is said to remove it exists.
func TestOperatorFinalizers(t *testing.T) {
	text, err := os.ReadFile("../apis/metal3/v1alpha1/keys.go")
	if err != nil {
		t.Fatal(err)
	}
	constants := regexp.MustCompile(`(?m)^\t[A-Za-z]+Finalizer += `).FindAll(text, -1)
	if want := len(operatorFinalizers) + 1; len(constants) != want { // one is for Secrets
		t.Errorf("keys.go has %d finalizers, want %d", len(constants), want)
	}
	kinds := kindsForTest(t)
	for _, known := range operatorFinalizers {
		if !slices.ContainsFunc(kinds, func(k *Kind) bool { return k.Resource == known.resource }) {
			t.Errorf("%s: there is no kind %s", known.finalizer, known.resource)
		}
		if known.removedBy != "" {
			if _, err := os.Stat("../../" + known.removedBy); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestDropFinalizers(t *testing.T) {
	const others = "example.com/held"
	for _, known := range operatorFinalizers {
		t.Run(known.finalizer, func(t *testing.T) {
			kept := []string{known.finalizer, others}
			if known.removedBy == "" {
				kept = []string{others}
			}
			kind := &Kind{Resource: known.resource}
			item := &unstructured.Unstructured{Object: map[string]any{}}
			item.SetFinalizers([]string{known.finalizer, others})
			if remains := dropFinalizers(kind, item); !remains {
				t.Error("the object is left out")
			}
			if diff := cmp.Diff(kept, item.GetFinalizers()); diff != "" {
				t.Errorf("finalizers (-want +got):\n%s", diff)
			}

			now := metav1.Now()
			item.SetDeletionTimestamp(&now)
			item.SetFinalizers([]string{known.finalizer})
			if remains := dropFinalizers(kind, item); remains != (known.removedBy != "") {
				t.Errorf("an object that is being deleted remains: %t", remains)
			}
		})
	}
	item := &unstructured.Unstructured{Object: map[string]any{}}
	if !dropFinalizers(&Kind{Resource: "hostclaims"}, item) {
		t.Error("an object without finalizers is left out")
	}
}
