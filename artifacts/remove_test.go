// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

var removal = regexp.MustCompile(`(?m)^    kubectl delete -k my-cluster(.*)$`)

// TestRemovalKeepsClaims checks that the commands with which the pages remove the server delete all but the claims, of which one may
// have all hosts and the other one all backups of them. What GitOps tools remove by themselves does not include them either.
func TestRemovalKeepsClaims(t *testing.T) {
	for _, page := range []string{"install", "migration"} {
		commands := removal.FindAllStringSubmatch(readDoc(t, "../docs/"+page+".md"), -1)
		if len(commands) != 1 {
			t.Fatalf("docs/%s.md has the commands %q; have they another form now?", page, commands)
		}
		selector := labels.Everything()
		if option := regexp.MustCompile(`^ -l '(.*)'$`).FindStringSubmatch(commands[0][1]); option != nil {
			var err error
			if selector, err = labels.Parse(option[1]); err != nil {
				t.Fatal(err)
			}
		}
		forEach(t, func(t *testing.T, objs objects) {
			for _, obj := range objs {
				_, keeps := obj.(*corev1.PersistentVolumeClaim)
				if deletes := selector.Matches(labels.Set(obj.GetLabels())); deletes == keeps {
					t.Errorf("docs/%s.md: the %T %s is deleted: %t", page, obj, obj.GetName(), deletes)
				}
			}
		})
	}
	// docs/gitops.md has these for hosts.
	forEach(t, func(t *testing.T, objs objects) {
		for _, claim := range all[*corev1.PersistentVolumeClaim](objs) {
			for annotation, want := range map[string]string{
				"argocd.argoproj.io/sync-options": "Prune=false,Delete=false", "kustomize.toolkit.fluxcd.io/prune": "disabled",
			} {
				if got := claim.Annotations[annotation]; got != want {
					t.Errorf("the claim %s has %s: %q, want %q", claim.Name, annotation, got, want)
				}
			}
		}
	})
}
