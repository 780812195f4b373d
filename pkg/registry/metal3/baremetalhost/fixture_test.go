// SPDX-License-Identifier: Apache-2.0

package baremetalhost_test

import (
	"context"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// What tests of all stores use.
var scheme, newHost, get = storetest.Scheme, storetest.NewHost, storetest.GetHost

// eachCache runs a test on stores in one real etcd: with the watch cache off, and on.
func eachCache(t *testing.T, test func(t *testing.T, api *genericregistry.Store)) {
	t.Helper()
	storetest.EachCache(t, storetest.Codec(), func(t *testing.T, options storetest.Options) { test(t, newStore(t, options)) })
}

func newStore(t *testing.T, options storetest.Options) *genericregistry.Store {
	t.Helper()
	hosts, err := baremetalhost.NewStore(scheme, options, nil)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Use(t, hosts)
	return hosts
}

func list(t *testing.T, api rest.Lister, options *metainternalversion.ListOptions) *metal3.BareMetalHostList {
	t.Helper()
	obj, err := api.List(storetest.InNamespace(t), options)
	if err != nil {
		t.Fatalf("list %+v: %v", options, err)
	}
	return obj.(*metal3.BareMetalHostList)
}

// record writes a status past the strategies.
func record(t *testing.T, api *genericregistry.Store, name string, change func(*metal3.BareMetalHostStatus)) *metal3.BareMetalHost {
	t.Helper()
	host := get(t, api, name)
	change(&host.Status)
	recorded, err := store.NewHosts(api).Record(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	return recorded
}

func openWatch(t *testing.T, api rest.Watcher, options *metainternalversion.ListOptions) watch.Interface {
	t.Helper()
	w, err := api.Watch(storetest.InNamespace(t), options)
	if err != nil {
		t.Fatalf("watch %+v: %v", options, err)
	}
	t.Cleanup(w.Stop)
	return w
}

// hostIn is the host of an event. The watch cache wraps it.
func hostIn(e watch.Event) *metal3.BareMetalHost {
	if cached, ok := e.Object.(runtime.CacheableObject); ok {
		return cached.GetObject().(*metal3.BareMetalHost)
	}
	return e.Object.(*metal3.BareMetalHost)
}

// scripted is a Refresher whose Ironic is a script: the test says what the error
// of each host is, and each refresh records it.
type scripted struct {
	hosts *store.Hosts

	mu        sync.Mutex
	errors    map[string]string
	refreshes int
}

func newScripted(api *genericregistry.Store) *scripted {
	return &scripted{hosts: store.NewHosts(api), errors: map[string]string{}}
}

// set changes what Ironic says of a host.
func (s *scripted) set(name, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errors[name] = text
}

func (s *scripted) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refreshes
}

func (s *scripted) ask(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refreshes++
	return s.errors[name]
}

func (s *scripted) RefreshHost(ctx context.Context, namespace, name string) error {
	for {
		host, err := s.hosts.Get(ctx, namespace, name)
		if err != nil {
			return err
		}
		if err := s.observe(ctx, host); !apierrors.IsConflict(err) {
			return err
		}
	}
}

func (s *scripted) ReadHost(ctx context.Context, namespace, name string) (*metal3.BareMetalHost, error) {
	return nil, s.RefreshHost(ctx, storetest.Namespace, name)
}

func (s *scripted) RedactPassword(context.Context, *metal3.BareMetalHost, *ironic.Node) error {
	return nil
}

func (s *scripted) RefreshAll(ctx context.Context, _ string) error {
	all, err := s.hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range all.Items {
		host := &all.Items[i]
		err := s.observe(ctx, host)
		if apierrors.IsConflict(err) {
			err = s.RefreshHost(ctx, host.Namespace, host.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *scripted) observe(ctx context.Context, host *metal3.BareMetalHost) error {
	now := s.ask(host.Name)
	if host.Status.ErrorMessage == now {
		return nil
	}
	host.Status.ErrorMessage = now
	_, err := s.hosts.Record(ctx, host)
	return err
}
