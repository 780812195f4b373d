// SPDX-License-Identifier: Apache-2.0

package hostclaim

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// allow has a policy let the claim have the hosts of a namespace, or no longer.
func (w *world) allow(namespace string, allowed bool) {
	names := []string{}
	if allowed {
		names = append(names, claimKey.Namespace)
	}
	w.controller.policyChanged(nil, &metal3.HostDeployPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tenants"}, Spec: metal3.HostDeployPolicySpec{
		HostClaimNamespaces: &metal3.HostClaimNamespaces{Names: names},
	}})
}

// deployed is a world in which worker-0 runs what the claim asks for, with a copy of its Secret.
func deployed(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.secrets["tenant/first-boot"] = ""
	w.claim.Spec.Image, w.claim.Spec.UserData = image.DeepCopy(), &corev1.SecretReference{Name: "first-boot"}
	w.mustReconcile(t)
	w.deploy()
	w.mustReconcile(t)
	if w.has("Ready") != "True InfoReported" || len(w.secrets) != 2 {
		t.Fatalf("the claim is %+v, Secrets %v", w.claim.Status, w.secrets)
	}
	return w
}

// A host is given back whatever has become, since it was given to the claim, of what let the claim have it.
func TestReleaseAfterChanges(t *testing.T) {
	loseStatus := func(w *world) { w.claim.Status = metal3.HostClaimStatus{} }
	for name, change := range map[string]func(w *world){
		"no policy":                   func(w *world) { w.allow("racks", false) },
		"no status":                   loseStatus,
		"no status, another selector": func(w *world) { loseStatus(w); w.claim.Spec.HostSelector.InNamespace = "cellar" },
		"no status, another label": func(w *world) {
			loseStatus(w)
			w.claim.Spec.HostSelector.MatchLabels = map[string]string{"size": "large"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := deployed(t)
			change(w)
			w.delete()
			w.mustReconcile(t)
			if w.claim == nil || w.host().Spec.Image != nil || !isBoundBy(w.claim, w.host()) || len(w.secrets) != 2 {
				t.Fatalf("the claim is %+v, the host %+v, Secrets %v", w.claim, w.host().Spec, w.secrets)
			}
			w.deprovision()
			w.mustReconcile(t)
			if w.claim != nil || w.host().Spec.ConsumerRef != nil || len(w.secrets) != 1 {
				t.Errorf("the claim is %+v, the host %+v, Secrets %v", w.claim, w.host().Spec, w.secrets)
			}
		})
	}
}

// A claim whose status was lost finds its host again.
func TestLostStatus(t *testing.T) {
	w := deployed(t)
	w.claim.Status = metal3.HostClaimStatus{}
	w.put(freeHost("racks", "worker-1", nil))
	before := w.host().DeepCopy()
	w.mustReconcile(t)
	if diff := cmp.Diff(before, w.host()); diff != "" || w.has("Ready") != "True InfoReported" || w.hosts["worker-1"].Spec.ConsumerRef != nil {
		t.Errorf("the claim is %+v, its host (-want +got):\n%s", w.claim.Status, diff)
	}
}

// The host of a claim is given back although a second one, which has its UID, is not yet, and although no policy lets
// the claim have its host any longer.
func TestReleaseOneByOne(t *testing.T) {
	for name, lost := range map[string]bool{"deprovisioned": false, "given to another consumer": true} {
		t.Run(name, func(t *testing.T) {
			w := deployed(t)
			w.allow("racks", false)
			w.allow("cellar", true)
			second := freeHost("cellar", "worker-9", nil)
			second.Spec.ConsumerRef, second.Annotations = refTo(w.claim), map[string]string{metal3.PausedAnnotation: ""}
			w.put(second)
			if lost {
				w.host().Spec.ConsumerRef = &corev1.ObjectReference{Kind: "Metal3Machine", Name: "other"}
				w.put(w.host())
			}
			w.delete()
			w.mustReconcile(t)
			w.deprovision()
			w.mustReconcile(t)
			if isConsumer(w.claim, w.host()) || len(w.secrets) != 1 {
				t.Errorf("the host is %+v, Secrets %v", w.host().Spec, w.secrets)
			}
			if got := w.has("Associated"); got != "False HostClaimDeleting" || w.claim.Status.BareMetalHost.Name != "worker-9" {
				t.Errorf("%s, %+v", got, w.claim.Status)
			}
			delete(second.Annotations, metal3.PausedAnnotation)
			w.put(second)
			w.mustReconcile(t)
			if w.claim != nil || w.hosts["worker-9"].Spec.ConsumerRef != nil {
				t.Errorf("the claim is %+v, the second host %+v", w.claim, w.hosts["worker-9"].Spec)
			}
		})
	}
}
