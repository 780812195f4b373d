// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestMoved moves a fleet from the embedded etcd to one of three members and back, as docs/high-availability.md says:
// no write is lost, hosts keep their UIDs, clients that watch list again, and what was begun goes on, without anything being
// held. Afterwards, the old snapshot of the embedded etcd is restored, and this time all is held.
func TestMoved(t *testing.T) {
	if !testbed.IsSimulated() {
		t.Skip("where the server stores its objects makes no difference to Ironic")
	}
	inParallel(t)
	n := fromEnv(t, "MOVE_HOSTS", map[bool]int{true: len(fates), false: 7}[os.Getenv("HA") == "all"])
	ctx, cancel := context.WithTimeout(t.Context(), 6*testbed.Patience)
	defer cancel()
	flags := append([]string{"--provisioning-limit=100"}, lease...)
	f := &fleet{bed: newBed(t, ctx, flags...)}
	f.addHosts(n)
	f.start()
	f.prepare()

	first := f.stopAndSave(true, "--data-dir="+f.server.DataDir())
	etcd, err := testbed.NewEtcdCluster(t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := etcd.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, member := range etcd.Members {
		f.restoreFrom(first, member.Env())
	}
	if err := etcd.Start(ctx); err != nil {
		t.Fatal(err)
	}
	embedded := f.server
	f.server, f.client = f.newServer(testbed.ServerOptions{EtcdServers: etcd.Endpoints(), Args: append(etcd.ClientArgs(), flags...)})
	f.hosts = f.client.Metal3V1alpha1().BareMetalHosts(f.ns)
	f.startMoved("to three members", first)
	f.day()

	second := f.stopAndSave(false, append(etcd.ClientArgs(), "--etcd-servers="+etcd.Endpoints())...)
	f.server, f.client = f.newServer(testbed.ServerOptions{Args: flags})
	f.hosts = f.client.Metal3V1alpha1().BareMetalHosts(f.ns)
	f.restoreFrom(second, nil, "--data-dir="+f.server.DataDir())
	f.startMoved("back to an embedded etcd", second)
	f.settle()
	f.compare("after all")
	f.expectNodes()

	f.stop()
	f.restoreFrom(first, nil, "--keep-old", "--data-dir="+f.server.DataDir())
	f.start()
	f.expectHeld()
	if embedded.Alive() {
		t.Error("the server before the move runs again")
	}
}

// saved is a snapshot, and what was stored and done when it was made.
type saved struct {
	path string
	list *metal3.BareMetalHostList
	// untouched are the accounts of the hosts with which nothing was under way.
	untouched map[string]account
}

// stopAndSave stops the server and saves a snapshot. With begin, hosts are asked for something in the moment before.
func (f *fleet) stopAndSave(begin bool, flags ...string) *saved {
	f.t.Helper()
	save := &saved{path: filepath.Join(f.t.TempDir(), "snapshot.db"), untouched: map[string]account{}}
	for _, h := range f.all {
		switch {
		case begin && h.begun != nil:
			h.begun(h)
		case begin && h.created != nil, !begin && h.today != nil:
			save.untouched[h.name] = h.account()
		}
	}
	var err error
	if save.list, err = f.hosts.List(f.ctx, metav1.ListOptions{}); err != nil {
		f.t.Fatal(err)
	}
	f.stop()
	f.etcdCommand(nil, append([]string{"save", save.path}, flags...)...)
	return save
}

// restoreFrom restores a snapshot, for a member with its environment or with flags.
func (f *fleet) restoreFrom(save *saved, env []string, flags ...string) {
	f.t.Helper()
	f.etcdCommand(env, append([]string{"restore", save.path}, flags...)...)
}

func (f *fleet) etcdCommand(env []string, args ...string) {
	f.t.Helper()
	cmd := exec.CommandContext(f.ctx, f.server.Program(), append([]string{"etcd", "snapshot"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		f.t.Fatalf("etcd snapshot %v: %v\n%s", args, err, out)
	}
}

// startMoved starts the server with another etcd than before, and checks that this one has everything.
func (f *fleet) startMoved(where string, before *saved) {
	f.t.Helper()
	f.start()
	f.expectGone(where, before.list.ResourceVersion)
	arrivals := map[string]arrival{}
	for _, h := range f.all {
		if _, still := before.untouched[h.name]; still {
			arrivals[h.name] = func(host *metal3.BareMetalHost) bool { return h.isReady(host) && heldFor(host) == "" }
		}
	}
	f.leader(f.server)
	f.await(where, arrivals)
	after := f.list()
	for _, host := range before.list.Items {
		now := after[host.Name]
		switch {
		case now == nil && !host.DeletionTimestamp.IsZero():
		case now == nil:
			f.t.Errorf("%s: %s is lost", where, host.Name)
		case now.UID != host.UID || heldFor(now) != "" || now.Generation < host.Generation:
			f.t.Errorf("%s: %s has the UID %s (before: %s), generation %d (%d), held %q", where, host.Name, now.UID, host.UID, now.Generation, host.Generation, heldFor(now))
		default:
			if diff := cmp.Diff(host.Spec, now.Spec); diff != "" {
				f.t.Errorf("%s: the spec of %s (-before +after):\n%s", where, host.Name, diff)
			}
		}
	}
	for _, h := range f.all {
		if want, still := before.untouched[h.name]; still {
			if diff := cmp.Diff(want, h.account()); diff != "" {
				f.t.Errorf("%s: what was done to the machine of %s (-before +after):\n%s", where, h.name, diff)
			}
		}
	}
}

// isReady reports whether a host with which nothing is under way is where it was.
func (h *fleetHost) isReady(host *metal3.BareMetalHost) bool {
	return h.ready(h)(host) || h.today != nil && h.isRight(host)
}

// expectGone checks that a watch from before ends with 410, after which clients list again.
func (f *fleet) expectGone(where, resourceVersion string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, testbed.Patience)
	defer cancel()
	watcher, err := f.hosts.Watch(ctx, metav1.ListOptions{ResourceVersion: resourceVersion})
	if err == nil {
		defer watcher.Stop()
		event := <-watcher.ResultChan()
		if event.Type != watch.Error {
			f.t.Errorf("%s: a watch from before goes on with %s %v", where, event.Type, event.Object)
			return
		}
		err = apierrors.FromObject(event.Object)
	}
	if status, is := err.(apierrors.APIStatus); !is || status.Status().Code != http.StatusGone {
		f.t.Errorf("%s: a watch from before ends with %v, want 410", where, err)
	}
}
