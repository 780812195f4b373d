// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func forbidden(message string) error {
	return apierrors.NewForbidden(corev1.Resource("secrets"), "host-0-bmc", errors.New(message))
}

// lacking is the answer of the authorizer to who may not do that.
func lacking(verb string) error {
	return forbidden(`User "system:serviceaccount:metal3-system:metal3-apiserver" cannot ` + verb + ` resource "secrets" in API group "" in the namespace "metal3"`)
}

// enforceOwners does what OwnerReferencesPermissionEnforcement does to who may not delete Secrets.
func enforceOwners(t *testing.T, client *fake.Clientset, refusal error) {
	client.PrependReactor("patch", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) {
		var after metav1.PartialObjectMetadata
		if err := json.Unmarshal(a.(clienttesting.PatchAction).GetPatch(), &after); err != nil {
			t.Error(err)
		}
		before, err := client.Tracker().Get(secretsResource, "metal3", "host-0-bmc")
		if err != nil {
			return true, nil, err
		}
		changed := !equality.Semantic.DeepEqual(before.(*corev1.Secret).OwnerReferences, after.OwnerReferences)
		return changed, nil, refusal
	})
}

// TestOwnersMayNotBeChanged: a Secret is claimed and released where this server may not change its owners.
func TestOwnersMayNotBeChanged(t *testing.T) {
	host, other := newHost(), anotherHost()
	noOwner := func(s *corev1.Secret) { s.OwnerReferences = nil }
	noFinalizer := func(s *corev1.Secret) { s.Finalizers = nil }
	for name, refusal := range map[string]error{
		"by the plugin of kube-apiserver": forbidden("cannot set an ownerRef on a resource you can't delete: , <nil>"),
		"by a webhook that gives no code": &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusBadRequest, Message: `admission webhook "a.example.com" denied the request`}},
		"by a policy":                     apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Secret").GroupKind(), "host-0-bmc", nil),
	} {
		secrets, client := newSecrets(newSecret())
		enforceOwners(t, client, refusal)
		for range 2 {
			if got, err := secrets.Claim(t.Context(), host); err != nil || got.Password != password {
				t.Errorf("%s: Claim: %v", name, err)
			}
		}
		sameSecret(t, name, newSecret(claimedBy(host), noOwner), readSecret(t, client))
		if err := secrets.Release(t.Context(), host, "host-0-bmc"); err != nil {
			t.Errorf("%s: Release: %v", name, err)
		}
		sameSecret(t, name, newSecret(claimedBy(host), noOwner, noFinalizer), readSecret(t, client))

		// The Secret of a switch is read, and labelled, without its owner.
		secrets, client = newSecrets(newSecret())
		enforceOwners(t, client, refusal)
		isCredentials := func(*corev1.Secret) bool { return true }
		data, err := secrets.Own(t.Context(), "metal3", "host-0-bmc", metav1.OwnerReference{Kind: "BareMetalSwitch", Name: "leaf", UID: "u"}, isCredentials)
		if secret := readSecret(t, client); err != nil || string(data["password"]) != password ||
			secret.Labels[metal3.EnvironmentLabel] != metal3.EnvironmentLabelValue || len(secret.OwnerReferences) > 0 {
			t.Errorf("%s: Own: %v, the Secret is %+v", name, err, secret.ObjectMeta)
		}

		// The operator, or this server before the plugin was enabled, has made both its owners.
		secrets, client = newSecrets(newSecret(claimedBy(host, other)))
		enforceOwners(t, client, refusal)
		if _, err := secrets.Claim(t.Context(), host); err != nil {
			t.Errorf("%s: Claim of an own one: %v", name, err)
		}
		if err := secrets.Release(t.Context(), host, "host-0-bmc"); err != nil {
			t.Errorf("%s: Release of a shared one: %v", name, err)
		}
		sameSecret(t, name, newSecret(claimedBy(host, other), noFinalizer), readSecret(t, client))
	}
}

// TestRefusals: what kube-apiserver refuses is told with what would help, and is still known for what it is.
func TestRefusals(t *testing.T) {
	hook := forbidden(`admission webhook "labels.example.com" denied the request: the label team is missing`)
	codeless := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusBadRequest, Message: `admission webhook "labels.example.com" denied the request: the label team is missing`,
	}}
	for name, tt := range map[string]struct {
		verb    string
		refusal error
		lacks   bool
		says    string
	}{
		"reading":                      {"get", lacking("get"), true, `metal3-apiserver has no right to get Secrets in namespace "metal3". Bind the ClusterRole metal3-apiserver-secrets to its service account there.`},
		"writing":                      {"patch", lacking("patch"), true, `metal3-apiserver has no right to patch Secrets in namespace "metal3". Bind`},
		"a webhook that gives no code": {"patch", codeless, false, `the admission of the cluster does not let metal3-apiserver change Secret "host-0-bmc". It has to admit a label and a finalizer. kube-apiserver: `},
		"a webhook":                    {"patch", hook, false, `the admission of the cluster does not let metal3-apiserver change Secret "host-0-bmc". It has to admit a label and a finalizer. kube-apiserver: `},
	} {
		secrets, client := newSecrets(newSecret())
		client.PrependReactor(tt.verb, "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.refusal })
		_, claimErr := secrets.Claim(t.Context(), newHost())
		releaseErr := secrets.Release(t.Context(), newHost(deleted), "host-0-bmc")
		if tt.verb == "patch" {
			releaseErr = claimErr // there is nothing to be released
		}
		for _, err := range []error{claimErr, releaseErr} {
			if !errors.Is(err, tt.refusal) || !IsRefusal(err) || LacksRight(err) != tt.lacks {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if !strings.HasPrefix(err.Error(), tt.says) || !strings.HasSuffix(err.Error(), tt.refusal.Error()) {
				t.Errorf("%s: %q", name, err)
			}
			if first, _, _ := strings.Cut(err.Error(), ". "); len(first) > 100 {
				t.Errorf("%s: the first sentence has %d characters", name, len(first))
			}
		}
	}
}

// TestWhatHasToBeAdmitted: only what is really written has to be admitted. The Secret of a switch, or with the user data of a host, gets
// no finalizer.
func TestWhatHasToBeAdmitted(t *testing.T) {
	label := func(s *corev1.Secret) {
		s.Labels = map[string]string{metal3.EnvironmentLabel: metal3.EnvironmentLabelValue}
	}
	for name, tt := range map[string]struct {
		secret *corev1.Secret
		write  func(*Secrets) error
		want   string
	}{
		"of a switch": {newSecret(), func(s *Secrets) error {
			_, err := s.Own(t.Context(), "metal3", "host-0-bmc", metav1.OwnerReference{Kind: "BareMetalSwitch", Name: "leaf", UID: "u"}, func(*corev1.Secret) bool { return true })
			return err
		}, "a label"},
		"user data": {newSecret(), func(s *Secrets) error {
			_, err := s.Data(t.Context(), "metal3", "host-0-bmc")
			return err
		}, "a label"},
		"of a BMC": {newSecret(), func(s *Secrets) error {
			_, err := s.Claim(t.Context(), newHost())
			return err
		}, "a label and a finalizer"},
		"of a BMC, labelled": {newSecret(label), func(s *Secrets) error {
			_, err := s.Claim(t.Context(), newHost())
			return err
		}, "a finalizer"},
		"of a host that goes": {newSecret(claimedBy(newHost())), func(s *Secrets) error {
			return s.Release(t.Context(), newHost(deleted), "host-0-bmc")
		}, "the removal of a finalizer"},
	} {
		secrets, client := newSecrets(tt.secret)
		client.PrependReactor("patch", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, forbidden(`admission webhook "labels.example.com" denied the request: no`)
		})
		if err := tt.write(secrets); err == nil || !strings.Contains(err.Error(), `Secret "host-0-bmc". It has to admit `+tt.want+". kube-apiserver: ") {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// watchNamespaces has the Secrets of namespace metal3 alone be watched, as they are in an informer.
func watchNamespaces(t *testing.T, s *Secrets, namespace *metav1.PartialObjectMetadata, shown ...*corev1.Secret) {
	t.Helper()
	meta := metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
	namespaces := MetadataInformer(meta, "namespaces", metav1.NamespaceAll)
	s.letGo.namespaces, s.informers = namespaces, map[string]cache.SharedIndexInformer{"metal3": MetadataInformer(meta, "secrets", "metal3")}
	if err := namespaces.GetStore().Add(namespace); err != nil {
		t.Fatal(err)
	}
	for _, secret := range shown {
		if err := s.informers["metal3"].GetStore().Add(&metav1.PartialObjectMetadata{ObjectMeta: secret.ObjectMeta}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLetGo: the Secrets of a namespace that is being deleted are released before the right to do that goes, and no host waits
// for that right.
func TestLetGo(t *testing.T) {
	host := newHost()
	live := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "metal3"}}
	going := live.DeepCopy()
	going.DeletionTimestamp = &created
	claimed := newSecret(claimedBy(host), func(s *corev1.Secret) { s.Finalizers = append(s.Finalizers, "example.com/other") })

	for name, tt := range map[string]struct {
		namespace  *metav1.PartialObjectMetadata
		finalizers []string
		writes     int
	}{
		"a namespace that goes":  {going, []string{"example.com/other"}, 1},
		"a namespace that stays": {live, claimed.Finalizers, 0},
	} {
		secrets, client := newSecrets(claimed.DeepCopy())
		watchNamespaces(t, secrets, tt.namespace, claimed)
		secrets.letGo.allIn("metal3")
		secrets.letGo.queue.ShutDownWithDrain()
		secrets.letGo.run(t.Context())
		after := readSecret(t, client)
		if diff := cmp.Diff(tt.finalizers, after.Finalizers); diff != "" || written(client) != tt.writes {
			t.Errorf("%s: %d writes; finalizers (-want +got):\n%s", name, written(client), diff)
		}
	}

	secrets, client := newSecrets(newSecret())
	watchNamespaces(t, secrets, going)
	if _, err := secrets.Claim(t.Context(), host); err != nil {
		t.Errorf("Claim: %v", err)
	}
	if s := readSecret(t, client); slices.Contains(s.Finalizers, metal3.SecretFinalizer) {
		t.Error("a Secret of a namespace that is being deleted was claimed again")
	}
	client.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, lacking("get") })
	if err := secrets.Release(t.Context(), host, "host-0-bmc"); err != nil {
		t.Errorf("the right has gone with the namespace: %v", err)
	}
	watchNamespaces(t, secrets, live)
	if err := secrets.Release(t.Context(), host, "host-0-bmc"); !LacksRight(err) {
		t.Errorf("the right was taken away: %v", err)
	}
	none := MetadataInformer(metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme()), "namespaces", metav1.NamespaceAll)
	secrets.letGo.namespaces = none
	if err := secrets.Release(t.Context(), host, "host-0-bmc"); !LacksRight(err) {
		t.Errorf("while nothing is known of namespaces: %v", err)
	}
	copied := types.NamespacedName{Namespace: "metal3", Name: "host-0-bmc"}
	if err := secrets.DeleteCopy(t.Context(), copied, nil); !LacksRight(err) {
		t.Errorf("a copy, while nothing is known of namespaces: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { none.RunWithContext(ctx) })
	cache.WaitForCacheSync(ctx.Done(), none.HasSynced)
	if err := secrets.Release(t.Context(), host, "host-0-bmc"); err != nil {
		t.Errorf("the namespace is gone: %v", err)
	}
	if err := secrets.DeleteCopy(t.Context(), copied, nil); err != nil {
		t.Errorf("the namespace of a copy is gone: %v", err)
	}
	cancel()
	running.Wait()
}

// TestRightsOfAllNamespaces: a server with rights in all namespaces keeps Secrets until their hosts are gone.
func TestRightsOfAllNamespaces(t *testing.T) {
	secrets, _ := newSecrets()
	if err := secrets.WatchNamespaces(secrets.informers[metav1.NamespaceAll]); err != nil || secrets.letGo.isGoing("metal3") || secrets.letGo.namespaces != nil {
		t.Errorf("%v; it goes by namespaces: %t", err, secrets.letGo.namespaces != nil)
	}
}
