// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestStopWithWatchesOpen: the server ends after SIGTERM, whoever watches, and begins again.
func TestStopWithWatchesOpen(t *testing.T) {
	testbed.OnSimulator(t, "this is about the server's watches")
	ctx, ns := s.Begin(t)
	for range 3 {
		w, err := bed(ctx).Hosts(ns).Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
	}
	took, err := bed(ctx).Server.Stop()
	if err != nil {
		t.Error(err)
	}
	t.Logf("ended %s after SIGTERM with watches open", took.Round(time.Millisecond))
	if err := bed(ctx).Server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := bed(ctx).Server.WaitAvailable(ctx); err != nil {
		t.Fatal(err)
	}
}

// replica is one of two servers on an external etcd.
type replica struct {
	*testbed.Server
	hosts versioned.Interface
}

// twoReplicas starts two servers with one store and one Lease beside the suite's. The hosts of ctx are those of the first.
func twoReplicas(t *testing.T, parent context.Context, ns string) (ctx context.Context, replicas [2]replica) {
	t.Helper()
	for i := range replicas {
		options := bed(parent).serverOptions()
		options.EtcdServers = s.Kube.EtcdEndpoint
		options.Args = append(options.Args, "--etcd-prefix=/registry/"+ns)
		server, hosts := s.NewServer(t, parent, ns, options)
		if err := server.Start(parent); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Kill() })
		replicas[i] = replica{server, hosts}
	}
	return withHosts(parent, replicas[0].hosts), replicas
}

// withHosts returns a context in which hosts are those of a certain server.
func withHosts(ctx context.Context, hosts versioned.Interface) context.Context {
	own := *bed(ctx)
	own.Metal3 = hosts
	return context.WithValue(ctx, bedKey{}, &own)
}

// TestTwoReplicas: a second server on an external etcd; reads on either are
// fresh, and when the leader dies the other one goes on.
func TestTwoReplicas(t *testing.T) {
	testbed.OnSimulator(t, "this is about the Lease")
	ctx, ns := s.Begin(t)
	ctx, replicas := twoReplicas(t, ctx, ns)
	node, err := bed(ctx).ironic.Operator().CreateNode(ctx, fakeNode(ns, "worker-0", "192.0.2.1"))
	if err != nil {
		t.Fatal(err)
	}
	createSecretOnce(t, ctx, ns, "bmc")
	createHost(t, ctx, ns, "worker-0", "ipmi://192.0.2.1", "bmc", "")
	waitAvailable(t, ctx, ns, "worker-0")
	bed(ctx).PatchHost(t, ctx, ns, "worker-0", `{"metadata":{"annotations":{"baremetalhost.metal3.io/paused":"test"}}}`)
	for round := range 40 {
		want := changeNode(t, ctx, node.UUID, round)
		for i, replica := range replicas {
			host, err := replica.hosts.Metal3V1alpha1().BareMetalHosts(ns).Get(ctx, "worker-0", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if host.Status.Ironic == nil || !equality.Semantic.DeepEqual(withoutParent(host.Status.Ironic), &want) {
				t.Fatalf("round %d: replica %d shows %+v, Ironic says %+v", round, i, host.Status.Ironic, want)
			}
		}
	}
	bed(ctx).PatchHost(t, ctx, ns, "worker-0", `{"metadata":{"annotations":{"baremetalhost.metal3.io/paused":null}}}`)
	leader, other := leaderOf(t, replicas)
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	ctx = withHosts(ctx, other.hosts)
	if err := bed(ctx).Hosts(ns).Delete(ctx, "worker-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitGone(t, ctx, ns, "worker-0")
}

// TestLeaderStopped: after an orderly stop of the leader the other replica goes on. The Lease is free then, so nobody has to
// wait for it to run out.
func TestLeaderStopped(t *testing.T) {
	testbed.OnSimulator(t, "this is about the Lease")
	ctx, ns := s.Begin(t)
	ctx, replicas := twoReplicas(t, ctx, ns)
	fakeHost(t, ctx, ns, "worker-0")
	leader, other := leaderOf(t, replicas)
	if leads(t, other) {
		t.Fatal("both replicas lead")
	}
	ctx = withHosts(ctx, other.hosts)
	holder := func() string {
		leases, err := s.Core.CoordinationV1().Leases(ns).List(ctx, metav1.ListOptions{})
		if err != nil || len(leases.Items) != 1 {
			t.Fatalf("the Leases are %+v, %v", leases, err)
		}
		return ptr.Deref(leases.Items[0].Spec.HolderIdentity, "")
	}
	held := holder()
	stopped, err := leader.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if now := holder(); now == held {
		t.Errorf("%q has ended and still holds the Lease", now)
	}
	ended := time.Now()
	bed(ctx).DeleteHost(t, ctx, ns, "worker-0")
	testbed.Eventually(t, ctx, func() string {
		if !leads(t, other) {
			return "the other replica does not lead"
		}
		return ""
	})
	took := time.Since(ended)
	waitGone(t, ctx, ns, "worker-0")
	t.Logf("the leader ended %s after SIGTERM, the other one led %s after that and had deleted a host after %s",
		stopped.Round(time.Millisecond), took.Round(time.Millisecond), time.Since(ended).Round(time.Millisecond))
}

func leaderOf(t *testing.T, replicas [2]replica) (leader, other replica) {
	t.Helper()
	for i, replica := range replicas {
		if leads(t, replica) {
			return replica, replicas[1-i]
		}
	}
	t.Fatal("none of the two replicas leads")
	return leader, other
}

// leads reports whether a replica was the leader at some time.
func leads(t *testing.T, r replica) bool {
	t.Helper()
	log, err := r.Logs()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(log, "This replica leads")
}

// TestNoPasswordInTheLog is the last look at what the servers wrote.
func TestNoPasswordInTheLog(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	const password = "zebra-crossing" // IPMI takes 20 bytes at most, with what is added below
	b, err := bed(ctx).ironic.StartBMC(ctx, "admin", password)
	if err != nil {
		t.Fatal(err)
	}
	createSecret(t, ctx, ns, "creds", "admin", password)
	createHost(t, ctx, ns, "worker-0", b.Address(), "creds", "")
	waitAvailable(t, ctx, ns, "worker-0")
	createSecret(t, ctx, ns, "wrong", "admin", password+"-wrong")
	createHost(t, ctx, ns, "worker-1", b.Address(), "wrong", "")
	bed(ctx).WaitHost(t, ctx, ns, "worker-1", "fails", func(h *metal3.BareMetalHost) bool { return h.Status.ErrorMessage != "" })
	log, err := bed(ctx).Server.Logs()
	if err != nil {
		t.Fatal(err)
	}
	all := log + kubectl(t, ctx, "", "get", "bmh", "-n", ns, "-o", "yaml") + kubectl(t, ctx, "", "get", "events", "-n", ns, "-o", "yaml")
	if strings.Contains(all, password) {
		t.Error("the password of a BMC is in the log, a host or an event")
	}
}

// TestStartsBeforeTheCluster: without a kube-apiserver the server waits and says
// for what.
func TestStartsBeforeTheCluster(t *testing.T) {
	testbed.OnSimulator(t, "no Ironic is needed")
	t.Parallel()
	ctx, _ := s.Begin(t)
	kube, err := testbed.StartKube(ctx, testbed.KubeOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kube.Stop() }()
	options := bed(ctx).serverOptions()
	options.Kube, options.Dir = kube, t.TempDir()
	server, err := testbed.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.ApplyRBAC(ctx); err != nil {
		t.Fatal(err)
	}
	if err := kube.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
	started := make(chan error, 1)
	go func() { started <- server.Start(ctx) }()
	defer func() { _ = server.Kill() }()
	testbed.Eventually(t, ctx, func() string {
		if log, err := server.Logs(); err != nil || !strings.Contains(log, "Waiting for the cluster") {
			return fmt.Sprintf("the server does not say that it waits: %v %s", err, log)
		}
		return ""
	})
	if err := kube.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-started; err != nil {
		t.Fatal(err)
	}
}
