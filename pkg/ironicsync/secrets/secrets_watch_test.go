// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

var secretsResource = corev1.SchemeGroupVersion.WithResource("secrets")

// cluster is a cluster with Secrets, which gives each write a resourceVersion
// and shows it to those who watch the metadata.
type cluster struct {
	*Secrets
	t        *testing.T
	client   *fake.Clientset
	metadata *metadatafake.FakeMetadataClient

	mu       sync.Mutex
	revision int
	notified sets.Set[string] // "namespace/name at Version"
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, client: fake.NewClientset(), metadata: metadatafake.NewSimpleMetadataClient(scheme), revision: 100, notified: sets.New[string]()}
	c.Secrets = New(c.client, c.metadata, nil)
	c.client.PrependReactor("patch", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) {
		secret, err := enginetest.PatchedSecret(c.client.Tracker(), a.(clienttesting.PatchAction))
		if err == nil {
			secret, err = c.write(secret)
		}
		return true, secret, err
	})
	err := c.Notify(func(namespace, name string) {
		version := c.Version(namespace, name)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.notified.Insert(namespace + "/" + name + " at " + version)
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	if !c.WaitForSync(ctx) {
		t.Fatal("the watch on Secrets does not begin")
	}
	return c
}

// write puts a Secret into the cluster at the next resourceVersion.
func (c *cluster) write(secret *corev1.Secret) (*corev1.Secret, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision++
	secret = secret.DeepCopy()
	secret.ResourceVersion = strconv.Itoa(c.revision)
	m := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: secret.ObjectMeta}
	err := c.client.Tracker().Update(secretsResource, secret, secret.Namespace)
	if err == nil {
		return secret, c.metadata.Tracker().Update(secretsResource, m, m.Namespace)
	}
	if !apierrors.IsNotFound(err) {
		return nil, err
	}
	if err := c.client.Tracker().Create(secretsResource, secret, secret.Namespace); err != nil {
		return nil, err
	}
	return secret, c.metadata.Tracker().Create(secretsResource, m, m.Namespace)
}

// put writes a Secret as another client does, and waits until the watch has it.
func (c *cluster) put(options ...func(*corev1.Secret)) {
	c.t.Helper()
	secret, err := c.write(newSecret(options...))
	if err != nil {
		c.t.Fatal(err)
	}
	c.await("the watch at "+secret.ResourceVersion, func() bool { return c.watched("metal3", "host-0-bmc") == secret.ResourceVersion })
}

func (c *cluster) remove() {
	c.t.Helper()
	if err := c.client.Tracker().Delete(secretsResource, "metal3", "host-0-bmc"); err != nil {
		c.t.Fatal(err)
	}
	if err := c.metadata.Tracker().Delete(secretsResource, "metal3", "host-0-bmc"); err != nil {
		c.t.Fatal(err)
	}
	c.awaitNotice("metal3/host-0-bmc at ")
}

func (c *cluster) await(what string, condition func() bool) {
	c.t.Helper()
	err := wait.PollUntilContextTimeout(c.t.Context(), 5*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		c.t.Fatalf("waited in vain for %s", what)
	}
}

func (c *cluster) awaitNotice(want string) {
	c.t.Helper()
	c.await(want, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.notified.Has(want)
	})
}

func (c *cluster) look() {
	c.t.Helper()
	if err := c.Refresh(c.t.Context(), "metal3", "host-0-bmc"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) expectVersion(what, want string) {
	c.t.Helper()
	if got := c.Version("metal3", "host-0-bmc"); got != want {
		c.t.Errorf("%s: version %q, want %q", what, got, want)
	}
}

// Version and notify go by the watch, which holds metadata only.
func TestSecretsWatch(t *testing.T) {
	c := newCluster(t)
	c.expectVersion("not there", "")
	c.put()
	c.awaitNotice("metal3/host-0-bmc at 101")
	c.put(rotated)
	c.awaitNotice("metal3/host-0-bmc at 102")
	c.look()
	if n := len(c.client.Actions()); n != 0 {
		t.Errorf("%d requests for Secrets that no host has claimed", n)
	}
	c.remove()
	c.expectVersion("gone", "")
	c.put()
	c.awaitNotice("metal3/host-0-bmc at 103")
	c.expectVersion("back", "103")
}

// kubectl apply keeps what was applied, and so a password, in an annotation.
func TestAnnotationsOfSecretsAreNotKept(t *testing.T) {
	c := newCluster(t)
	c.put(func(s *corev1.Secret) {
		s.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"stringData":{"password":"` + password + `"}}`}
		s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	})
	for _, informer := range c.informers {
		obj, exists, err := informer.GetStore().GetByKey("metal3/host-0-bmc")
		if err != nil || !exists {
			t.Fatalf("the Secret is not known: %v", err)
		}
		if m := obj.(*metav1.PartialObjectMetadata); len(m.Annotations) > 0 || len(m.ManagedFields) > 0 {
			t.Errorf("kept in memory: annotations %v, managed fields %v", m.Annotations, m.ManagedFields)
		}
	}
}

func rotated(s *corev1.Secret) { s.Data["password"] = []byte("rotated") }

// Only new contents are new credentials: claims by hosts that share the Secret,
// and what others write to its metadata, are not.
func TestSecretsVersionIsThatOfContents(t *testing.T) {
	c := newCluster(t)
	host, other := newHost(), anotherHost()
	c.put()
	first, err := c.Claim(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.Claim(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	if first.Version != "102" || second.Version != "103" {
		t.Errorf("claimed at %q and %q, which gave the Secret the versions 102 and 103", first.Version, second.Version)
	}
	c.await("the watch", func() bool { return c.watched("metal3", "host-0-bmc") == "103" })
	c.expectVersion("claimed twice", "101") // what it was put with

	c.put(claimedBy(host, other), func(s *corev1.Secret) { s.Labels["app"] = "x" })
	c.look()
	c.expectVersion("labelled", "101")

	c.put(claimedBy(host, other), rotated)
	c.look()
	c.expectVersion("rotated", "105")
	third, err := c.Claim(t.Context(), host)
	if err != nil || third.Version != "105" || third.Password != "rotated" {
		t.Errorf("claimed after rotation: version %q (error %v)", third.Version, err)
	}

	c.remove()
	c.look()
	c.expectVersion("gone", "")
	c.put(rotated)
	c.expectVersion("made anew, with the same contents", "106")
}

// The same holds for each Secret that a host names, with all that is in it.
func TestSecretsVersionsOfHost(t *testing.T) {
	c := newCluster(t)
	host := newHost()
	host.Spec.UserData = &corev1.SecretReference{Name: "host-0-bmc"}
	host.Spec.BMC.CredentialsName = "other"
	expect := func(what, want string) {
		t.Helper()
		if err := c.RefreshAll(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		if got := c.Versions(host); got["host-0-bmc"] != want || got["other"] != "" || len(got) != 2 {
			t.Errorf("%s: versions %v, want %q of the user data", what, got, want)
		}
	}
	expect("missing", "")
	c.put()
	expect("there", "101")
	c.put(func(s *corev1.Secret) { s.Labels = map[string]string{"app": "x"} })
	expect("labelled", "101")
	c.put(func(s *corev1.Secret) { s.Data["more"] = []byte("x") })
	expect("with another key", "103")
	if _, err := c.Data(t.Context(), "metal3", "host-0-bmc"); err != nil { // which labels it
		t.Fatal(err)
	}
	c.await("the watch", func() bool { return c.watched("metal3", "host-0-bmc") == "104" })
	reads := len(c.client.Actions())
	expect("read for a deployment", "103")
	if n := len(c.client.Actions()) - reads; n != 0 {
		t.Errorf("%d requests for what is known", n)
	}
	c.remove()
	expect("gone", "")
}

// TestSlowWrite: while a Secret is being written, which an admission webhook of a tenant's may delay, the hosts of others are planned.
func TestSlowWrite(t *testing.T) {
	c := newCluster(t)
	c.put()
	begun, end := make(chan struct{}), make(chan struct{})
	c.client.PrependReactor("patch", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		close(begun)
		<-end
		return true, newSecret(), nil
	})
	claimed := make(chan struct{})
	go func() {
		defer close(claimed)
		_, _ = c.Claim(t.Context(), newHost())
	}()
	<-begun
	defer func() { close(end); <-claimed }()
	looked := make(chan error)
	for n := range 100 {
		go func() { looked <- c.Refresh(t.Context(), "metal3", fmt.Sprintf("host-%d-bmc", n+1)) }()
	}
	for range 100 {
		select {
		case err := <-looked:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a plan waits for the write of another Secret")
		}
	}
}
