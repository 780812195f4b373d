// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// The flood of TestFairness: more requests at a time than a server with smallLimits works on, from as
// many users as anybody can be who may create service accounts in a namespace.
const (
	floodUsers       = 64
	floodPerUser     = 2
	readsOfTheVictim = 20
)

var smallLimits = []string{"--max-requests-inflight=8", "--max-mutating-requests-inflight=4"}

// TestFairness: with the flow control of the manifests, the many users of one namespace together get
// no more of a server than the single user of another one. (Without it, each user gets the same, so
// that the victim's requests take as long as those of the flood.) This holds in kube-apiserver and, for
// what it passes on, in our server.
func TestFairness(t *testing.T) {
	attack(t, "64 users of one namespace", "slow the reads of another namespace by a flood")
	t.Parallel()
	ctx, a := s.Begin(t)
	b := makeNamespace(t, ctx, "victim-")
	applyFlowControl(t, ctx)

	// What was served while a request waited is told by the servers themselves: this process, which has all the clients, may be
	// slow to notice.
	logs := map[string]string{}
	for _, server := range []string{"kube-apiserver", "our server"} {
		logs[server] = filepath.Join(t.TempDir(), "audit.log")
	}
	policy := filepath.Join(t.TempDir(), "policy.json")
	if err := os.WriteFile(policy, []byte(everyAnswer), 0o600); err != nil {
		t.Fatal(err)
	}
	limitsOf := func(server string) []string {
		return append([]string{"--audit-policy-file=" + policy, "--audit-log-path=" + logs[server]}, smallLimits...)
	}
	kube, stop, err := s.Kube.StartSecondAPIServer(ctx, limitsOf("kube-apiserver")...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	own, _ := s.NewServer(t, ctx, a, testbed.ServerOptions{
		IronicEndpoint: s.ironic.server.URL,
		Args:           append([]string{"--ironic-username-file=" + s.file("username"), "--ironic-password-file=" + s.file("password")}, limitsOf("our server")...),
	})
	if err := own.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := own.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, ns := range []string{a, b} {
		grant(t, ctx, ns, person{name: "user-of-" + ns, role: "edit"})
		grantGroup(t, ctx, ns, "users-of-"+ns, "edit")
	}
	// Who connects to our server directly is nobody's tenant.
	level, err := s.Core.FlowcontrolV1().PriorityLevelConfigurations().Get(ctx, "metal3-direct", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, func() string {
		got, err := levelOf(ctx, newClient(t, own.Direct.Config, user(t, "user-of-"+a)), groupVersion+"/namespaces/"+b+"/baremetalhosts")
		if err != nil || got != string(level.UID) {
			return fmt.Sprintf("a direct connection: priority level %q, want %s: %v", got, level.UID, err)
		}
		return ""
	})
	for name, as := range map[string]userClients{
		"kube-apiserver": func(t *testing.T, name string, groups ...string) *client {
			return newClient(t, kube.Config, user(t, name, groups...))
		},
		"our server": func(t *testing.T, name string, groups ...string) *client {
			return newClient(t, own.Direct.Config, issue(t, s.Kube.FrontProxyAuthority().Issue, "front-proxy-client")).
				with("X-Remote-User", name).with("X-Remote-Group", append(groups, "system:authenticated")...)
		},
	} {
		t.Run(name, func(t *testing.T) { testFairness(t, ctx, as, logs[name], a, b) })
	}
}

// userClients returns the client of a user.
type userClients func(t *testing.T, name string, groups ...string) *client

func testFairness(t *testing.T, ctx context.Context, as userClients, log, a, b string) {
	hostsOf := func(ns string) string { return groupVersion + "/namespaces/" + ns + "/baremetalhosts" }
	victim := as(t, "user-of-"+b)
	level, err := s.Core.FlowcontrolV1().PriorityLevelConfigurations().Get(ctx, "metal3", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, func() string {
		got, err := levelOf(ctx, victim, hostsOf(b))
		if err != nil || got != string(level.UID) {
			return fmt.Sprintf("priority level %q, want %s: %v", got, level.UID, err)
		}
		return ""
	})

	flood, stop := context.WithCancel(ctx)
	defer stop()
	var attackers sync.WaitGroup
	defer attackers.Wait()
	defer stop()
	var served atomic.Int64 // requests of the flood
	for i := range floodUsers {
		attacker := as(t, fmt.Sprintf("%s-%d", a, i), "users-of-"+a)
		for range floodPerUser {
			attackers.Go(func() {
				for flood.Err() == nil {
					if got, err := attacker.do(flood, http.MethodGet, hostsOf(a), "", ""); err == nil && got.code == http.StatusOK {
						served.Add(1)
					}
				}
			})
		}
	}
	const atOnce = floodUsers * floodPerUser
	eventually(t, ctx, func() string { // until all of them are at it
		if n := served.Load(); n < 2*atOnce {
			return fmt.Sprintf("%d requests of the flood were served", n)
		}
		return ""
	})
	// In its turn among all of them, a request would wait for as many as there are at once.
	began := time.Now()
	for range readsOfTheVictim {
		if got := victim.get(t, ctx, hostsOf(b)); got.code != http.StatusOK {
			t.Errorf("the other tenant: %d %.300s", got.code, got.body)
		}
	}
	waited := servedMeanwhile(t, log, began, "user-of-"+b, a)
	t.Logf("%d reads of the other tenant waited for %d requests of the flood", readsOfTheVictim, waited)
	if waited > readsOfTheVictim*atOnce/3 {
		t.Errorf("%d reads of the other tenant waited for %d requests of a flood of %d at once: want a third of a round for each at most", readsOfTheVictim, waited, atOnce)
	}
}

// everyAnswer has a server log when each request was received and answered.
const everyAnswer = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived","ResponseStarted"],"rules":[{"level":"Metadata"}]}`

// servedMeanwhile returns how many requests about the namespace of the flood a server has answered while it had those of a user that it
// received since a time, according to its audit log.
func servedMeanwhile(t *testing.T, log string, since time.Time, user, flood string) (served int) {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var reads, others []auditv1.Event
	for line := range strings.Lines(string(text)) {
		var event auditv1.Event
		switch err := json.Unmarshal([]byte(line), &event); {
		case err != nil: // it is being written
		case event.User.Username == user && event.RequestReceivedTimestamp.After(since):
			reads = append(reads, event)
		case event.ObjectRef != nil && event.ObjectRef.Namespace == flood:
			others = append(others, event)
		}
	}
	if len(reads) < readsOfTheVictim {
		t.Fatalf("%d reads in the audit log of the server, want %d", len(reads), readsOfTheVictim)
	}
	for _, read := range reads {
		for _, other := range others {
			if other.StageTimestamp.After(read.RequestReceivedTimestamp.Time) && other.StageTimestamp.Time.Before(read.StageTimestamp.Time) {
				served++
			}
		}
	}
	return served
}

// TestOwnPriority: the server's own requests, on which all hosts depend, do not compete with those
// of users.
func TestOwnPriority(t *testing.T) {
	attack(t, "all users", "starve the server's own requests")
	t.Parallel()
	ctx, ns := s.Begin(t)
	applyFlowControl(t, ctx)
	c := throughKube(t, user(t, serviceAccount, ownGroups...))
	for path, level := range map[string]string{
		"/api/v1/namespaces/" + ns + "/secrets":                                                           "workload-high",
		"/apis/coordination.k8s.io/v1/namespaces/" + testbed.Namespace + "/leases/" + testbed.ServiceName: "leader-election",
	} {
		want, err := s.Core.FlowcontrolV1().PriorityLevelConfigurations().Get(ctx, level, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, ctx, func() string {
			got, err := levelOf(ctx, c, path)
			if err != nil || got != string(want.UID) {
				return fmt.Sprintf("%s: priority level %q, want %s: %v", path, got, level, err)
			}
			return ""
		})
	}
}

// applyFlowControl applies the manifests that are about flow control.
func applyFlowControl(t *testing.T, ctx context.Context) {
	t.Helper()
	repo, err := testbed.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"apply"}
	for _, kind := range []string{"prioritylevelconfiguration", "flowschema"} {
		paths, err := filepath.Glob(filepath.Join(repo, "artifacts/apiservice/base", kind+"*.yaml"))
		if err != nil || len(paths) == 0 {
			t.Fatal("no manifests of the kind ", kind, ": ", err)
		}
		for _, path := range paths {
			args = append(args, "-f", path)
		}
	}
	if _, stderr, err := s.Kube.Kubectl(ctx, "", args...); err != nil {
		t.Fatal(err, stderr)
	}
}

// levelOf returns the UID of the priority level that served a request.
func levelOf(ctx context.Context, c *client, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server+path, nil)
	if err != nil {
		return "", err
	}
	request.Header = c.header.Clone()
	response, err := c.http.Do(request)
	if err != nil {
		return "", err
	}
	_ = response.Body.Close()
	return response.Header.Get("X-Kubernetes-Pf-Prioritylevel-Uid"), nil
}
