// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func init() {
	for name, steps := range claims {
		lives[name] = life{claims: true, steps: steps, differs: ofClaims}
	}
}

// ofClaims are beginnings of paths that differ in lives with claims, and why.
var ofClaims = map[string]string{
	"host.spec":                                       "the operator passes nothing on to the host yet",
	"host.status.poweredOn":                           "the operator passes nothing on to the host yet",
	"node.power_state":                                "the operator passes nothing on to the host yet",
	"hardwaredata.claim":                              "the operator does not copy it yet",
	"hostclaims.claim.status.hardware":                "the operator does not copy it yet",
	"hostclaims.claim.status.conditions.Provisioned":  "the operator does not set it yet",
	"hostclaims.claim.status.conditions.Synchronized": "the operator does not set it yet",
	"hostclaims.claim.status.conditions.Ready":        "summarises the others; the reason is that of Associated here, if that is False",
	"hostclaims.claim.status.lastUpdated":             "the operator does not set it yet",
	"hostclaims.claim.status.poweredOn":               "the operator does not set it yet",
}

// claims are lives of hosts that are claimed. 0.13 has no controller for that, and that of 0.14.0-rc.0 assigns hosts, but passes nothing on
// to them.
var claims = map[string][]lifeStep{
	"claimed":              claimed,
	"claimed without one":  {{then: available}, {act: createClaim(`{}`), until: claimHas("Associated", metav1.ConditionFalse)}},
	"claimed by label":     {{patch: labelled, then: available}, {act: allowClaims}, {act: createClaim(`{"hostSelector":{"matchLabels":{"rack":"1"}}}`), until: claimHas("Associated", metav1.ConditionTrue)}},
	"claimed, wrong label": {{patch: labelled, then: available}, {act: allowClaims}, {act: createClaim(`{"hostSelector":{"matchLabels":{"rack":"2"}}}`), until: claimHas("Associated", metav1.ConditionFalse)}},
	"claim deleted":        append(slices.Clone(claimed), lifeStep{act: deleteClaim, until: noClaim, then: available}),
}

const labelled = `{"metadata":{"labels":{"rack":"1"}}}`

var claimed = []lifeStep{{then: available}, {act: allowClaims}, {act: createClaim(`{"poweredOn":true}`), until: claimHas("Associated", metav1.ConditionTrue)}}

// allowClaims has the host be claimed by those of its own namespace.
func allowClaims(ctx context.Context, p *player) error {
	policy := &metal3.HostDeployPolicy{ObjectMeta: metav1.ObjectMeta{Name: "policy"}, Spec: metal3.HostDeployPolicySpec{
		HostClaimNamespaces: &metal3.HostClaimNamespaces{Names: []string{p.ns}},
	}}
	_, err := p.metal3.Metal3V1alpha1().HostDeployPolicies(p.ns).Create(ctx, policy, metav1.CreateOptions{})
	return err
}

// createClaim creates a claim of a host in its own namespace: other hosts are there for other lives.
func createClaim(patch string) act {
	return func(ctx context.Context, p *player) error {
		claim := &metal3.HostClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim"}}
		client := p.metal3.Metal3V1alpha1().HostClaims(p.ns)
		if err := json.Unmarshal([]byte(patch), &claim.Spec); err != nil {
			return err
		}
		claim.Spec.HostSelector.InNamespace = p.ns
		_, err := client.Create(ctx, claim, metav1.CreateOptions{})
		return err
	}
}

func deleteClaim(ctx context.Context, p *player) error {
	return p.metal3.Metal3V1alpha1().HostClaims(p.ns).Delete(ctx, "claim", metav1.DeleteOptions{})
}

func claimHas(condition string, status metav1.ConditionStatus) func(context.Context, *player) bool {
	return func(ctx context.Context, p *player) bool {
		claim, err := p.metal3.Metal3V1alpha1().HostClaims(p.ns).Get(ctx, "claim", metav1.GetOptions{})
		return err == nil && meta.IsStatusConditionPresentAndEqual(claim.Status.Conditions, condition, status)
	}
}

func noClaim(ctx context.Context, p *player) bool {
	_, err := p.metal3.Metal3V1alpha1().HostClaims(p.ns).Get(ctx, "claim", metav1.GetOptions{})
	return err != nil
}
