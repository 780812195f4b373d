// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// TestRightToNamedHosts: who may read some hosts by name may read no other one, however the
// server is reached, and also after those reads have been allowed.
func TestRightToNamedHosts(t *testing.T) {
	attack(t, "get on one host by name", "read another host")
	t.Parallel()
	ctx, ns := s.Begin(t)
	for _, name := range []string{"his", "other"} {
		createHost(t, ctx, ns, name, "", "")
	}
	grant(t, ctx, ns, hostReader("nora", "his"))
	proxy := direct(t, issue(t, s.Kube.FrontProxyAuthority().Issue, "front-proxy-client"))
	for way, c := range map[string]*client{
		"through kube-apiserver": throughKube(t, user(t, "nora")),
		"direct":                 direct(t, user(t, "nora")),
		// What this server decides by itself: here kube-apiserver has not been asked before.
		"as the front proxy": proxy.with("X-Remote-User", "nora").with("X-Remote-Group", "system:authenticated"),
	} {
		t.Run(way, func(t *testing.T) {
			for range 2 {
				if got := c.get(t, ctx, hostPath(ns, "his")); got.code != http.StatusOK {
					t.Errorf("the named host: %d %s", got.code, got.body)
				}
				got := c.get(t, ctx, hostPath(ns, "other"))
				if want := fmt.Sprintf(`User "nora" cannot get resource "baremetalhosts" in API group "metal3.io" in the namespace "%s"`, ns); got.code != http.StatusForbidden || !strings.Contains(unquoted(got.body), want) {
					t.Errorf("another host: %d %s\nwant 403 with %s", got.code, got.body, want)
				}
			}
		})
	}
}

// TestRightToReadEnds: a right to read hosts that is taken away ends within the 10 s for which
// this server remembers reviews, on each way to it.
func TestRightToReadEnds(t *testing.T) {
	attack(t, "get on hosts, taken away", "read on")
	t.Parallel()
	ctx, ns := s.Begin(t)
	createHost(t, ctx, ns, "x", "", "")
	grant(t, ctx, ns, hostReader("ralf"))
	proxied := direct(t, issue(t, s.Kube.FrontProxyAuthority().Issue, "front-proxy-client")).
		with("X-Remote-User", "ralf").with("X-Remote-Group", "system:authenticated")
	ways := map[string]*client{
		"through kube-apiserver": throughKube(t, user(t, "ralf")), "direct": direct(t, user(t, "ralf")), "as the front proxy": proxied,
	}
	for way, c := range ways {
		if got := c.get(t, ctx, hostPath(ns, "x")); got.code != http.StatusOK {
			t.Fatalf("%s: %d %s", way, got.code, got.body)
		}
	}
	if err := s.Core.RbacV1().RoleBindings(ns).Delete(ctx, "ralf", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// The reviews are remembered for a while, and kube-apiserver's own informer takes a moment more.
	ctx, cancel := context.WithTimeout(ctx, testbed.Patience)
	defer cancel()
	for way, c := range ways {
		err := wait.PollUntilContextCancel(ctx, 250*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			got, err := c.do(ctx, http.MethodGet, hostPath(ns, "x"), "", "")
			return got.code == http.StatusForbidden, err
		})
		if err != nil {
			t.Errorf("%s: the right has not ended within the time: %v", way, err)
		}
	}
}

func hostPath(ns, name string) string {
	return groupVersion + "/namespaces/" + ns + "/baremetalhosts/" + name
}

// hostReader is a user who may get hosts: all of them, or those that are named.
func hostReader(name string, hosts ...string) person {
	return person{name: name, what: name, rule: &rbacv1.PolicyRule{
		APIGroups: []string{"metal3.io"}, Resources: []string{"baremetalhosts"}, Verbs: []string{"get"}, ResourceNames: hosts,
	}}
}
