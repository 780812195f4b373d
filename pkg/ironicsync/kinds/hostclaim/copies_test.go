// SPDX-License-Identifier: Apache-2.0

package hostclaim

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// TestDataOf has the Secrets that are copied for a claim. An empty name is none, as in a host.
func TestDataOf(t *testing.T) {
	claim := &metal3.HostClaim{Spec: metal3.HostClaimSpec{
		UserData: &corev1.SecretReference{Name: "user"}, NetworkData: &corev1.SecretReference{}, MetaData: &corev1.SecretReference{Namespace: "n"},
		Image: &metal3.Image{URL: "oci://a/b", OCIAuthSecretName: ptr.To("")},
	}}
	if all := dataOf(claim); len(all) != 1 || all[0].secret != "user" || all[0].use != userData {
		t.Errorf("the Secrets are %+v", all)
	}
	host := &metal3.BareMetalHost{}
	setDeployment(host, claim)
	if host.Spec.UserData == nil || host.Spec.NetworkData != nil || host.Spec.MetaData != nil {
		t.Errorf("the host has %+v", host.Spec)
	}
}

// TestFencedWhileSecretsCannotBeCopied: power and reboots are passed on before the Secrets are copied, whatever comes of that. What is
// not about one Secret alone is not tried with the next one, which would take as long.
func TestFencedWhileSecretsCannotBeCopied(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		again bool // whether it is an error, which is tried again soon
	}{
		"a webhook is down":           {apierrors.NewInternalError(errors.New(`failed calling webhook "a.example.com"`)), false},
		"too many requests":           {apierrors.NewTooManyRequests("wait", 1), true},
		"kube-apiserver is restarted": {apierrors.NewServiceUnavailable("not now"), true},
		"no answer":                   {context.DeadlineExceeded, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := deployed(t)
			w.claim.Spec.PoweredOn = true
			w.mustReconcile(t)
			copies := 0
			w.secretError, w.beforeCopy = test.err, func() {
				copies++
				got := w.host()
				_, kept := got.Annotations[metal3.RebootAnnotationPrefix+"hostclaim-fence"]
				_, reboots := got.Annotations[metal3.RebootAnnotation]
				if got.Spec.Online || !kept || !reboots {
					t.Errorf("before the Secrets are copied, the host is %v with %v", got.Spec.Online, got.Annotations)
				}
			}
			w.claim.Spec.PoweredOn, w.claim.Spec.Image.URL, w.claim.Spec.MetaData = false, "http://images.example/b", &corev1.SecretReference{Name: "first-boot"}
			w.claim.Annotations = map[string]string{metal3.RebootAnnotationPrefix + "fence": "", metal3.RebootAnnotation: ""}
			_, err := w.controller.reconcile(t.Context(), claimKey)
			if (err != nil) != test.again || copies != 1 {
				t.Errorf("%d copies were tried, %v", copies, err)
			}
			if _, asks := w.claim.Annotations[metal3.RebootAnnotation]; asks || w.host().Spec.Image.URL != image.URL {
				t.Errorf("the claim has %v, its host image %s", w.claim.Annotations, w.host().Spec.Image.URL)
			}
			if got := w.has(SynchronizedCondition); got != "False UserDataSecretSyncFailure" {
				t.Errorf("Synchronized is %s", got)
			}
			w.secretError, w.beforeCopy = nil, nil
			w.mustReconcile(t)
			if got := w.host().Spec; got.Online || got.Image.URL != w.claim.Spec.Image.URL || w.has(SynchronizedCondition) != "True ConfigurationSynced" {
				t.Errorf("after that, the host is %+v, the claim %+v", got, w.claim.Status)
			}
		})
	}
}

// TestSwitchedOnWithItsImage: a host does not boot what its disks happen to have while the Secrets of its image are copied.
func TestSwitchedOnWithItsImage(t *testing.T) {
	w := newWorld(t)
	w.secrets["tenant/first-boot"] = ""
	w.claim.Spec = metal3.HostClaimSpec{PoweredOn: true, Image: image.DeepCopy(), UserData: &corev1.SecretReference{Name: "first-boot"}}
	w.beforeCopy = func() {
		if got := w.host().Spec; got.Online && got.Image == nil {
			t.Error("the host is switched on before it has its image")
		}
	}
	w.mustReconcile(t)
	if got := w.host().Spec; !got.Online || got.Image == nil {
		t.Errorf("the host is %+v", got)
	}
}

// TestRetriesOfCopies: Secrets that cannot be copied for long are tried more rarely, and not those of all claims at once.
func TestRetriesOfCopies(t *testing.T) {
	var r copyRetries
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	expect := func(passed, want time.Duration) {
		t.Helper()
		if after := r.after(claimKey, began.Add(passed)); after < want || after > want*3/2 {
			t.Errorf("%s after the first time, they are copied again after %s, want %s", passed, after, want)
		}
	}
	expect(0, time.Minute)
	expect(time.Second, time.Minute)
	expect(3*time.Minute, 3*time.Minute)
	expect(time.Hour, 5*time.Minute)
	r.forget(claimKey)
	expect(2*time.Hour, time.Minute)
}

// hangingClaims do not answer for the claims of the namespace slow.
type hangingClaims struct {
	*enginetest.Stock[*metal3.HostClaim]
}

func (c hangingClaims) Get(ctx context.Context, namespace, name string) (*metal3.HostClaim, error) {
	if namespace == "slow" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return c.Stock.Get(ctx, namespace, name)
}

// TestSlowClaimsOfOneNamespace: claims of one namespace that take long, such as those whose Secrets wait for a webhook, do not delay
// those of another one.
func TestSlowClaimsOfOneNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		claim := func(namespace, name string) *metal3.HostClaim {
			return &metal3.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		}
		all := []*metal3.HostClaim{claim("tenant", "mine")} // the last one, by its name
		for i := range 20 {
			all = append(all, claim("slow", fmt.Sprint(i)))
		}
		claims, namespaces := enginetest.NewStock("hostclaims", all...), enginetest.NewStock[*metav1.PartialObjectMetadata]("namespaces")
		c, err := New(Deps{
			Claims: hangingClaims{claims}, Policies: enginetest.NewStock[*metal3.HostDeployPolicy]("hostdeploypolicies"), Hosts: enginetest.NewStock[*metal3.BareMetalHost]("baremetalhosts"),
			Hardware: enginetest.NewStock[*metal3.HardwareData]("hardwaredata"), Fence: ironic.NoFence, Events: &enginetest.Events{}, Clock: clock.RealClock{},
			OnHostChange: func(func(old, host *metal3.BareMetalHost)) (func() bool, error) {
				return func() bool { return true }, nil
			},
			ClaimNamespaces: cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
				ListWithContextFunc: namespaces.List, WatchFuncWithContext: namespaces.Watch,
			}, namespaces), &metav1.PartialObjectMetadata{}, 0, nil),
		})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		time.Sleep(10 * time.Second)
		if got, err := claims.Get(ctx, "tenant", "mine"); err != nil || len(got.Status.Conditions) == 0 {
			t.Errorf("after ten seconds, the claim of the other namespace is %+v, %v", got, err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
