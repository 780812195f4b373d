// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestClientGoHistoryIsGone: what is older than the history that is kept is 410
// Gone, for watches and for lists, and an informer that is so late begins anew by
// itself. It restarts and compacts what others use, so it does not run beside them.
func TestClientGoHistoryIsGone(t *testing.T) {
	ctx, ns := s.Begin(t)
	old := idleHost(t, ctx, ns, "worker-0")
	line, config := testbed.NewFlakyLine(t, s.Config)
	informers := newInformers(t, config, ns)
	for _, i := range informers {
		i.start(t, ctx)
	}
	for n := range 5 {
		idleHost(t, ctx, ns, fmt.Sprintf("more-%d", n))
	}
	page, err := s.Hosts(ns).List(ctx, metav1.ListOptions{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	line.Cut()
	for round := range 3 {
		s.PatchHost(t, ctx, ns, "worker-0", fmt.Sprintf(`{"spec":{"description":"unseen %d"}}`, round))
	}
	if err := s.Hosts(ns).Delete(ctx, "more-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	idleHost(t, ctx, ns, "worker-1")
	compactHosts(t, ctx)
	// The watch cache has a history of its own, which ends with the process.
	if err := s.Server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Server.WaitAvailable(ctx); err != nil {
		t.Fatal(err)
	}

	t.Run("watch", func(t *testing.T) {
		if err := watchFrom(ctx, ns, old.ResourceVersion); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			t.Errorf("a watch from a compacted resourceVersion: %v, want 410", err)
		}
	})
	t.Run("list", func(t *testing.T) {
		_, err := s.Hosts(ns).List(ctx, metav1.ListOptions{ResourceVersion: old.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		if !apierrors.IsResourceExpired(err) {
			t.Errorf("a list of a compacted resourceVersion: %v, want 410 Expired", err)
		}
	})
	t.Run("continue", func(t *testing.T) {
		_, err := s.Hosts(ns).List(ctx, metav1.ListOptions{Limit: 2, Continue: page.Continue})
		if !apierrors.IsResourceExpired(err) {
			t.Fatalf("an expired continue token: %v, want 410 Expired", err)
		}
		// Who can do with hosts of different moments goes on with the token in the answer.
		fresh := err.(apierrors.APIStatus).Status().Continue
		names := []string{}
		for _, host := range page.Items {
			names = append(names, host.Name)
		}
		for fresh != "" {
			next, err := s.Hosts(ns).List(ctx, metav1.ListOptions{Limit: 2, Continue: fresh})
			if err != nil {
				t.Fatal(err)
			}
			for _, host := range next.Items {
				names = append(names, host.Name)
			}
			fresh = next.Continue
		}
		if diff := cmp.Diff([]string{"more-0", "more-1", "more-2", "more-3", "more-4", "worker-0", "worker-1"}, names); diff != "" {
			t.Errorf("hosts (-want +got):\n%s", diff)
		}
	})
	line.Mend(t, t.Context())
	for name, i := range informers {
		t.Run(name, func(t *testing.T) {
			want := versionsIn(t, ctx, ns)
			comes(t, ctx, func() string { return i.has(want) })
			if n := lists(i.requests.take()); n < 2 {
				t.Errorf("the informer asked for a list %d times, want a second time", n)
			}
			if !slices.ContainsFunc(i.changes(), func(c change) bool { return c.Type == watch.Deleted && c.Name == "more-0" }) {
				t.Error("the informer did not tell of the host that was deleted meanwhile")
			}
			label := strings.NewReplacer(" ", "_", ",", "").Replace(name)
			after := s.PatchHost(t, ctx, ns, "worker-1", fmt.Sprintf(`{"metadata":{"labels":{"for":%q}}}`, label))
			arrives(t, ctx, name, &i.journal, change{watch.Modified, "worker-1", after.ResourceVersion})
		})
	}
}

// watchFrom watches the hosts of a namespace and returns the error with which the
// watch begins. Servers refuse a watch either with a status code or with an event.
func watchFrom(ctx context.Context, ns, version string) error {
	w, err := s.Hosts(ns).Watch(ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return err
	}
	defer w.Stop()
	select {
	case event := <-w.ResultChan():
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
		host, _ := event.Object.(*metal3.BareMetalHost)
		return fmt.Errorf("no error, but %s %+v", event.Type, host)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// compactHosts has the etcd that our server embeds forget all that was.
func compactHosts(t *testing.T, ctx context.Context) {
	t.Helper()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(filepath.Dir(s.Server.LogPath), "data", "etcd.sock")}, DialTimeout: testbed.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	now, err := etcd.Get(ctx, "revision")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcd.Compact(ctx, now.Header.Revision); err != nil {
		t.Fatal(err)
	}
}
