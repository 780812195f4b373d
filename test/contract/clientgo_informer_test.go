// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/informers/externalversions"
)

// What follows opts a client out of streaming its first list (the client feature
// WatchListClient), for one informer instead of for the whole process.
type (
	listingTyped    struct{ versioned.Interface }
	listingDynamic  struct{ dynamic.Interface }
	listingMetadata struct{ metadata.Interface }
)

func (listingTyped) IsWatchListSemanticsUnSupported() bool    { return true }
func (listingDynamic) IsWatchListSemanticsUnSupported() bool  { return true }
func (listingMetadata) IsWatchListSemanticsUnSupported() bool { return true }

// newInformers makes each informer that client-go has, of the hosts of a namespace.
func newInformers(t *testing.T, config *rest.Config, ns string) map[string]*informed {
	t.Helper()
	all := map[string]*informed{}
	add := func(name string, make func(*rest.Config) (cache.SharedIndexInformer, error)) {
		config, requests := logRequests(config)
		informer, err := make(config)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = &informed{name: name, SharedIndexInformer: informer, requests: requests}
	}
	for _, listing := range []bool{false, true} {
		how := map[bool]string{false: "watch list", true: "list and watch"}[listing]
		add("typed, "+how, func(config *rest.Config) (cache.SharedIndexInformer, error) {
			client, err := versioned.NewForConfig(config)
			if err != nil {
				return nil, err
			}
			var hosts versioned.Interface = client
			if listing {
				hosts = listingTyped{client}
			}
			factory := externalversions.NewSharedInformerFactoryWithOptions(hosts, 0, externalversions.WithNamespace(ns))
			return factory.Metal3().V1alpha1().BareMetalHosts().Informer(), nil
		})
		add("dynamic, "+how, func(config *rest.Config) (cache.SharedIndexInformer, error) {
			client, err := dynamic.NewForConfig(config)
			if err != nil {
				return nil, err
			}
			var hosts dynamic.Interface = client
			if listing {
				hosts = listingDynamic{client}
			}
			return dynamicinformer.NewFilteredDynamicSharedInformerFactory(hosts, 0, ns, nil).ForResource(hostResource).Informer(), nil
		})
		add("metadata, "+how, func(config *rest.Config) (cache.SharedIndexInformer, error) {
			client, err := metadata.NewForConfig(config)
			if err != nil {
				return nil, err
			}
			hosts := client
			if listing {
				hosts = listingMetadata{client}
			}
			return metadatainformer.NewFilteredSharedInformerFactory(hosts, 0, ns, nil).ForResource(hostResource).Informer(), nil
		})
	}
	return all
}

// informed is an informer with what it was told and what it has asked for.
type informed struct {
	cache.SharedIndexInformer
	journal
	name     string
	requests *requestLog
}

// start runs the informer until the end of the test, and waits until it has all.
func (i *informed) start(t *testing.T, ctx context.Context) {
	t.Helper()
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { i.add(watch.Added, obj) },
		UpdateFunc: func(old, obj any) {
			// After a new list an informer tells of all objects, changed or not.
			if before, err := meta.Accessor(old); err != nil || before.GetResourceVersion() != versionOf(obj) {
				i.add(watch.Modified, obj)
			}
		},
		DeleteFunc: func(obj any) { i.add(watch.Deleted, obj) },
	}
	registered, err := i.AddEventHandler(handler)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); i.RunWithContext(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	if !cache.WaitForCacheSync(ctx.Done(), registered.HasSynced) {
		t.Fatalf("informer (%s) was not in sync before its time was up", i.name)
	}
}

// has complains if the informer's store is not the hosts of the namespace.
func (i *informed) has(want map[string]string) string {
	got := map[string]string{}
	for _, obj := range i.GetStore().List() {
		object, err := meta.Accessor(obj)
		if err != nil {
			return err.Error()
		}
		got[object.GetName()] = object.GetResourceVersion()
	}
	if maps.Equal(got, want) {
		return ""
	}
	return fmt.Sprintf("informer (%s) has %v, want %v", i.name, got, want)
}

func versionOf(obj any) string {
	object, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return object.GetResourceVersion()
}

// versionsIn are the resourceVersions of the hosts of a namespace.
func versionsIn(t *testing.T, ctx context.Context, ns string) map[string]string {
	t.Helper()
	list, err := s.Hosts(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, host := range list.Items {
		versions[host.Name] = host.ResourceVersion
	}
	return versions
}

// writeHistory changes hosts in all ways in which an object can change: two are
// made, relabelled, given another spec and status, one after the other, and one
// goes. Hosts that are there already stay.
func writeHistory(t *testing.T, ctx context.Context, ns, prefix string) (written []change) {
	t.Helper()
	wrote := func(kind watch.EventType, host *metal3.BareMetalHost) {
		written = append(written, change{kind, host.Name, host.ResourceVersion})
	}
	names := []string{prefix + "-0", prefix + "-1"}
	for _, name := range names {
		wrote(watch.Added, idleHost(t, ctx, ns, name))
	}
	for round := range 5 {
		for _, name := range names {
			wrote(watch.Modified, s.PatchHost(t, ctx, ns, name, fmt.Sprintf(`{"metadata":{"labels":{"round":"%d"}}}`, round)))
			wrote(watch.Modified, s.PatchHost(t, ctx, ns, name, fmt.Sprintf(`{"spec":{"description":"round %d"}}`, round)))
			wrote(watch.Modified, s.PatchHost(t, ctx, ns, name, fmt.Sprintf(`{"status":{"errorCount":%d}}`, round+1), "status"))
		}
	}
	if err := s.Hosts(ns).Delete(ctx, names[1], metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	return written
}

// TestClientGoInformers: each of them is told of each change once and in order,
// and has asked for a list once.
func TestClientGoInformers(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	idleHost(t, ctx, ns, "before")
	start, err := s.Hosts(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// A plain watch is what they are compared with.
	w, err := s.Hosts(ns).Watch(ctx, metav1.ListOptions{ResourceVersion: start.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var seen journal
	go func() {
		for event := range w.ResultChan() {
			seen.add(event.Type, event.Object)
		}
	}()

	informers := newInformers(t, s.Config, ns)
	for _, i := range informers {
		i.start(t, ctx)
	}
	written := writeHistory(t, ctx, ns, "worker")
	last := idleHost(t, ctx, ns, "last")
	wantEnd := change{watch.Added, "last", last.ResourceVersion}
	comes(t, ctx, func() string {
		if !slices.Contains(seen.changes(), wantEnd) {
			return "the last change did not reach the watch"
		}
		return ""
	})
	want := seen.changes()
	// Our server may have recorded something beside, but nothing that was written may
	// be missing.
	if diff := cmp.Diff(written, slices.DeleteFunc(slices.Clone(want), func(c change) bool { return !slices.Contains(written, c) })); diff != "" {
		t.Errorf("what was written, and of that, what the watch told (-want +got):\n%s", diff)
	}
	if deleted := slices.IndexFunc(want, func(c change) bool { return c.Type == watch.Deleted && c.Name == "worker-1" }); deleted < 0 {
		t.Error("the watch did not tell of the deletion")
	}
	var before uint64
	for _, c := range want {
		version, err := strconv.ParseUint(c.Version, 10, 64)
		if err != nil || version <= before {
			t.Errorf("%v follows resourceVersion %d: %v", c, before, err)
		}
		before = version
	}
	for name, i := range informers {
		t.Run(name, func(t *testing.T) {
			comes(t, ctx, func() string {
				if !slices.Contains(i.changes(), wantEnd) {
					return "the last change did not reach the informer"
				}
				return ""
			})
			got := i.changes()
			if len(got) == 0 || got[0].Name != "before" || got[0].Type != watch.Added {
				t.Fatalf("the informer was not told of the host that was there before: %v", got)
			}
			if diff := cmp.Diff(want, got[1:]); diff != "" {
				t.Errorf("what the watch and what the informer was told (-want +got):\n%s", diff)
			}
			if n := lists(i.requests.take()); n != 1 {
				t.Errorf("the informer asked for a list %d times, want once", n)
			}
			if complaint := i.has(versionsIn(t, ctx, ns)); complaint != "" {
				t.Error(complaint)
			}
		})
	}
}
