package security

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestFairness: with the flow control of the manifests, the requests of one namespace, by however
// many users, leave room for another namespace and for the leader.
func TestFairness(t *testing.T) {
	t.Parallel()
	ctx, a := s.Begin(t)
	b := makeNamespace(t, ctx, "other-")
	applyFlowControl(t, ctx)
	flows := s.Core.FlowcontrolV1()
	level, err := flows.PriorityLevelConfigurations().Get(ctx, "metal3", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tenant := func(ns, name string) *client {
		grant(t, ctx, ns, person{name: ns + "-" + name, what: name, role: "edit"})
		return throughKube(t, user(t, ns+"-"+name))
	}
	own := tenant(b, "victim")
	hostsOf := func(ns string) string { return groupVersion + "/namespaces/" + ns + "/baremetalhosts" }
	for what, server := range map[string]string{"kube-apiserver": own.server, "our server": s.Server.Direct.Config.Host} {
		eventually(t, ctx, func() string {
			got, err := levelOf(ctx, &client{server: server, http: own.http, header: own.header}, hostsOf(b))
			if err != nil || got != string(level.UID) {
				return fmt.Sprintf("%s: priority level %q, want %s: %v", what, got, level.UID, err)
			}
			return ""
		})
	}

	flood, stop := context.WithCancel(ctx)
	defer stop()
	var attackers sync.WaitGroup
	for i := range 8 {
		attacker := tenant(a, fmt.Sprint("attacker-", i))
		for range 16 {
			attackers.Go(func() {
				for flood.Err() == nil {
					_, _ = attacker.do(flood, http.MethodGet, hostsOf(a), "", "") // many are answered 429
				}
			})
		}
	}
	const password = "password"
	createSecret(t, ctx, b, "bmc", map[string]string{"username": "admin", "password": password})
	createHost(t, ctx, b, "x", s.sim.NewBMC("admin", password), "bmc")
	waitHost(t, ctx, b, "x", "available", isAvailable)
	slowest := time.Duration(0)
	for range 20 {
		began := time.Now()
		if got := own.get(t, ctx, hostsOf(b)+"/x"); got.code != http.StatusOK {
			t.Errorf("the other tenant: %d %.300s", got.code, got.body)
		}
		slowest = max(slowest, time.Since(began))
	}
	stop()
	attackers.Wait()
	t.Logf("the slowest of 20 reads of the other tenant took %s", slowest)
	if slowest > 5*time.Second {
		t.Errorf("a read of the other tenant took %s", slowest)
	}
}

// applyFlowControl applies the manifests that are about flow control.
func applyFlowControl(t *testing.T, ctx context.Context) {
	t.Helper()
	repo, err := testbed.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"apply", "-f", filepath.Join(repo, "artifacts/apiservice/base/prioritylevelconfiguration.yaml")}
	schemas, err := filepath.Glob(filepath.Join(repo, "artifacts/apiservice/base/flowschema-*.yaml"))
	if err != nil || len(schemas) == 0 {
		t.Fatal("no FlowSchemas: ", err)
	}
	for _, path := range schemas {
		args = append(args, "-f", path)
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
	response, err := c.http.Do(request)
	if err != nil {
		return "", err
	}
	_ = response.Body.Close()
	return response.Header.Get("X-Kubernetes-Pf-Prioritylevel-Uid"), nil
}
