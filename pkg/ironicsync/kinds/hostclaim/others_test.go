// SPDX-License-Identifier: Apache-2.0

package hostclaim

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// Hosts that name the claim as their consumer, but were not given to it.
func TestHostsOfOthers(t *testing.T) {
	names := func(h *metal3.BareMetalHost) *metal3.BareMetalHost {
		h.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: "metal3.io/v1alpha1", Kind: "HostClaim", Namespace: "tenant", Name: "mine"}
		return h
	}
	t.Run("without a policy", func(t *testing.T) {
		w := newWorld(t)
		delete(w.hosts, "worker-0")
		w.controller.hostChanged(freeHost("racks", "worker-0", nil), nil)
		trap := w.put(names(freeHost("trap", "worker-9", nil)))
		w.secrets["tenant/first-boot"] = ""
		w.claim.Spec.UserData = &corev1.SecretReference{Name: "first-boot"}
		w.mustReconcile(t)
		if w.claim.Status.BareMetalHost != nil || len(w.secrets) != 1 || trap.ResourceVersion != w.hosts["worker-9"].ResourceVersion {
			t.Errorf("status %+v, Secrets %v", w.claim.Status, w.secrets)
		}
	})
	runs := func(h *metal3.BareMetalHost, url string) *metal3.BareMetalHost {
		running := image
		running.URL = url
		h.Spec.Image, h.Status.Provisioning.Image, h.Status.Provisioning.State = &running, running, metal3.StateProvisioned
		return h
	}
	t.Run("running something else", func(t *testing.T) {
		w := newWorld(t)
		host := w.put(runs(names(w.host()), "http://images.example/precious")).DeepCopy()
		w.claim.Spec.Image = image.DeepCopy()
		w.mustReconcile(t)
		if diff := cmp.Diff(host, w.host()); diff != "" {
			t.Errorf("the host was changed (-want +got):\n%s", diff)
		}
		if got := w.has("Synchronized"); got != "False BareMetalHostNotSynchronized" {
			t.Error(got)
		}
		w.delete()
		w.mustReconcile(t)
		host.Spec.ConsumerRef, host.ResourceVersion = nil, w.host().ResourceVersion
		if diff := cmp.Diff(host, w.host()); diff != "" || w.claim != nil {
			t.Errorf("the claim is %v, and its host (-want +got):\n%s", w.claim, diff)
		}
	})
	t.Run("running what it wants", func(t *testing.T) {
		w := newWorld(t)
		w.put(runs(names(w.host()), image.URL))
		w.claim.Spec = metal3.HostClaimSpec{Image: image.DeepCopy(), PoweredOn: true}
		w.mustReconcile(t)
		if host := w.host(); !isBoundBy(w.claim, host) || !host.Spec.Online || w.has("Ready") != "True InfoReported" {
			t.Errorf("the host is %+v, the claim %+v", host.Spec, w.claim.Status)
		}
	})
	t.Run("paused, to keep the claim", func(t *testing.T) {
		w := newWorld(t)
		w.claim.Spec.Image = image.DeepCopy()
		w.mustReconcile(t)
		w.deploy()
		for name, namespace := range map[string]string{"worker-8": "racks", "worker-9": "trap"} { // with a policy and without one
			trap := names(freeHost(namespace, name, nil))
			trap.Annotations = map[string]string{metal3.PausedAnnotation: "forever"}
			w.put(trap)
		}
		w.delete()
		w.mustReconcile(t)
		if recorded := w.claim.Status.BareMetalHost; recorded == nil || recorded.Name != "worker-0" {
			t.Errorf("the claim shows the host %+v", recorded)
		}
		w.deprovision()
		w.mustReconcile(t)
		if w.claim != nil || w.host().Spec.ConsumerRef != nil {
			t.Errorf("the claim is %+v, its host %+v", w.claim, w.host().Spec)
		}
		// The one that the claim could have had is free after the pause: nothing reminds of the claim then.
		named := names(freeHost("racks", "worker-8", nil))
		named.Annotations = map[string]string{metal3.PausedAnnotation: "forever"}
		named.Spec.ConsumerRef, named.ResourceVersion = nil, w.hosts["worker-8"].ResourceVersion
		if diff := cmp.Diff(named, w.hosts["worker-8"]); diff != "" {
			t.Errorf("the paused host (-want +got):\n%s", diff)
		}
		if w.hosts["worker-9"].Spec.ConsumerRef == nil {
			t.Error("a host without a policy is written")
		}
	})
	for name, pause := range map[string]map[string]string{"with the UID, to be emptied": nil, "with the UID, paused, to keep the claim": {metal3.PausedAnnotation: "forever"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.claim.Spec.Image = image.DeepCopy()
			w.mustReconcile(t)
			w.deploy()
			trap := names(runs(freeHost("trap", "worker-9", nil), image.URL))
			trap.Spec.ConsumerRef.UID, trap.Annotations = w.claim.UID, pause
			w.put(trap)
			w.mustReconcile(t)
			w.delete()
			w.mustReconcile(t)
			w.deprovision()
			w.mustReconcile(t)
			if w.claim != nil || w.host().Spec.ConsumerRef != nil {
				t.Errorf("the claim is %+v, its host %+v", w.claim, w.host().Spec)
			}
			if diff := cmp.Diff(trap, w.hosts["worker-9"]); diff != "" {
				t.Errorf("a host without a policy was changed (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("two", func(t *testing.T) {
		w := newWorld(t)
		w.mustReconcile(t)
		second := names(runs(freeHost("racks", "worker-1", nil), image.URL))
		second.Spec.ConsumerRef.UID = w.claim.UID
		w.put(second)
		w.mustReconcile(t)
		if spec := w.hosts["worker-1"].Spec; spec.Image != nil || spec.ConsumerRef == nil || !isConsumer(w.claim, w.host()) {
			t.Errorf("the second host is %+v", spec)
		}
		second.Status.Provisioning.State, second.Status.Provisioning.Image, second.Spec = metal3.StateAvailable, metal3.Image{}, w.hosts["worker-1"].Spec
		w.put(second)
		w.mustReconcile(t)
		if spec := w.hosts["worker-1"].Spec; spec.ConsumerRef != nil || !isConsumer(w.claim, w.host()) {
			t.Errorf("the second host is %+v", spec)
		}
	})
}

// TestPoliciesThatSayTheSame: claims that wait are not compared with all hosts because somebody annotates a policy.
func TestPoliciesThatSayTheSame(t *testing.T) {
	w := newWorld(t)
	w.controller.hostChanged(w.host(), nil)
	delete(w.hosts, "worker-0")
	w.mustReconcile(t)
	waits := func() bool { return len(w.controller.allocator.waiting) > 0 }
	before := &metal3.HostDeployPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "racks", Name: "tenants"}, Spec: metal3.HostDeployPolicySpec{
		HostClaimNamespaces: &metal3.HostClaimNamespaces{Names: []string{"tenant"}},
	}}
	annotated := before.DeepCopy()
	metav1.SetMetaDataAnnotation(&annotated.ObjectMeta, "a", "b")
	if w.controller.policyChanged(before, annotated); !waits() {
		t.Error("an annotation wakes the claim")
	}
	changed := annotated.DeepCopy()
	changed.Spec.HostClaimNamespaces.Names = []string{"tenant", "another"}
	if w.controller.policyChanged(annotated, changed); waits() {
		t.Error("a policy that says something else wakes nobody")
	}
}

// A claim whose host is gone does not silently get another machine, and can be deleted.
func TestLostHost(t *testing.T) {
	for name, lose := range map[string]func(*world){
		"the host is gone": func(w *world) {
			host := w.host()
			delete(w.hosts, "worker-0")
			w.controller.hostChanged(host, nil)
		},
		"the host was given to another consumer": func(w *world) {
			w.host().Spec.ConsumerRef = &corev1.ObjectReference{Kind: "Metal3Machine", Name: "other"}
			w.put(w.host())
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.claim.Spec.Image = image.DeepCopy()
			w.mustReconcile(t)
			w.deploy()
			lose(w)
			w.put(freeHost("racks", "worker-1", nil))
			w.mustReconcile(t)
			if got := w.has("Associated"); got != "False MissingBareMetalHost" || w.claim.Status.BareMetalHost == nil || w.hosts["worker-1"].Spec.ConsumerRef != nil {
				t.Errorf("%s, status %+v", got, w.claim.Status)
			}
			before := w.host().DeepCopy()
			w.delete()
			w.mustReconcile(t)
			if diff := cmp.Diff(before, w.host()); diff != "" || w.claim != nil {
				t.Errorf("the claim is %v; the host was changed (-want +got):\n%s", w.claim, diff)
			}
		})
	}
}

// Without its Secrets, nothing is deployed; everything else goes on.
func TestSecretsThatCannotBeCopied(t *testing.T) {
	forbidden := func(message string) error {
		return apierrors.NewForbidden(corev1.Resource("secrets"), "a", errors.New(message))
	}
	for name, test := range map[string]struct {
		err  error
		says string
	}{
		"it does not exist":   {nil, "Secret first-boot cannot be copied: it does not exist"},
		"over the quota":      {forbidden("exceeded quota: racks, requested: secrets=1"), "a quota or an admission policy of the cluster refuses the copy"},
		"not permitted":       {forbidden(`User "metal3" cannot create resource "secrets" in API group "" in the namespace "racks"`), "ClusterRole metal3-apiserver-secret-copies"},
		"in the way":          {apierrors.NewAlreadyExists(corev1.Resource("secrets"), "a"), "another Secret is in the place of the copy"},
		"refused by admision": {apierrors.NewInvalid(metal3.Kind("a"), "a", nil), "the cluster refuses the copy"},
		"a webhook is down":   {apierrors.NewInternalError(errors.New(`failed calling webhook "a.example.com"`)), "an admission webhook of the cluster does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.secretError = test.err
			w.claim.Spec = metal3.HostClaimSpec{PoweredOn: true, Image: image.DeepCopy(), MetaData: &corev1.SecretReference{Name: "first-boot"}}
			w.mustReconcile(t)
			if spec := w.host().Spec; !spec.Online || spec.Image != nil || spec.MetaData != nil {
				t.Errorf("the host is %+v", spec)
			}
			if after, err := w.controller.reconcile(t.Context(), claimKey); after < copyRetry || after > 2*copyRetry || err != nil {
				t.Errorf("tried again after %s, %v", after, err)
			}
			if got := w.has("Synchronized"); got != "False MetaDataSecretSyncFailure" || !strings.Contains(w.claim.Status.Conditions[1].Message, test.says) {
				t.Errorf("%s, %+v", got, w.claim.Status.Conditions)
			}
			w.secretError = nil
			w.secrets["tenant/first-boot"] = ""
			w.mustReconcile(t)
			if spec := w.host().Spec; spec.Image == nil || spec.MetaData == nil {
				t.Errorf("the host is %+v", spec)
			}
			// What is deployed stays if the Secret goes, and can be removed.
			delete(w.secrets, "tenant/first-boot")
			w.claim.Spec.PoweredOn = false
			w.mustReconcile(t)
			if spec := w.host().Spec; spec.Image == nil || spec.MetaData == nil || spec.Online {
				t.Errorf("the host is %+v", spec)
			}
			w.claim.Spec.Image = nil
			w.mustReconcile(t)
			if spec := w.host().Spec; spec.Image != nil {
				t.Errorf("the host is %+v", spec)
			}
		})
	}
}

// A claim shows neither what is wrong with its host in detail, nor why the host refuses what it wants,
// unless that concerns what the claim asks for.
func TestNothingOfTheHostIsShown(t *testing.T) {
	w := newWorld(t)
	w.mustReconcile(t)
	w.host().Status.ErrorType, w.host().Status.ErrorMessage = metal3.PowerManagementError, "https://10.0.0.1 says admin:password"
	w.host().Spec.BMC.Address = "redfish://10.0.0.1"
	w.put(w.host())
	w.hostError = apierrors.NewInvalid(metal3.Kind("BareMetalHost"), "worker-0", field.ErrorList{
		field.Invalid(field.NewPath("spec", "bmc", "address"), "10.0.0.1", "secret"), field.Invalid(field.NewPath("spec", "image", "url"), "ftp://a", "must be http"),
	})
	w.claim.Spec.Image = &metal3.Image{URL: "ftp://a"}
	if err := w.reconcile(t); err == nil {
		t.Error("the refusal is not tried again")
	}
	text := ""
	for _, c := range w.claim.Status.Conditions {
		text += c.Message + "\n"
	}
	for _, secret := range []string{"10.0.0.1", "admin", "secret"} {
		if strings.Contains(text, secret) {
			t.Errorf("the claim tells %q:\n%s", secret, text)
		}
	}
	for _, want := range []string{"power management error", `spec.image.url: Invalid value: "ftp://a": must be http`} {
		if !strings.Contains(text, want) {
			t.Errorf("the claim does not tell %q:\n%s", want, text)
		}
	}
}
