// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"

	metal3api "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apiserver"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/events"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds/hostclaim"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// claimStores are stores on a real etcd, with controllers of claims on top.
type claimStores struct {
	t      *testing.T
	stores *metal3.Stores
	hosts  *store.Hosts
	claims *store.Objects[*metal3api.HostClaim]
	// read counts how often a controller has read a claim, which is once in each reconciliation.
	read atomic.Int64
}

func newClaimStores(t *testing.T) *claimStores {
	t.Helper()
	stores, err := metal3.NewStores(apiserver.Scheme, storetest.New(t, apiserver.Codecs.LegacyCodec(metal3api.SchemeGroupVersion)), nil)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Use(t, stores.Hosts)
	for _, k := range stores.Kinds {
		storetest.Use(t, k.Store)
	}
	return &claimStores{t: t, stores: stores, hosts: store.NewHosts(stores.Hosts), claims: metal3.Objects[*metal3api.HostClaim](stores.Kinds)}
}

// countedClaims are claims that count how often they are read.
type countedClaims struct {
	*store.Objects[*metal3api.HostClaim]
	read *atomic.Int64
}

func (c countedClaims) Get(ctx context.Context, namespace, name string) (*metal3api.HostClaim, error) {
	c.read.Add(1)
	return c.Objects.Get(ctx, namespace, name)
}

// noSecrets are the Secrets of claims that name none.
type noSecrets struct{}

func (noSecrets) Copy(context.Context, types.NamespacedName, types.NamespacedName, map[string]string, metav1.OwnerReference) error {
	return nil
}
func (noSecrets) DeleteCopy(context.Context, types.NamespacedName, map[string]string) error {
	return nil
}
func (noSecrets) Watched(string, string) bool { return false }

type noEvents struct{}

func (noEvents) RecordObject(*corev1.ObjectReference, events.Event) {}

// lead runs a controller of claims until the returned function is called.
func (s *claimStores) lead() (stop func()) {
	s.t.Helper()
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		s.t.Fatal(err)
	}
	namespace := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "tenant"}}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return s.hosts.List(ctx, options)
		},
		WatchFuncWithContext: s.hosts.Watch,
	}, s.hosts), &metal3api.BareMetalHost{}, 0, cache.Indexers{})
	controller, err := hostclaim.New(hostclaim.Deps{
		Claims: countedClaims{s.claims, &s.read}, Policies: metal3.Objects[*metal3api.HostDeployPolicy](s.stores.Kinds), Hosts: s.hosts, Hardware: s.stores.Kinds.HardwareData(),
		Secrets: noSecrets{}, Fence: ironic.NoFence, Events: noEvents{}, Clock: clock.RealClock{}, ClaimNamespaces: secrets.MetadataInformer(metadatafake.NewSimpleMetadataClient(scheme, namespace), "namespaces", metav1.NamespaceAll),
		OnHostChange: func(changed func(old, host *metal3api.BareMetalHost)) (func() bool, error) {
			handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc: func(obj any) { changed(nil, obj.(*metal3api.BareMetalHost)) },
				UpdateFunc: func(old, obj any) {
					changed(old.(*metal3api.BareMetalHost), obj.(*metal3api.BareMetalHost))
				},
			})
			if err != nil {
				return nil, err
			}
			return handler.HasSynced, nil
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	running.Go(func() {
		if err := controller.Run(ctx); err != nil {
			s.t.Error(err)
		}
	})
	return sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
}

// addHost records an available host.
func (s *claimStores) addHost(name string) {
	s.t.Helper()
	ctx := genericapirequest.WithNamespace(s.t.Context(), "metal3")
	host := &metal3api.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: name}}
	created, err := s.stores.Hosts.Create(ctx, host, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	host = created.(*metal3api.BareMetalHost).DeepCopy()
	host.Status.Provisioning.State = metal3api.StateAvailable
	host.Status.Ironic = &metal3api.IronicStatus{ProvisionState: "manageable"}
	if _, err := s.hosts.Record(ctx, host); err != nil {
		s.t.Fatal(err)
	}
}

// consumers returns the consumers of all hosts that have one, by host.
func (s *claimStores) consumers() map[string]string {
	s.t.Helper()
	list, err := s.hosts.List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	consumers := map[string]string{}
	for _, host := range list.Items {
		if ref := host.Spec.ConsumerRef; ref != nil {
			consumers[host.Name] = ref.Kind + " " + ref.Name
		}
	}
	return consumers
}

// sorted returns the claims that have a host, and those that wait and say so, the oldest first.
func (s *claimStores) sorted() (bound, waiting []string) {
	s.t.Helper()
	list, err := s.claims.List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	items := list.(*metal3api.HostClaimList).Items
	slices.SortStableFunc(items, func(a, b metal3api.HostClaim) int {
		if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
			return strings.Compare(a.Name, b.Name)
		}
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	for _, claim := range items {
		associated := meta.FindStatusCondition(claim.Status.Conditions, hostclaim.AssociatedCondition)
		switch {
		case associated == nil:
		case associated.Status == metav1.ConditionTrue:
			bound = append(bound, claim.Name)
		case associated.Reason == hostclaim.NoBareMetalHostReason && strings.HasPrefix(associated.Message, "All hosts that match spec.hostSelector are in use"):
			waiting = append(waiting, claim.Name)
		default:
			s.t.Logf("%s: %+v", claim.Name, associated)
		}
	}
	return bound, waiting
}

// until waits for so many claims that have a host, and that wait.
func (s *claimStores) until(bound, waiting int) (boundClaims, waitingClaims []string) {
	s.t.Helper()
	testbed.EventuallyEvery(s.t, s.t.Context(), 20*time.Millisecond, func() string {
		boundClaims, waitingClaims = s.sorted()
		if len(boundClaims) == bound && len(waitingClaims) == waiting {
			return ""
		}
		return fmt.Sprintf("%d claims have a host and %d wait, want %d and %d", len(boundClaims), len(waitingClaims), bound, waiting)
	})
	return boundClaims, waitingClaims
}

func (s *claimStores) deleteClaims(names ...string) {
	s.t.Helper()
	for _, name := range names {
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			claim, err := s.claims.Get(s.t.Context(), "tenant", name)
			if err != nil {
				return err
			}
			return s.claims.Delete(s.t.Context(), claim)
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// A hundred claims and another consumer want the same hosts at once, and two replicas believe to lead:
// each host is given away once, and no claim gets two. The claims without a host wait without being
// reconciled, and get the hosts that become free in turn.
func TestClaimsForFewerHosts(t *testing.T) {
	s := newClaimStores(t)
	policy := &metal3api.HostDeployPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "tenants"}, Spec: metal3api.HostDeployPolicySpec{
		HostClaimNamespaces: &metal3api.HostClaimNamespaces{Names: []string{"tenant"}},
	}}
	if _, err := metal3.Objects[*metal3api.HostDeployPolicy](s.stores.Kinds).Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	const hosts, machines, claims = 65, 5, 100
	for i := range hosts {
		s.addHost(fmt.Sprintf("worker-%02d", i))
	}
	stopOne, stopOther := s.lead(), s.lead()
	defer stopOne()
	defer stopOther()
	var others sync.WaitGroup
	others.Go(func() { // as Cluster API Provider Metal3 does
		taken := 0
		for i := 0; taken < machines; i = (i + 1) % hosts {
			host, err := s.hosts.Get(t.Context(), "metal3", fmt.Sprintf("worker-%02d", i))
			if err != nil {
				t.Error(err)
				return
			}
			if host.Spec.ConsumerRef != nil {
				continue
			}
			host.Spec.ConsumerRef = &corev1.ObjectReference{Kind: "Metal3Machine", Name: fmt.Sprint(taken)}
			if _, err = s.hosts.Update(t.Context(), host); err == nil {
				taken++
			} else if !apierrors.IsConflict(err) {
				t.Error(err)
				return
			}
		}
	})
	for i := range claims {
		claim := &metal3api.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: fmt.Sprintf("claim-%03d", i)}}
		if _, err := s.claims.Create(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
	}
	others.Wait()
	bound, waiting := s.until(hosts-machines, claims-hosts+machines)
	consumers := s.consumers()
	perConsumer := map[string]int{}
	for _, consumer := range consumers {
		perConsumer[consumer]++
	}
	if len(consumers) != hosts || len(perConsumer) != hosts {
		t.Errorf("%d hosts have %d consumers: %v", len(consumers), len(perConsumer), perConsumer)
	}
	for _, claim := range bound {
		if perConsumer["HostClaim "+claim] != 1 {
			t.Errorf("claim %s has %d hosts", claim, perConsumer["HostClaim "+claim])
		}
	}

	stopOther()
	// Each write of a status has its claim reconciled once more.
	before := int64(-1)
	testbed.EventuallyEvery(t, t.Context(), 300*time.Millisecond, func() string {
		last := before
		if before = s.read.Load(); before != last {
			return fmt.Sprintf("claims that wait are reconciled: %d times, after %d", before, last)
		}
		return ""
	})
	s.deleteClaims(bound[0])
	_, left := s.until(hosts-machines, len(waiting)-1)
	if want := waiting[1:]; !slices.Equal(left, want) {
		t.Errorf("%q wait, want %q: the oldest claim gets the host", left, want)
	}
	if read := s.read.Load() - before; read > 20 {
		t.Errorf("a host that became free had claims reconciled %d times", read)
	}
	s.deleteClaims(bound[1:40]...)
	if rest, _ := s.until(hosts-machines, 0); len(rest) != len(slices.Compact(slices.Sorted(maps.Values(s.consumers()))))-machines {
		t.Errorf("the consumers are %v", s.consumers())
	}
}
