// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

const (
	floodRounds             = 3
	floodNamespacesPerRound = 500
	floodWorkers            = 8
	readsPerRound           = 25
	// maxKeptPerNamespace is what may remain in memory for a namespace whose objects are gone, in
	// bytes: the namespace itself in the cache of an admission plugin, and permissions, of which the
	// last 8192 are remembered.
	maxKeptPerNamespace = 12 << 10
)

// TestThousandsOfNamespaces: a tenant who may create namespaces creates, reads and deletes hosts in
// hundreds of them, three times. The reads of another tenant stay live and do not wait for his
// requests, and after that, little more than the namespaces themselves remains in memory.
//
// It runs alone: it looks at the memory of the server.
func TestThousandsOfNamespaces(t *testing.T) {
	attack(t, "create namespaces, write hosts in them", "slow others' reads, fill memory")
	simulator(t)
	ctx, victims := s.Begin(t)
	server, clientset := s.NewServer(t, ctx, victims, testbed.ServerOptions{
		IronicEndpoint: s.ironic.server.URL,
		Args: append([]string{
			"--ironic-username-file=" + s.file("username"), "--ironic-password-file=" + s.file("password"),
			"--watch-cache=false", // it keeps everything for 75 s, which would hide what is kept for ever
		}, testbed.UnusedRamdiskArgs...),
	})
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	// As kube-apiserver passes on what these users request: its permissions are remembered, too.
	proxied := func(name string) *client {
		return newClient(t, server.Direct.Config, issue(t, s.Kube.FrontProxyAuthority().Issue, "front-proxy-client")).
			with("X-Remote-User", name).with("X-Remote-Group", "system:authenticated")
	}
	admin := newClient(t, server.Direct.Config, user(t, "admin", "system:masters"))

	s.CreateSecret(t, ctx, victims, "bmc", map[string]string{"username": "admin", "password": "theirs"})
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: metal3.BareMetalHostSpec{
		BMC: metal3.BMCDetails{Address: simulator(t).NewBMC("admin", "theirs"), CredentialsName: "bmc"}, BootMACAddress: testbed.NewMAC(),
	}}
	hostsOfVictim := clientset.Metal3V1alpha1().BareMetalHosts(victims)
	if _, err := hostsOfVictim.Create(ctx, host, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, func() (problem string) {
		var err error
		if host, err = hostsOfVictim.Get(ctx, "x", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		if !isAvailable(host) { // it is to be off: switching it on would end the news of the node
			return fmt.Sprintf("not available yet: %+v", host.Status)
		}
		return ""
	})
	grant(t, ctx, victims, person{name: "flooded", role: "view"})
	victim := proxied("flooded")
	tenant := "flooding-" + victims
	makeOwnerOfAll(t, ctx, tenant)
	attacker := proxied(tenant)

	var heap [floodRounds + 1]int64
	heap[0] = heapOf(t, ctx, admin)
	for round := range floodRounds {
		var next atomic.Int64
		readNow := make(chan struct{}, readsPerRound)
		var workers sync.WaitGroup
		var used atomic.Int64 // namespaces
		for range floodWorkers {
			workers.Go(func() {
				for i := next.Add(1); i <= floodNamespacesPerRound && ctx.Err() == nil; i = next.Add(1) {
					if err := useNamespace(ctx, attacker, fmt.Sprintf("%s-%d-%d", tenant, round, i)); err != nil {
						t.Error(err)
						return
					}
					used.Add(1)
					if i%(floodNamespacesPerRound/readsPerRound) == 0 {
						readNow <- struct{}{}
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { defer close(done); workers.Wait(); close(readNow) }()
		// Each of the workers uses one namespace meanwhile if a read takes as long as the four requests for that.
		reads, waited := int64(0), int64(0)
		for range readNow {
			before := used.Load()
			readNews(t, ctx, victim, victims, host.Status.Provisioning.ID)
			reads, waited = reads+1, waited+used.Load()-before
		}
		<-done
		t.Logf("round %d: during %d reads of the other tenant, the flood used %d namespaces", round, reads, waited)
		if waited > reads*floodWorkers {
			t.Errorf("during %d reads of the other tenant, the flood of %d at once used %d namespaces", reads, floodWorkers, waited)
		}
		eventually(t, ctx, func() string { // the controller removes the finalizers of the hosts
			if left := admin.get(t, ctx, groupVersion+"/baremetalhosts?limit=2"); strings.Contains(left.body, `"name":"flood"`) {
				return "there are hosts of the flood left"
			}
			return ""
		})
		heap[round+1] = heapOf(t, ctx, admin)
	}
	t.Logf("in memory, before and after each round of %d namespaces: %v bytes", floodNamespacesPerRound, heap)
	if kept := (heap[floodRounds] - heap[1]) / (floodNamespacesPerRound * (floodRounds - 1)); kept > maxKeptPerNamespace {
		t.Errorf("after the first round, %d bytes remain in memory for each namespace, want at most %d", kept, maxKeptPerNamespace)
	}
}

// makeOwnerOfAll makes a user the owner of all namespaces, as somebody is who creates them.
func makeOwnerOfAll(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	if _, err := s.Core.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// useNamespace creates a namespace, creates, reads and deletes a host in it, and reads one that does
// not exist.
func useNamespace(ctx context.Context, c *client, ns string) (err error) {
	if _, err := s.Core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	in := groupVersion + "/namespaces/" + ns
	do := func(method, path, body string, want ...int) {
		if err != nil {
			return
		}
		contentType := ""
		if body != "" {
			contentType = "application/json"
		}
		var got answer
		if got, err = c.do(ctx, method, in+path, contentType, body); err != nil {
			return
		}
		if slices.Contains(want, got.code) {
			return
		}
		err = fmt.Errorf("%s %s: %d %.300s", method, in+path, got.code, got.body)
	}
	do(http.MethodPost, "/baremetalhosts", `{"metadata":{"name":"flood"},"spec":{"online":false}}`, http.StatusCreated)
	do(http.MethodGet, "/baremetalhosts/flood", "", http.StatusOK)
	do(http.MethodGet, "/baremetalhosts/missing", "", http.StatusNotFound)
	do(http.MethodDelete, "/baremetalhosts/flood", "", http.StatusOK, http.StatusAccepted)
	return err
}

// readNews reads the host x after Ironic has said something new about its node.
func readNews(t *testing.T, ctx context.Context, c *client, ns, node string) {
	t.Helper()
	news := fmt.Sprint("news at ", time.Now().UnixNano())
	if err := simulator(t).SetNode(node, map[string]any{"last_error": news}); err != nil {
		t.Fatal(err)
	}
	got := c.get(t, ctx, groupVersion+"/namespaces/"+ns+"/baremetalhosts/x")
	if got.code != http.StatusOK || !strings.Contains(got.body, news) {
		t.Errorf("a read is not live: %d %.1000s, want %s", got.code, got.body, news)
	}
}

// heapOf returns how many bytes are in use in a server's heap after a garbage collection.
func heapOf(t *testing.T, ctx context.Context, admin *client) int64 {
	t.Helper()
	if got := admin.get(t, ctx, "/debug/pprof/heap?gc=1&debug=1"); got.code != http.StatusOK {
		t.Fatalf("%d %.300s", got.code, got.body)
	}
	return int64(metricOf(t, ctx, admin, "go_memstats_heap_alloc_bytes"))
}

// metricOf returns the value of a metric without labels.
func metricOf(t *testing.T, ctx context.Context, admin *client, name string) float64 {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(admin.get(t, ctx, "/metrics").body)
	if found == nil {
		t.Fatal(name, " is not among the metrics")
	}
	value, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
