// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestSuspended suspends the server that leads, as a hypervisor does that migrates or pauses its
// machine, at random moments of the lives of its hosts. Another replica leads when the Lease has
// run out. Then the first one goes on where it was: perhaps between what it has read of a host and
// the request to Ironic that it has decided on, which must not be sent any more. The account of the
// machines is that of TestKilled.
func TestSuspended(t *testing.T) {
	if !testbed.IsSimulated() {
		t.Skip("which requests a server sends after it was suspended does not depend on the Ironic")
	}
	inParallel(t)
	suspensions, seed := fromEnv(t, "SUSPENSIONS", 5), fromEnv(t, "SEED", 1)
	t.Logf("%d suspensions, SEED=%d", suspensions, seed)
	random := rand.New(rand.NewPCG(uint64(seed), 1))
	ctx, cancel := context.WithTimeout(t.Context(), 6*testbed.Patience+time.Duration(suspensions)*time.Minute)
	defer cancel()
	b := newIronicBed(t, ctx)
	options := testbed.ServerOptions{EtcdServers: s.Kube.EtcdEndpoint, Args: append([]string{"--etcd-prefix=/registry/" + b.ns}, lease...)}
	var replicas [2]*testbed.Server
	for i := range replicas {
		replicas[i], b.client = b.newServer(options)
		if err := replicas[i].Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	b.hosts = b.client.Metal3V1alpha1().BareMetalHosts(b.ns) // requests to a suspended server wait until it goes on

	lives := b.beginLives(manyHosts(t))
	for range suspensions {
		if !waitFor(ctx, time.Duration(random.IntN(2500))*time.Millisecond) {
			break
		}
		leader := b.leader(replicas[0], replicas[1])
		if err := syscall.Kill(leader.PID(), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		other := replicas[0]
		if leader == other {
			other = replicas[1]
		}
		b.leader(other)
		waitFor(ctx, time.Duration(random.IntN(2500))*time.Millisecond) // the other one acts
		if err := syscall.Kill(leader.PID(), syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	ended, steps := lives.end()
	t.Logf("%d lives with %d steps were interrupted by %d suspensions", ended, steps, suspensions)
}

// leader waits until one of the servers leads, and returns it.
func (b *bed) leader(servers ...*testbed.Server) (leader *testbed.Server) {
	b.t.Helper()
	err := wait.PollUntilContextTimeout(b.ctx, 100*time.Millisecond, testbed.Patience, true, func(ctx context.Context) (bool, error) {
		leases, err := s.Core.CoordinationV1().Leases(b.ns).List(ctx, metav1.ListOptions{})
		if err != nil || len(leases.Items) == 0 || ptr.Deref(leases.Items[0].Spec.HolderIdentity, "") == "" {
			return false, err
		}
		for _, server := range servers {
			log, err := server.Logs()
			if err != nil {
				return false, err
			}
			if strings.Contains(log, fmt.Sprintf("This replica leads\" identity=%q", *leases.Items[0].Spec.HolderIdentity)) {
				leader = server
			}
		}
		return leader != nil, nil
	})
	if err != nil {
		b.t.Fatalf("no server leads: %v", err)
	}
	return leader
}
