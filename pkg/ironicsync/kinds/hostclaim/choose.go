// SPDX-License-Identifier: Apache-2.0

package hostclaim

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"

	ironicapi "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
)

// unhealthyAnnotations mark hosts that the remediation of Cluster API Provider Metal3 has given up: that of its v1beta2 types, and of those
// before.
var unhealthyAnnotations = []string{"capm3.metal3.io/unhealthy", "capi.metal3.io/unhealthy"}

// nodeReuseLabel marks hosts that Cluster API Provider Metal3 has given back, with their disks, for the next machine of the same set.
const nodeReuseLabel = "infrastructure.cluster.x-k8s.io/node-reuse"

// policy is a HostDeployPolicy in the form in which it is applied.
type policy struct {
	namespaces  *metal3.HostClaimNamespaces // nil admits nobody
	nameMatches func(string) bool
	// named has the answers of isNamed. A name can be compared with thousands of others, and with an expression of a thousand
	// steps, while all claims wait: it is once.
	named map[string]bool
	// hasLabels are those of the policy, each once. So no more of them are looked at than a namespace has, each with and without a
	// value, and one.
	hasLabels []metal3.NameValuePair
}

// maxNamed is how many answers are kept.
const maxNamed = 1000

// newPolicy returns an error if the regular expression of a policy is not valid: it may be older than the rules for it. Such a policy
// admits nobody.
func newPolicy(p *metal3.HostDeployPolicy) (*policy, error) {
	namespaces := p.Spec.HostClaimNamespaces
	if namespaces == nil {
		return &policy{}, nil
	}
	// An empty expression matches all names, like one that is not set.
	nameMatches, err := namespaces.ParseNameMatches()
	if err != nil {
		return &policy{}, fmt.Errorf("spec.hostClaimNamespaces.nameMatches %w", err)
	}
	return &policy{
		namespaces: namespaces, nameMatches: nameMatches.MatchString, named: map[string]bool{},
		hasLabels: sets.New(namespaces.HasLabels...).UnsortedList(),
	}, nil
}

// isNamed reports whether the name of a namespace meets the criteria for names.
func (p *policy) isNamed(namespace string) bool {
	if named, known := p.named[namespace]; known {
		return named
	}
	if len(p.named) >= maxNamed {
		clear(p.named)
	}
	// Whoever has removed the last name from a list has not opened the hosts to everybody.
	named := (p.namespaces.Names == nil || slices.Contains(p.namespaces.Names, namespace)) && p.nameMatches(namespace)
	p.named[namespace] = named
	return named
}

// admits reports whether the claims of a namespace with these labels may have hosts of the policy's
// namespace. All criteria of a policy must be met. It is not for several goroutines at a time.
func (p *policy) admits(namespace string, namespaceLabels map[string]string) bool {
	if p.namespaces == nil {
		return false
	}
	for _, label := range p.hasLabels {
		value, has := namespaceLabels[label.Name]
		if !has || label.Value != "" && value != label.Value {
			return false
		}
	}
	return p.isNamed(namespace)
}

// policies are those of all namespaces, by namespace and name.
type policies map[string]map[string]*policy

// admit reports whether any policy of a namespace lets the claim's namespace have its hosts.
func (all policies) admit(namespace string, r *claimRequest) bool {
	for _, p := range all[namespace] {
		if p.admits(r.claim.Namespace, r.namespaceLabels) {
			return true
		}
	}
	return false
}

// hosts are hosts by namespace and name.
type hosts map[string]map[string]*metal3.BareMetalHost

// claimRequest is what decides on the host of a claim.
type claimRequest struct {
	claim    *metal3.HostClaim
	selector labels.Selector
	// namespaceLabels are the labels of the claim's namespace, which the allocator sets.
	namespaceLabels map[string]string
}

// newClaimRequest returns an error if the selector of the claim is not valid, which validation refuses.
func newClaimRequest(claim *metal3.HostClaim) (*claimRequest, error) {
	var requirements labels.Requirements
	for _, r := range claim.Spec.HostSelector.MatchExpressions {
		requirement, err := labels.NewRequirement(r.Key, selection.Operator(strings.ToLower(string(r.Operator))), r.Values)
		if err != nil {
			return nil, fmt.Errorf("spec.hostSelector.matchExpressions: %w", err)
		}
		requirements = append(requirements, *requirement)
	}
	// All at once: each time, the selector is copied and sorted.
	selector := labels.SelectorFromSet(claim.Spec.HostSelector.MatchLabels).Add(requirements...)
	// Others look at a claim that waits while its status is being written.
	return &claimRequest{claim: claim.DeepCopy(), selector: selector}, nil
}

// mayHave reports whether a host suits a claim and may be given to it, free or not.
func (r *claimRequest) mayHave(host *metal3.BareMetalHost, all policies) bool {
	in := r.claim.Spec.HostSelector.InNamespace
	return (in == "" || in == host.Namespace) && r.selector.Matches(labels.Set(host.Labels)) && all.admit(host.Namespace, r)
}

// choose returns a host for a claim from those that are free, or why there is none. Hosts in the
// failure domain that the claim prefers come first; other than that, any host that suits is as good
// as another. all are all hosts, which explain why none is free.
func choose(r *claimRequest, policies policies, free, all hosts) (chosen *metal3.BareMetalHost, whyNot string) {
	suits := func(host *metal3.BareMetalHost) bool { return r.selector.Matches(labels.Set(host.Labels)) }
	domain := r.claim.Spec.FailureDomain
	var opened []string
	for namespace := range policies {
		if in := r.claim.Spec.HostSelector.InNamespace; in != "" && in != namespace || !policies.admit(namespace, r) {
			continue
		}
		opened = append(opened, namespace)
		for _, host := range free[namespace] {
			switch {
			case !suits(host):
			case domain == "" || host.Labels[ironicapi.FailureDomainLabel] == domain:
				return host, ""
			case chosen == nil:
				chosen = host
			}
		}
	}
	if chosen != nil {
		return chosen, ""
	}
	if len(opened) == 0 {
		of := "any namespace"
		if in := r.claim.Spec.HostSelector.InNamespace; in != "" {
			of = "namespace " + in
		}
		return nil, fmt.Sprintf("No HostDeployPolicy lets namespace %s claim the hosts of %s", r.claim.Namespace, of)
	}
	for _, namespace := range opened {
		for _, host := range all[namespace] {
			if suits(host) {
				return nil, "All hosts that match spec.hostSelector are in use or not available. The claim gets one that becomes available, in turn"
			}
		}
	}
	return nil, "No host that may be claimed matches spec.hostSelector"
}

// isFree reports whether a host can be given to a claim: it is available, nobody uses it, and nothing
// is wrong with it. A host that is to run something is in use, also if it names no consumer.
func isFree(host *metal3.BareMetalHost) bool {
	status := &host.Status
	unhealthy := slices.ContainsFunc(unhealthyAnnotations, func(key string) bool { return metav1.HasAnnotation(host.ObjectMeta, key) })
	_, detached := host.Annotations[metal3.DetachedAnnotation]
	switch {
	case host.Spec.ConsumerRef != nil || !host.DeletionTimestamp.IsZero(),
		host.Spec.ExternallyProvisioned || deploy.WantsImage(&host.Spec) || deploy.Deployed(host),
		metal3.IsPaused(host) || unhealthy || detached || host.IsDetached(), metav1.HasLabel(host.ObjectMeta, nodeReuseLabel),
		status.Record.Error != nil || status.Record.Hold != nil || status.Record.IsLater(),
		status.Ironic == nil || status.Ironic.Maintenance || !isIdle(status.Ironic):
		return false
	}
	return status.Provisioning.State == metal3.StateAvailable || status.Provisioning.State == metal3.StateReady
}

// isIdle reports whether Ironic has nothing deployed on the node, and is not at work on it. An available host can have
// another node for a moment: somebody has deployed it past this server, or the host is of a backup.
func isIdle(node *metal3.IronicStatus) bool {
	switch ironic.ProvisionState(node.ProvisionState) {
	case ironic.Manageable, ironic.Available:
		return true
	}
	return false
}
