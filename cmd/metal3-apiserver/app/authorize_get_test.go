// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestReviewsOfGets: which reviews a request causes, and what becomes of it. The cluster has a
// webhook that denies one name.
func TestReviewsOfGets(t *testing.T) {
	get := func(name string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{
			User: proxiedUser{&user.DefaultInfo{Name: "alice"}}, ResourceRequest: true, Verb: "get",
			APIGroup: v1alpha1.GroupName, Resource: "baremetalhosts", Namespace: "metal3", Name: name,
		}
	}
	direct := func(a authorizer.AttributesRecord) authorizer.AttributesRecord {
		a.User = &user.DefaultInfo{Name: "alice"}
		return a
	}
	with := func(a authorizer.AttributesRecord, change func(*authorizer.AttributesRecord)) authorizer.AttributesRecord {
		change(&a)
		return a
	}
	const all = ""
	allowed := map[string]authorizer.Decision{all: authorizer.DecisionAllow, "worker-0": authorizer.DecisionAllow, "denied": authorizer.DecisionDeny}
	oneName := map[string]authorizer.Decision{"worker-0": authorizer.DecisionAllow}
	for name, tt := range map[string]struct {
		request   authorizer.AttributesRecord
		decisions map[string]authorizer.Decision // by name; others are without opinion
		reviews   []string                       // names
		want      authorizer.Decision
	}{
		"all hosts may be read":     {get("worker-0"), allowed, []string{all}, authorizer.DecisionAllow},
		"one host may be read":      {get("worker-0"), oneName, []string{all, "worker-0"}, authorizer.DecisionAllow},
		"another one may not":       {get("worker-1"), oneName, []string{all, "worker-1"}, authorizer.DecisionNoOpinion},
		"direct":                    {direct(get("worker-0")), allowed, []string{"worker-0"}, authorizer.DecisionAllow},
		"direct, a name is denied":  {direct(get("denied")), allowed, []string{"denied"}, authorizer.DecisionDeny},
		"unnamed requests refused":  {get("worker-0"), map[string]authorizer.Decision{all: authorizer.DecisionDeny, "worker-0": authorizer.DecisionAllow}, []string{all, "worker-0"}, authorizer.DecisionAllow},
		"delete":                    {with(get("worker-0"), func(a *authorizer.AttributesRecord) { a.Verb = "delete" }), allowed, []string{"worker-0"}, authorizer.DecisionAllow},
		"subresource":               {with(get("worker-0"), func(a *authorizer.AttributesRecord) { a.Subresource = "power" }), allowed, []string{"worker-0"}, authorizer.DecisionAllow},
		"another kind":              {with(get("worker-0"), func(a *authorizer.AttributesRecord) { a.Resource = "hardwaredata" }), allowed, []string{"worker-0"}, authorizer.DecisionAllow},
		"the same kind of somebody": {with(get("worker-0"), func(a *authorizer.AttributesRecord) { a.APIGroup = "example.com" }), allowed, []string{"worker-0"}, authorizer.DecisionAllow},
	} {
		t.Run(name, func(t *testing.T) {
			var reviews []string
			cluster := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				reviews = append(reviews, a.GetName())
				if decision, known := tt.decisions[a.GetName()]; known {
					return decision, "", nil
				}
				return authorizer.DecisionNoOpinion, "", nil
			})
			got, _, err := (&hostGetAuthorizer{cluster}).Authorize(t.Context(), tt.request)
			if got != tt.want || err != nil {
				t.Errorf("decision %v, error %v, want %v", got, err, tt.want)
			}
			if diff := cmp.Diff(tt.reviews, reviews); diff != "" {
				t.Errorf("reviews by name (-want +got):\n%s", diff)
			}
		})
	}
}
