// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

const username, password = "operator-of-host-0", "c0rrect-h0rse"

func newSecret(options ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "host-0-bmc", ResourceVersion: "7"},
		Data:       map[string][]byte{"username": []byte(username), "password": []byte(password)},
	}
	for _, o := range options {
		o(s)
	}
	return s
}

// claimedBy is what a Secret looks like that hosts have claimed. The owner reference lets the garbage collector delete
// the Secret with its host; it must not be one of a controller, nor hold up the host's deletion.
func claimedBy(hosts ...*metal3.BareMetalHost) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		s.Labels = map[string]string{metal3.EnvironmentLabel: "baremetal"}
		s.Finalizers = append(s.Finalizers, metal3.SecretFinalizer)
		for _, h := range hosts {
			s.OwnerReferences = append(s.OwnerReferences, metav1.OwnerReference{APIVersion: "metal3.io/v1alpha1", Kind: "BareMetalHost", Name: h.Name, UID: h.UID})
		}
	}
}

func goingSecret(s *corev1.Secret) {
	s.DeletionTimestamp = &created
	s.Finalizers = append(s.Finalizers, "example.com/other") // else it would be gone
}

func anotherHost() *metal3.BareMetalHost {
	h := newHost()
	h.Name, h.UID = "host-1", "1b6fb5fa-0000-4000-8000-000000000001"
	return h
}

func newSecrets(objects ...runtime.Object) (*Secrets, *fake.Clientset) {
	client := fake.NewClientset(objects...)
	return New(client, metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme()), nil), client
}

func readSecret(t *testing.T, client *fake.Clientset) *corev1.Secret {
	t.Helper()
	s, err := client.CoreV1().Secrets("metal3").Get(t.Context(), "host-0-bmc", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sameSecret ignores what the fake cluster itself puts in.
func sameSecret(t *testing.T, name string, want, got *corev1.Secret) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ManagedFields", "ResourceVersion"), cmpopts.IgnoreTypes(metav1.TypeMeta{})); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func written(client *fake.Clientset) int {
	n := 0
	for _, a := range client.Actions() {
		if a.GetVerb() != "get" {
			n++
		}
	}
	return n
}

func TestClaim(t *testing.T) {
	host, other := newHost(), anotherHost()
	keep := func(s *corev1.Secret) {
		s.Labels = map[string]string{"app": "x"}
		s.Finalizers = []string{"example.com/other"}
		s.OwnerReferences = []metav1.OwnerReference{{Kind: "ConfigMap", Name: "x", UID: "x"}}
	}
	for name, tt := range map[string]struct {
		secret *corev1.Secret
		host   *metal3.BareMetalHost
		want   *corev1.Secret
		writes int
	}{
		"a new one":             {newSecret(), host, newSecret(claimedBy(host)), 1},
		"one claimed already":   {newSecret(claimedBy(host)), host, newSecret(claimedBy(host)), 0},
		"one of another host":   {newSecret(claimedBy(other)), host, newSecret(claimedBy(other, host)), 1},
		"what others put stays": {newSecret(keep), host, newSecret(keep, func(s *corev1.Secret) { labels := s.Labels; claimedBy(host)(s); s.Labels["app"] = labels["app"] }), 1},
		"one that is being deleted is not held": {newSecret(goingSecret), host, newSecret(goingSecret, func(s *corev1.Secret) {
			s.Labels = map[string]string{metal3.EnvironmentLabel: "baremetal"}
		}), 1},
		"a host that is being deleted holds nothing": {newSecret(), newHost(deleted), newSecret(func(s *corev1.Secret) {
			s.Labels = map[string]string{metal3.EnvironmentLabel: "baremetal"}
		}), 1},
	} {
		secrets, client := newSecrets(tt.secret)
		got, err := secrets.Claim(t.Context(), tt.host)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Username != username || got.Password != password {
			t.Errorf("%s: the credentials are not those of the Secret", name)
		}
		if n := written(client); n != tt.writes {
			t.Errorf("%s: %d writes, want %d", name, n, tt.writes)
		}
		after := readSecret(t, client)
		sameSecret(t, name, tt.want, after)
		if got.Version != after.ResourceVersion {
			t.Errorf("%s: credentials of version %s, the Secret is at %s", name, got.Version, after.ResourceVersion)
		}
	}
}

// The audit log of kube-apiserver has the body of each write at level Request.
func TestContentsAreNeverWritten(t *testing.T) {
	host := newHost()
	secrets, client := newSecrets(newSecret())
	if _, err := secrets.Claim(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.Data(t.Context(), "metal3", "host-0-bmc"); err != nil {
		t.Fatal(err)
	}
	if err := secrets.Release(t.Context(), host, "host-0-bmc"); err != nil {
		t.Fatal(err)
	}
	writes := 0
	for _, action := range client.Actions() {
		if action.GetVerb() == "get" {
			continue
		}
		writes++
		write, ok := action.(clienttesting.PatchAction)
		if !ok {
			t.Errorf("the verb is %s", action.GetVerb())
			continue
		}
		var patch map[string]any
		if err := json.Unmarshal(write.GetPatch(), &patch); err != nil {
			t.Fatal(err)
		}
		if len(patch) != 1 || patch["metadata"] == nil {
			t.Errorf("the patch %s is of more than the metadata", write.GetPatch())
		}
	}
	if writes != 2 {
		t.Errorf("%d writes, want 2", writes)
	}
}

// TestDataSecretsAreNotOwned: a Secret that a host names for something else than its BMC does not go with the host, and is not kept for
// it, even if it has a username and a password.
func TestDataSecretsAreNotOwned(t *testing.T) {
	secrets, client := newSecrets(newSecret())
	if _, err := secrets.Data(t.Context(), "metal3", "host-0-bmc"); err != nil {
		t.Fatal(err)
	}
	want := newSecret(func(s *corev1.Secret) {
		s.Labels = map[string]string{metal3.EnvironmentLabel: metal3.EnvironmentLabelValue}
	})
	sameSecret(t, "the Secret", want, readSecret(t, client))
}

func TestClaimTrimsWhitespace(t *testing.T) {
	secrets, _ := newSecrets(newSecret(func(s *corev1.Secret) {
		s.Data = map[string][]byte{"username": []byte(" " + username + "\n"), "password": []byte("\t" + password + "\r\n")}
	}))
	got, err := secrets.Claim(t.Context(), newHost())
	if err != nil || got.Username != username || got.Password != password {
		t.Errorf("whitespace around the credentials is not trimmed (error %v)", err)
	}
}

// utf16LE is what PowerShell writes into a file.
func utf16LE(text string) []byte {
	bytes := []byte("\xff\xfe")
	for _, r := range text {
		bytes = append(bytes, byte(r), 0)
	}
	return append(bytes, '\r', 0, '\n', 0)
}

// What is said of an incomplete Secret names its keys and never what is in it.
func TestClaimIncomplete(t *testing.T) {
	for name, tt := range map[string]struct {
		data map[string][]byte
		want string
	}{
		"no password":     {map[string][]byte{"username": []byte(username)}, "has no password: "},
		"no username":     {map[string][]byte{"password": []byte(password)}, "has no username: "},
		"nothing":         {nil, "has no username and no password: "},
		"only whitespace": {map[string][]byte{"username": []byte(username), "password": []byte(" \n")}, "has no password: "},
		"other keys":      {map[string][]byte{"user": []byte(username), "pass": []byte(password)}, "has no username and no password: "},
		"too long":        {map[string][]byte{"username": []byte(username), "password": bytes.Repeat([]byte("x"), MaxPassword+1)}, "has no password of a BMC: that has at most 256 bytes, and the one in the Secret 257"},
		"UTF-16":          {map[string][]byte{"username": utf16LE(username), "password": utf16LE(password)}, "cannot be used: its username is text in UTF-16, its password is text in UTF-16. "},
		"UTF-16, no mark": {map[string][]byte{"username": []byte(username), "password": utf16LE(password)[2:]}, "cannot be used: its password has NUL bytes, as text in UTF-16 has. "},
		"a mark in front": {map[string][]byte{"username": []byte(username), "password": []byte("\ufeff" + password)}, "cannot be used: its password begins with a byte order mark. "},
		"Latin-1":         {map[string][]byte{"username": []byte(username), "password": []byte(password + "\xe9")}, "cannot be used: its password is not text in UTF-8. "},
		"several lines":   {map[string][]byte{"username": []byte(username + "\n" + password + "\n"), "password": []byte(password)}, "cannot be used: its username has a line break. "},
	} {
		secrets, client := newSecrets(newSecret(func(s *corev1.Secret) { s.Data = tt.data }))
		got, err := secrets.Claim(t.Context(), newHost())
		incomplete := new(IncompleteError)
		if !errors.As(err, &incomplete) {
			t.Errorf("%s: error is %v", name, err)
			continue
		}
		want := `Secret "host-0-bmc" ` + tt.want
		switch {
		case strings.HasSuffix(want, ": "):
			want += "it needs the keys username and password of the BMC"
		case strings.HasSuffix(want, ". "):
			want += "Each has to be one line of text in UTF-8, without a byte order mark"
		}
		if err.Error() != want {
			t.Errorf("%s: %q, want %q", name, err, want)
		}
		if strings.Contains(err.Error(), username) || strings.Contains(err.Error(), password) {
			t.Errorf("%s: the error shows what is in the Secret", name)
		}
		if got.Username != "" || got.Password != "" || got.Version != readSecret(t, client).ResourceVersion {
			t.Errorf("%s: half of the credentials, or of version %q", name, got.Version)
		}
		// It is not known to be a BMC's, and must not go with the host.
		sameSecret(t, name, newSecret(func(s *corev1.Secret) { s.Data = tt.data }), readSecret(t, client))
	}
}

// A password may have any length that a BMC may take.
func TestClaimLongPassword(t *testing.T) {
	long := strings.Repeat("x", MaxPassword)
	secrets, _ := newSecrets(newSecret(func(s *corev1.Secret) { s.Data[metal3.SecretPasswordKey] = []byte(long + "\n") }))
	if got, err := secrets.Claim(t.Context(), newHost()); err != nil || got.Password != long {
		t.Errorf("a password of %d bytes, %v", len(got.Password), err)
	}
}

// Without permissions in other namespaces, a watch of all of them would never begin.
func TestWatchOfCertainNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := metadatafake.NewTestScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		inNamespace := func(namespace string) *metav1.PartialObjectMetadata {
			return &metav1.PartialObjectMetadata{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bmc", ResourceVersion: "7"},
			}
		}
		meta := metadatafake.NewSimpleMetadataClient(scheme, inNamespace("team-a"), inNamespace("team-b"), inNamespace("other"))
		meta.PrependReactor("list", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if a.GetNamespace() == "team-a" {
				return false, nil, nil
			}
			return true, nil, apierrors.NewForbidden(corev1.Resource("secrets"), "", nil)
		})
		secrets := New(fake.NewClientset(), meta, []string{"team-a", "team-b"})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); secrets.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		if !secrets.WaitForSync(ctx) {
			t.Fatal("a namespace without permissions keeps the others from being managed")
		}
		if secrets.Version("team-a", "bmc") == "" {
			t.Error("a Secret of a managed namespace is not known")
		}
		for _, action := range meta.Actions() {
			if ns := action.GetNamespace(); ns != "team-a" && ns != "team-b" {
				t.Errorf("%s in namespace %q", action.GetVerb(), ns)
			}
		}
	})
}

func TestClaimMissing(t *testing.T) {
	secrets, _ := newSecrets()
	if _, err := secrets.Claim(t.Context(), newHost()); !apierrors.IsNotFound(err) {
		t.Errorf("error is %v", err)
	}
}

// Another client writes the Secret at the same time: both writes must show.
func TestClaimConflict(t *testing.T) {
	secrets, client := newSecrets(newSecret())
	var once sync.Once
	client.PrependReactor("patch", "secrets", func(clienttesting.Action) (handled bool, _ runtime.Object, err error) {
		once.Do(func() {
			rotated := newSecret(func(s *corev1.Secret) { s.Data["password"] = []byte("rotated") })
			if err = client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("secrets"), rotated, "metal3"); err != nil {
				return
			}
			err = apierrors.NewConflict(corev1.Resource("secrets"), rotated.Name, nil)
		})
		return err != nil, nil, err
	})
	got, err := secrets.Claim(t.Context(), newHost())
	if err != nil || got.Password != "rotated" {
		t.Errorf("the password that was written meanwhile is not seen (error %v)", err)
	}
	sameSecret(t, "conflict", newSecret(claimedBy(newHost()), func(s *corev1.Secret) { s.Data["password"] = []byte("rotated") }), readSecret(t, client))
}

func TestRelease(t *testing.T) {
	host, other := newHost(deleted), anotherHost()
	noFinalizer := func(s *corev1.Secret) { s.Finalizers = nil }
	for name, tt := range map[string]struct {
		secret, want *corev1.Secret
		writes       int
	}{
		// The owner reference stays: the Secret goes with the host.
		"the only host":                      {newSecret(claimedBy(host)), newSecret(claimedBy(host), noFinalizer), 1},
		"shared: the other one keeps it":     {newSecret(claimedBy(host, other)), newSecret(claimedBy(other)), 1},
		"shared: released already":           {newSecret(claimedBy(other)), newSecret(claimedBy(other)), 0},
		"released already":                   {newSecret(claimedBy(host), noFinalizer), newSecret(claimedBy(host), noFinalizer), 0},
		"never claimed":                      {newSecret(), newSecret(), 0},
		"finalizers of others stay":          {newSecret(claimedBy(host), func(s *corev1.Secret) { s.Finalizers = append(s.Finalizers, "example.com/other") }), newSecret(claimedBy(host), func(s *corev1.Secret) { s.Finalizers = []string{"example.com/other"} }), 1},
		"an owner that is no host is no one": {newSecret(claimedBy(host), ownedByConfigMap), newSecret(claimedBy(host), ownedByConfigMap, noFinalizer), 1},
	} {
		secrets, client := newSecrets(tt.secret)
		if err := secrets.Release(t.Context(), host, "host-0-bmc"); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if n := written(client); n != tt.writes {
			t.Errorf("%s: %d writes, want %d", name, n, tt.writes)
		}
		sameSecret(t, name, tt.want, readSecret(t, client))
	}

	secrets, client := newSecrets(newSecret(claimedBy(host, other)))
	for _, h := range []*metal3.BareMetalHost{host, other} {
		if err := secrets.Release(t.Context(), h, "host-0-bmc"); err != nil {
			t.Fatal(err)
		}
	}
	if s := readSecret(t, client); len(s.Finalizers) != 0 {
		t.Errorf("both hosts have gone, and the Secret is held by %v", s.Finalizers)
	}

	empty, _ := newSecrets()
	if err := empty.Release(t.Context(), host, "host-0-bmc"); err != nil {
		t.Errorf("a Secret that is gone: %v", err)
	}
}

func ownedByConfigMap(s *corev1.Secret) {
	s.OwnerReferences = append(s.OwnerReferences, metav1.OwnerReference{Kind: "ConfigMap", Name: "x", UID: "x"})
}
