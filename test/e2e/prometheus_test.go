// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestPrometheus has a Prometheus scrape the server as a service account with nothing but the
// ClusterRole of artifacts/monitoring. Every metric in docs/reference/metrics.md and docs/monitoring.md is there, an alert fires,
// and Prometheus understands every query of the dashboard. (That the alerts and the dashboard use no
// other metrics is tested in artifacts.)
func TestPrometheus(t *testing.T) {
	if s.ironic.Name() != "simulated" {
		t.Skip("the kind of Ironic makes no difference")
	}
	ctx, ns := s.Begin(t)
	repo, err := testbed.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) string {
		t.Helper()
		content, err := os.ReadFile(filepath.Join(repo, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}

	// The service account.
	kubectl(t, ctx, "", "apply", "-f", filepath.Join(repo, "artifacts/monitoring/clusterrole.yaml"))
	account, err := s.Core.CoreV1().ServiceAccounts(ns).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "prometheus"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Core.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "metal3-apiserver-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: account.Name}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := s.Core.CoreV1().ServiceAccounts(ns).CreateToken(ctx, account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	// The alerts fire at once, and not only after the time that promtool checks.
	var rule struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := yaml.Unmarshal([]byte(regexp.MustCompile(`(?m)^ +for: .*\n`).ReplaceAllString(read("artifacts/monitoring/prometheusrule.yaml"), "")), &rule); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rules := filepath.Join(dir, "alerts.json") // JSON is YAML
	if err := os.WriteFile(rules, rule.Spec, 0o600); err != nil {
		t.Fatal(err)
	}
	prometheus, err := testbed.StartPrometheus(ctx, dir, bed(ctx).Server, token.Status.Token, rules)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := prometheus.Stop(); err != nil {
			t.Error(err)
		}
	})

	// Some history: a watch, a host that becomes available, one with an error, and an outage of Ironic.
	watch, err := bed(ctx).Hosts(ns).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	fakeHost(t, ctx, ns, "worker-0")
	b := startBMC(t, ctx)
	createSecret(t, ctx, ns, "wrong", "admin", "not-the-password")
	createHost(t, ctx, ns, "worker-1", b.Address(), "wrong", "")
	bed(ctx).WaitHost(t, ctx, ns, "worker-1", "fails", func(h *metal3.BareMetalHost) bool { return h.Status.ErrorMessage != "" })
	if err := bed(ctx).ironic.Stop(); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, ctx, func() string {
		if !strings.Contains(metrics(t, ctx), "\nmetal3_ironic_request_errors_total{") {
			return "no request to Ironic has failed"
		}
		return ""
	})
	if err := bed(ctx).ironic.Start(ctx); err != nil {
		t.Fatal(err)
	}

	finds := func(query string) func() string {
		return func() string {
			found, err := prometheus.Query(ctx, query)
			if err != nil {
				t.Fatal(err)
			}
			if len(found) == 0 {
				return "no result: " + query
			}
			return ""
		}
	}
	testbed.Eventually(t, ctx, finds(`up{job="metal3-apiserver"} == 1`))
	testbed.Eventually(t, ctx, finds(`ALERTS{alertname="Metal3HostsInError", alertstate="firing", error_type="registration error", namespace="metal3-system"}`))
	others, _, _ := strings.Cut(read("docs/monitoring.md"), "### Metrics of the Bare Metal Operator")
	documented := regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| ").FindAllStringSubmatch(read("docs/reference/metrics.md")+others, -1)
	if len(documented) < 20 {
		t.Errorf("docs/reference/metrics.md lists only %d metrics", len(documented))
	}
	for _, row := range documented {
		// A histogram is there as NAME_bucket and so on.
		testbed.Eventually(t, ctx, finds(`count ({__name__=~"`+row[1]+`(_count)?", namespace="metal3-system"})`))
	}
	var dashboard struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal([]byte(read("artifacts/monitoring/dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$namespace", ".*", "$__rate_interval", "1m")
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			if _, err := prometheus.Query(ctx, variables.Replace(target.Expr)); err != nil {
				t.Errorf("%s: %v", panel.Title, err)
			}
		}
	}
}
