// SPDX-License-Identifier: Apache-2.0

package security

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// paths are what a generic server serves beside resources, or might. The last ones
// are kube-apiserver's and the kubelet's: they must not appear here unnoticed.
var paths = []string{
	"GET /healthz", "GET /livez", "GET /livez?verbose", "GET /readyz", "GET /readyz?verbose", "GET /readyz/etcd",
	"GET /version", "GET /", "GET /apis", "GET " + groupVersion, "GET /openapi/v2", "GET /openapi/v3", "GET /openapi/v3/apis/metal3.io/v1alpha1",
	"GET /metrics", "GET /metrics/slis", "GET /statusz", "GET /flagz", "GET /configz",
	"GET /debug/pprof", "GET /debug/pprof/", "GET /debug/pprof/cmdline", "GET /debug/pprof/heap", "GET /debug/pprof/goroutine?debug=2",
	"GET /debug/pprof/profile?seconds=1", "GET /debug/pprof/symbol", "GET /debug/pprof/trace?seconds=1",
	"PUT /debug/flags/v", "GET /debug/api_priority_and_fairness/dump_priority_levels", "GET /debug/api_priority_and_fairness/dump_requests?includeRequestDetails=1",
	"GET /logs", "GET /logs/", "GET /debug/vars", "GET /api", "GET /api/v1/secrets", "GET /swagger.json", "GET /validate/v1/resourcequotas",
	"GET /../metrics", "GET //metrics", "GET /healthz/../metrics",
}

// TestPaths: what our port serves beside resources, and to whom.
// testdata/paths.txt has the answers.
func TestPaths(t *testing.T) {
	attack(t, "each role and none", "each path of the port other than resources")
	t.Parallel()
	ctx, ns := s.Begin(t)
	users := slices.DeleteFunc(people(), func(p person) bool { return p.rule != nil || p.role == "edit" || p.role == "admin" })
	var mu sync.Mutex
	answers := map[string]map[string][]string{} // path, answer: users
	var wg sync.WaitGroup
	for _, p := range users {
		if p.role != "" {
			p.name += "-of-paths"
			grant(t, ctx, ns, p)
		}
		c := direct(t)
		switch p.name {
		case "":
			p.name = "nobody"
		case "master":
			c = direct(t, user(t, p.name, "system:masters"))
		case serviceAccount:
			p.name = "server"
			c = direct(t, user(t, serviceAccount, ownGroups...))
		default:
			c = direct(t, user(t, p.name))
			p.name, _, _ = strings.Cut(p.name, "-")
		}
		c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		wg.Go(func() {
			for _, path := range paths {
				method, url, _ := strings.Cut(path, " ")
				body := ""
				if method == http.MethodPut {
					body = "10"
				}
				got, err := c.do(ctx, method, url, "", body)
				if err != nil {
					t.Errorf("%s: %v", path, err)
					continue
				}
				mu.Lock()
				if answers[path] == nil {
					answers[path] = map[string][]string{}
				}
				code := fmt.Sprint(got.code)
				answers[path][code] = append(answers[path][code], p.name)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	var text strings.Builder
	text.WriteString("# What the port of the server answers beside resources, and to whom.\n# Written by: go test ./test/security -run TestPaths -update\n\n")
	for _, path := range paths {
		fmt.Fprintf(&text, "%s\n", path)
		for _, code := range slices.Sorted(maps.Keys(answers[path])) {
			who := strings.Join(slices.Sorted(slices.Values(answers[path][code])), ", ")
			if len(answers[path]) == 1 {
				who = "all"
			}
			fmt.Fprintf(&text, "  %s: %s\n", code, who)
		}
	}
	golden(t, "testdata/paths.txt", text.String())
}
