// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestRestoredBeneath restores an etcd of its own beneath a server that runs on, against docs/restore.md. Nothing has told the
// server, whose leader knows all hosts as they were, and meets them as they were before, some of them about to be undeployed or
// switched off. Nothing happens to their machines, and what the server shows is what etcd has.
func TestRestoredBeneath(t *testing.T) {
	if !testbed.IsSimulated() {
		t.Skip("where the server stores its objects makes no difference to Ironic")
	}
	inParallel(t)
	ctx, cancel := context.WithTimeout(t.Context(), 6*testbed.Patience)
	defer cancel()
	f := &fleet{bed: newIronicBed(t, ctx), restore: restore{etcd: true}}
	etcd := newEtcd(t, ctx, 1)
	flags := append(etcd.ClientArgs(), "--etcd-servers="+etcd.Endpoints())
	f.server, f.client = f.newServer(testbed.ServerOptions{EtcdServers: etcd.Endpoints(), Args: append(etcd.ClientArgs(), "--provisioning-limit=100")})
	f.hosts = f.client.Metal3V1alpha1().BareMetalHosts(f.ns)
	f.addHosts(len(fates))
	f.start()
	f.prepare()
	f.begin()
	snapshot := filepath.Join(t.TempDir(), "snapshot.db")
	f.etcdCommand(nil, append([]string{"save", snapshot}, flags...)...)
	counted := f.countInLease()
	f.day()
	testbed.EventuallyEvery(t, ctx, time.Second, func() string {
		if f.countInLease() > counted {
			return ""
		}
		return "the leader has not counted since the snapshot"
	})

	if err := etcd.Stop(); err != nil {
		t.Fatal(err)
	}
	member := etcd.Members[0]
	if err := os.RemoveAll(member.DataDir()); err != nil {
		t.Fatal(err)
	}
	f.etcdCommand(member.Env(), "restore", snapshot)
	if err := etcd.Start(ctx); err != nil {
		t.Fatal(err)
	}

	f.expectHeld()
	f.compare("right after the restore")
	shown := f.list()
	for _, h := range f.all {
		switch host, there := shown[h.name]; {
		case h.begun == nil && there != (h.created != nil):
			t.Errorf("%s is shown: %t, and in etcd: %t", h.name, there, !there)
		case h.fate.name == "rolled" && host.Spec.Image.URL != h.image(firstImage).URL:
			t.Errorf("%s is shown with the image %s, which it got after the snapshot", h.name, host.Spec.Image.URL)
		}
	}
	f.correct()
	f.expectHeld()
	f.compare("before the plan was accepted")
	f.accept()
	f.settle()
	f.compare("after all")
	f.expectNodes()
	if !f.server.Alive() {
		t.Error("the server has ended")
	}
}

// countInLease returns the leader's count, as the Lease has it.
func (f *fleet) countInLease() int64 {
	f.t.Helper()
	lease, err := s.Core.CoordinationV1().Leases(f.ns).Get(f.ctx, "metal3-apiserver", metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	count, err := strconv.ParseInt(lease.Annotations["metal3.io/etcd-count"], 10, 64)
	if err != nil {
		f.t.Fatal(err)
	}
	return count
}
