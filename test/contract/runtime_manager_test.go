// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

const noteLabel = "example.com/noted"

// noter is a controller as people write them: it gives each host a Secret, which the
// host owns, notes in a label and in the status that it did, and cleans up when the
// host is deleted.
type noter struct{ client client.Client }

const noterFinalizer = "example.com/noter"

func (n *noter) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var host metal3.BareMetalHost
	if err := n.client.Get(ctx, request.NamespacedName, &host); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name + "-note"}}
	if !host.DeletionTimestamp.IsZero() {
		if err := client.IgnoreNotFound(n.client.Delete(ctx, secret)); err != nil {
			return reconcile.Result{}, err
		}
		before := host.DeepCopy()
		controllerutil.RemoveFinalizer(&host, noterFinalizer)
		return reconcile.Result{}, client.IgnoreNotFound(n.client.Patch(ctx, &host, client.MergeFrom(before)))
	}
	_, err := controllerutil.CreateOrUpdate(ctx, n.client, secret, func() error {
		secret.Data = map[string][]byte{"online": fmt.Append(nil, host.Spec.Online)}
		return controllerutil.SetControllerReference(&host, secret, runtimeScheme)
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	before := host.DeepCopy()
	controllerutil.AddFinalizer(&host, noterFinalizer)
	metav1.SetMetaDataLabel(&host.ObjectMeta, noteLabel, fmt.Sprint(host.Spec.Online))
	if err := n.client.Patch(ctx, &host, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return reconcile.Result{}, err
	}
	before = host.DeepCopy()
	host.Status.ProvisioningFailCount = int(host.Generation)
	return reconcile.Result{}, n.client.Status().Patch(ctx, &host, client.MergeFrom(before))
}

// TestRuntimeController: a controller of hosts that owns Secrets sees what happens
// to either, through its cache, along with its own writes.
func TestRuntimeController(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	m := newManager(t, ns, func(o *manager.Options) {
		o.LeaderElection, o.LeaderElectionID, o.LeaderElectionNamespace = true, "noter", ns
		o.LeaderElectionReleaseOnCancel = true
	})
	err := builder.ControllerManagedBy(m).For(&metal3.BareMetalHost{}).Owns(&corev1.Secret{}).
		WithOptions(controller.Options{SkipNameValidation: ptr.To(true)}).Complete(&noter{m.GetClient()})
	if err != nil {
		t.Fatal(err)
	}
	idleHost(t, ctx, ns, "before")
	stop := startManager(t, ctx, m)
	idleHost(t, ctx, ns, "after")
	secrets := s.Core.CoreV1().Secrets(ns)
	noted := func(name, want string) {
		t.Helper()
		comes(t, ctx, func() string {
			host, err := s.Hosts(ns).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if host.Labels[noteLabel] != want || host.Status.ProvisioningFailCount != int(host.Generation) || !controllerutil.ContainsFinalizer(host, noterFinalizer) {
				return fmt.Sprintf("host %s is noted as %q at generation %d of %d", name, host.Labels[noteLabel], host.Status.ProvisioningFailCount, host.Generation)
			}
			secret, err := secrets.Get(ctx, name+"-note", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if string(secret.Data["online"]) != want || !metav1.IsControlledBy(secret, host) {
				return fmt.Sprintf("the Secret says %q and has owners %+v", secret.Data["online"], secret.OwnerReferences)
			}
			return ""
		})
	}
	noted("before", "false")
	noted("after", "false")
	s.PatchHost(t, ctx, ns, "after", `{"spec":{"online":true}}`)
	noted("after", "true")
	if err := secrets.Delete(ctx, "after-note", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	noted("after", "true") // it is made again: the controller was told of what it owns

	if err := s.Hosts(ns).Delete(ctx, "after", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	isGone(t, ctx, ns, "after")
	if _, err := secrets.Get(ctx, "after-note", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the controller did not clean up: %v", err)
	}
	select {
	case <-m.Elected():
	default:
		t.Error("the manager works without leading")
	}
	// Another replica takes over when this one ends.
	other := newManager(t, ns, func(o *manager.Options) {
		o.LeaderElection, o.LeaderElectionID, o.LeaderElectionNamespace = true, "noter", ns
		o.LeaderElectionReleaseOnCancel = true
	})
	startManager(t, ctx, other)
	stop()
	select {
	case <-other.Elected():
	case <-ctx.Done():
		t.Error("the other manager does not lead")
	}
}

// TestRuntimeCache: reads from the cache of a manager, whole objects and metadata,
// by an index; and reads past it, as Cluster API Provider Metal3 has hosts read.
func TestRuntimeCache(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	m := newManager(t, ns, func(o *manager.Options) {
		// Reads wait until the cache has seen what was written through the client, which
		// takes resourceVersions that can be compared.
		o.Client.Cache = &client.CacheOptions{EnableReadYourWritesConsistency: ptr.To(true)}
	})
	err := m.GetFieldIndexer().IndexField(ctx, &metal3.BareMetalHost{}, "consumer", func(obj client.Object) []string {
		if ref := obj.(*metal3.BareMetalHost).Spec.ConsumerRef; ref != nil {
			return []string{ref.Name}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.GetCache().GetInformer(ctx, metadataOfHosts()); err != nil {
		t.Fatal(err)
	}
	startManager(t, ctx, m)
	c := m.GetClient()
	for i := range 3 {
		host := bareHost(ns, fmt.Sprintf("worker-%d", i))
		host.Spec.ConsumerRef = &corev1.ObjectReference{Name: fmt.Sprintf("machine-%d", i%2)}
		if err := c.Create(ctx, host); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 20 { // its own writes at once
		var list metal3.BareMetalHostList
		if err := c.List(ctx, &list, client.InNamespace(ns), client.MatchingFields{"consumer": "machine-0"}); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 2 {
			t.Fatalf("round %d: the index finds %d hosts, want 2", round, len(list.Items))
		}
		slices.SortFunc(list.Items, func(a, b metal3.BareMetalHost) int { return strings.Compare(a.Name, b.Name) })
		host := &list.Items[round%2]
		if round > 1 && host.Labels["round"] != fmt.Sprint(round-2) {
			t.Fatalf("round %d: the cache has %v", round, host.Labels)
		}
		before := host.DeepCopy()
		metav1.SetMetaDataLabel(&host.ObjectMeta, "round", fmt.Sprint(round))
		if err := c.Patch(ctx, host, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	comes(t, ctx, func() string {
		partial := metadataOfHosts()
		if err := m.GetCache().Get(ctx, client.ObjectKey{Namespace: ns, Name: "worker-0"}, partial); err != nil {
			return err.Error()
		}
		if partial.Labels["round"] == "" {
			return fmt.Sprintf("the cache of metadata has %+v", partial)
		}
		return ""
	})

	live := newManager(t, ns, func(o *manager.Options) {
		o.Client.Cache = &client.CacheOptions{DisableFor: []client.Object{&metal3.BareMetalHost{}, &corev1.ConfigMap{}, &corev1.Secret{}}}
	})
	startManager(t, ctx, live)
	for round := range 20 { // the writes of others at once
		want := s.PatchHost(t, ctx, ns, "worker-1", fmt.Sprintf(`{"status":{"errorCount":%d}}`, round+1), "status")
		var host metal3.BareMetalHost
		if err := live.GetClient().Get(ctx, client.ObjectKeyFromObject(want), &host); err != nil || host.ResourceVersion != want.ResourceVersion {
			t.Fatalf("round %d: read is resourceVersion %s %v, want %s", round, host.ResourceVersion, err, want.ResourceVersion)
		}
		var list metal3.BareMetalHostList
		if err := live.GetClient().List(ctx, &list, client.InNamespace(ns)); err != nil || len(list.Items) != 3 || list.Items[1].ResourceVersion != want.ResourceVersion {
			t.Fatalf("round %d: listed are %+v %v, want resourceVersion %s", round, list.Items, err, want.ResourceVersion)
		}
	}
}

func metadataOfHosts() *metav1.PartialObjectMetadata {
	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(metal3.SchemeGroupVersion.WithKind("BareMetalHost"))
	return partial
}
