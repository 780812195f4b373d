// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"strings"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestPolicyWithoutNames checks that a policy whose list of names is empty, which admits nobody, does not become one that has no such
// list, which admits everybody.
func TestPolicyWithoutNames(t *testing.T) {
	s := startServer(t, true)
	const path = groupPath + "/namespaces/metal3/hostdeploypolicies"
	policy := func(namespaces string) string {
		return `{"apiVersion":"metal3.io/v1alpha1","kind":"HostDeployPolicy","metadata":{"name":"teams"},"spec":{"hostClaimNamespaces":` + namespaces + `}}`
	}
	for _, step := range []struct {
		name, method, path, body, header string
		hasNames                         bool
	}{
		{"without a list", "POST", path, policy(`{}`), "", false},
		{"the list becomes empty", "PATCH", path + "/teams", `{"spec":{"hostClaimNamespaces":{"names":[]}}}`, mergePatch, true},
		{"the list goes", "PATCH", path + "/teams", `{"spec":{"hostClaimNamespaces":{"names":null}}}`, mergePatch, false},
		{"a list of one", "PATCH", path + "/teams", `{"spec":{"hostClaimNamespaces":{"names":["blue"]}}}`, mergePatch, true},
		{"the last one is removed", "PATCH", path + "/teams", `[{"op":"remove","path":"/spec/hostClaimNamespaces/names/0"}]`, jsonPatch, true},
		{"a label", "PATCH", path + "/teams", `{"metadata":{"labels":{"rack":"1"}}}`, mergePatch, true},
		{"deleted", "DELETE", path + "/teams", "", "", true},
		{"applied", "PATCH", path + "/teams?fieldManager=one", policy(`{"names":[]}`), applyPatch, true},
		{"applied again", "PATCH", path + "/teams?fieldManager=one", policy(`{"names":[],"nameMatches":"a"}`), applyPatch, true},
		{"applied without", "PATCH", path + "/teams?fieldManager=one", policy(`{"nameMatches":"a"}`), applyPatch, false},
	} {
		got := s.do(t, step.method, step.path, step.body, step.header)
		if got.code >= 300 {
			t.Fatalf("%s: HTTP %d: %s", step.name, got.code, got.body)
		}
		if step.method == "DELETE" {
			continue
		}
		var read metal3.HostDeployPolicy
		answer := s.do(t, "GET", path+"/teams", "")
		answer.into(t, 200, &read)
		if has := strings.Contains(string(answer.body), `"names":[`); has != step.hasNames || (read.Spec.HostClaimNamespaces.Names != nil) != step.hasNames {
			t.Errorf("%s: the policy has a list of names: %t, want %t: %s", step.name, has, step.hasNames, answer.body)
		}
	}
}
