// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ironic "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
)

// verbs in the order in which they are written down.
var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// TestMatrix requests each verb on each resource and subresource that discovery
// tells of, as each user, in the namespace where he has rights, in another one and
// in all at once; through kube-apiserver, which authorizes for itself, and directly,
// where we do. All writes are dry runs. testdata/matrix.txt says what is allowed.
func TestMatrix(t *testing.T) {
	attack(t, "each role of the manifests and the cluster", "each verb on each resource and subresource")
	t.Parallel()
	ctx, a := s.Begin(t)
	b := makeNamespace(t, ctx, "other-")
	users := makeUsers(t, ctx, a, roleHolders()...)
	resources := discover(t, ctx)
	places := []place{{"in his namespace", a}, {"in another namespace", b}, {"in all namespaces", ""}}
	for _, ns := range []string{a, b} {
		createHost(t, ctx, ns, "x", "", "")
	}
	var texts [2]string
	var requests atomic.Int64
	for i, way := range []func(*testing.T, ...tls.Certificate) *client{throughKube, direct} {
		var text strings.Builder
		results := make([][]map[string][]string, len(users))
		var wg sync.WaitGroup
		for i, p := range users {
			results[i] = make([]map[string][]string, len(places))
			wg.Go(func() {
				c := p.on(t, way)
				for j, where := range places {
					results[i][j] = allowed(t, ctx, c, where, resources, &requests)
				}
			})
		}
		wg.Wait()
		for i, p := range users {
			fmt.Fprintf(&text, "%s\n", p.what)
			for j, where := range places {
				write(&text, where.what, results[i][j], resources)
			}
		}
		texts[i] = text.String()
	}
	t.Logf("%d requests, as %d users, on %d resources in %d places, in 2 ways; what was allowed:\n%s", requests.Load(), len(users), len(resources), len(places), texts[1])
	if diff := cmp.Diff(texts[0], texts[1]); diff != "" {
		t.Errorf("kube-apiserver (-) and our server (+) allow different things:\n%s", diff)
	}
	golden(t, "testdata/matrix.txt", matrixHead+texts[1])
}

// TestEveryRoleIsTried checks that the matrix has somebody with each role of the cluster that is
// about these resources, so that it shows all that the manifests grant.
func TestEveryRoleIsTried(t *testing.T) {
	attack(t, "each role of the cluster", "be left out of the matrix")
	t.Parallel()
	ctx, _ := s.Begin(t)
	tried := map[string]bool{
		// The roles that aggregate ours; cluster-admin is that of the group system:masters.
		"cluster-admin": true,
	}
	for _, p := range append(people(), roleHolders()...) {
		tried[p.role] = true
	}
	roles, err := s.Core.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range roles.Items {
		about := slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
			return slices.Contains(rule.APIGroups, "metal3.io") || slices.Contains(rule.APIGroups, "*")
		})
		controller := strings.HasPrefix(role.Name, "system:") // the cluster's own, for all kinds
		if about && !controller && !tried[role.Name] {
			t.Errorf("ClusterRole %s grants permissions on %v, and nobody in the matrix has it", role.Name, groups())
		}
	}
}

const matrixHead = `# Who may do what with metal3.io/v1alpha1 and ironic.metal3-apiserver.io/v1alpha1 (candidates, ironicinstances):
# each line was requested, not only asked for.
# "Every kind" are all resources of metal3.io that are in a namespace, "every status" their status subresources.
# Written by: go test ./test/security -run TestMatrix -update

`

type place struct{ what, namespace string }

// groupVersions are those that our server serves.
var groupVersions = []string{groupVersion, "/apis/" + ironic.GroupName + "/v1alpha1"}

// groups are those of the groupVersions.
func groups() (all []string) {
	for _, served := range groupVersions {
		all = append(all, strings.Split(served, "/")[2])
	}
	return all
}

// discover returns what is served, by resource or resource/subresource. Each has its group and version.
func discover(t *testing.T, ctx context.Context) []metav1.APIResource {
	t.Helper()
	admin := throughKube(t, user(t, "admin", "system:masters"))
	var all []metav1.APIResource
	for _, served := range groupVersions {
		var list metav1.APIResourceList
		got := admin.get(t, ctx, served)
		if err := json.Unmarshal([]byte(got.body), &list); err != nil || len(list.APIResources) == 0 {
			t.Fatalf("discovery of %s: %d %s", served, got.code, got.body)
		}
		for _, r := range list.APIResources {
			r.Group, r.Version, _ = strings.Cut(strings.TrimPrefix(served, "/apis/"), "/")
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// collectionOf returns the path of all objects of a kind, in a namespace or, if that is empty, in all.
func collectionOf(r metav1.APIResource, namespace string) string {
	resource, _, _ := strings.Cut(r.Name, "/")
	if namespace != "" {
		resource = "namespaces/" + namespace + "/" + resource
	}
	return "/apis/" + r.Group + "/" + r.Version + "/" + resource
}

// allowed returns the resources by the verbs that get past authorization.
func allowed(t *testing.T, ctx context.Context, c *client, where place, resources []metav1.APIResource, requests *atomic.Int64) map[string][]string {
	found := map[string][]string{}
	for _, r := range resources {
		var may []string
		for _, verb := range verbs {
			method, path, body := request(r, verb, where.namespace)
			if method == "" {
				continue // there is no such URL
			}
			contentType := "application/json"
			if method == http.MethodPatch {
				contentType = "application/merge-patch+json"
			}
			got, err := c.do(ctx, method, path, contentType, body)
			requests.Add(1)
			if err != nil {
				t.Errorf("%s %s: %v", method, path, err)
				continue
			}
			if method == http.MethodPost {
				// Without Content-Type, it is taken for JSON and not for something that anybody may do.
				untyped, err := c.do(ctx, method, path, "", body)
				requests.Add(1)
				if err != nil || untyped.code != got.code {
					t.Errorf("%s %s without Content-Type: %d, with it: %d (%v)", method, path, untyped.code, got.code, err)
				}
			}
			switch {
			case got.code == http.StatusUnauthorized, got.code == http.StatusMethodNotAllowed:
			case got.code == http.StatusForbidden && strings.Contains(got.body, "cannot "+verb):
			case got.code < 500 && got.code != http.StatusForbidden:
				may = append(may, verb)
			default:
				t.Errorf("%s %s: %d %.300s", method, path, got.code, got.body)
			}
		}
		if may != nil {
			found[strings.Join(may, " ")] = append(found[strings.Join(may, " ")], r.Name)
		}
	}
	return found
}

// request is the HTTP request of a verb, about the object x.
func request(r metav1.APIResource, verb, namespace string) (method, path, body string) {
	_, subresource, isSub := strings.Cut(r.Name, "/")
	if !r.Namespaced && namespace != "" {
		return "", "", ""
	}
	collection := collectionOf(r, namespace)
	object := collection + "/x"
	if isSub {
		object += "/" + subresource
	}
	if !isSub && (verb == "list" || verb == "watch" || verb == "create" || verb == "deletecollection") {
		object = collection
	} else if r.Namespaced && namespace == "" || isSub && (verb == "list" || verb == "watch" || verb == "deletecollection") {
		return "", "", ""
	}
	if r.Namespaced && namespace == "" && (verb == "create" || verb == "deletecollection") {
		return "", "", ""
	}
	kind := fmt.Sprintf(`{"apiVersion":"%s/%s","kind":%q,"metadata":{"name":"x"}}`, r.Group, r.Version, r.Kind)
	const dry = "?dryRun=All"
	switch verb {
	case "get", "list":
		return http.MethodGet, object, ""
	case "watch":
		return http.MethodGet, object + "?watch=true&timeoutSeconds=1", ""
	case "create":
		return http.MethodPost, object + dry, kind
	case "update":
		return http.MethodPut, object + dry, kind
	case "patch":
		return http.MethodPatch, object + dry, "{}"
	default:
		return http.MethodDelete, object + dry, ""
	}
}

// write writes a place's lines: verbs, and what they are allowed on.
func write(text *strings.Builder, where string, found map[string][]string, resources []metav1.APIResource) {
	if len(found) == 0 {
		fmt.Fprintf(text, "  %-21s nothing\n", where)
	}
	for _, may := range slices.Sorted(maps.Keys(found)) {
		names := abbreviate(found[may], "every kind", resources, func(name string) bool { return !strings.Contains(name, "/") })
		names = abbreviate(names, "every status", resources, func(name string) bool { return strings.HasSuffix(name, "/status") })
		fmt.Fprintf(text, "  %-21s %s: %s\n", where, may, strings.Join(names, ", "))
	}
}

// abbreviate puts one word for all of the resources that belong together, or for
// all but a few. Those that are in no namespace are named.
func abbreviate(names []string, word string, resources []metav1.APIResource, belongs func(string) bool) []string {
	var all []string
	for _, r := range resources {
		if r.Namespaced && belongs(r.Name) {
			all = append(all, r.Name)
		}
	}
	missing := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(names, name) })
	if len(missing) > len(all)/4 {
		return names
	}
	if len(missing) > 0 {
		word += " but " + strings.Join(missing, " and ")
	}
	rest := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(all, name) })
	return append([]string{word}, rest...)
}

// golden compares with a file, or writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-) is not what is so (+):\n%s", path, diff)
	}
}
