// SPDX-License-Identifier: Apache-2.0

package hostclaim

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	ironicapi "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
)

// freeHost returns a host that can be given to a claim.
func freeHost(namespace, name string, labels map[string]string) *metal3.BareMetalHost {
	return &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, UID: "host"},
		Status: metal3.BareMetalHostStatus{
			Provisioning: metal3.ProvisionStatus{State: metal3.StateAvailable}, Ironic: &metal3.IronicStatus{ProvisionState: "manageable"},
		},
	}
}

// Which hosts can be given to claims at all.
func TestIsFree(t *testing.T) {
	held := metal3.Hold{Reason: metal3.RestoredReason, Message: "a backup"}
	for name, test := range map[string]struct {
		change func(*metal3.BareMetalHost)
		want   bool
	}{
		"available":              {func(*metal3.BareMetalHost) {}, true},
		"ready":                  {func(h *metal3.BareMetalHost) { h.Status.Provisioning.State = metal3.StateReady }, true},
		"switched on":            {func(h *metal3.BareMetalHost) { h.Spec.Online = true }, true},
		"preparing":              {func(h *metal3.BareMetalHost) { h.Status.Provisioning.State = metal3.StatePreparing }, false},
		"provisioned":            {func(h *metal3.BareMetalHost) { h.Status.Provisioning.State = metal3.StateProvisioned }, false},
		"has a consumer":         {func(h *metal3.BareMetalHost) { h.Spec.ConsumerRef = &corev1.ObjectReference{} }, false},
		"to be provisioned":      {func(h *metal3.BareMetalHost) { h.Spec.Image = &metal3.Image{URL: "http://a"} }, false},
		"a custom deploy":        {func(h *metal3.BareMetalHost) { h.Spec.CustomDeploy = &metal3.CustomDeploy{Method: "a"} }, false},
		"runs an image still":    {func(h *metal3.BareMetalHost) { h.Status.Provisioning.Image.URL = "http://a" }, false},
		"externally provisioned": {func(h *metal3.BareMetalHost) { h.Spec.ExternallyProvisioned = true }, false},
		"being deleted":          {func(h *metal3.BareMetalHost) { h.DeletionTimestamp = new(metav1.Now()) }, false},
		"paused": {func(h *metal3.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.PausedAnnotation, "")
		}, false},
		"of a later version": {func(h *metal3.BareMetalHost) { h.Status.Record.Epoch = metal3.RecordEpoch + 1 }, false},
		"unhealthy": {func(h *metal3.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, "capm3.metal3.io/unhealthy", "")
		}, false},
		"unhealthy, v1beta1": {func(h *metal3.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, "capi.metal3.io/unhealthy", "")
		}, false},
		"kept for node reuse": {func(h *metal3.BareMetalHost) {
			metav1.SetMetaDataLabel(&h.ObjectMeta, "infrastructure.cluster.x-k8s.io/node-reuse", "control-plane-0")
		}, false},
		"to be detached": {func(h *metal3.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.DetachedAnnotation, "")
		}, false},
		"detached":           {func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusDetached }, false},
		"an error":           {func(h *metal3.BareMetalHost) { h.Status.Record.Error = &metal3.HostError{Message: "no route"} }, false},
		"held":               {func(h *metal3.BareMetalHost) { h.Status.Record.Hold = &held }, false},
		"in maintenance":     {func(h *metal3.BareMetalHost) { h.Status.Ironic.Maintenance = true }, false},
		"not seen in Ironic": {func(h *metal3.BareMetalHost) { h.Status.Ironic = nil }, false},
		"deployed past us":   {func(h *metal3.BareMetalHost) { h.Status.Ironic.ProvisionState = "active" }, false},
		"cleaned before":     {func(h *metal3.BareMetalHost) { h.Status.Ironic.ProvisionState = "available" }, true},
	} {
		host := freeHost("metal3", "worker-0", nil)
		test.change(host)
		if got := isFree(host); got != test.want {
			t.Errorf("%s: free: %t, want %t", name, got, test.want)
		}
	}
}

// Which namespaces a policy admits: none, unless it says so.
func TestAdmits(t *testing.T) {
	labels := map[string]string{"team": "blue", "stage": "prod"}
	for name, test := range map[string]struct {
		namespaces *metal3.HostClaimNamespaces
		want       bool
	}{
		"nobody":                   {nil, false},
		"everybody":                {&metal3.HostClaimNamespaces{}, true},
		"no name at all":           {&metal3.HostClaimNamespaces{Names: []string{}}, false},
		"no name, but the label":   {&metal3.HostClaimNamespaces{Names: []string{}, HasLabels: []metal3.NameValuePair{{Name: "team"}}}, false},
		"by name":                  {&metal3.HostClaimNamespaces{Names: []string{"other", "tenant"}}, true},
		"other names":              {&metal3.HostClaimNamespaces{Names: []string{"tenant-2"}}, false},
		"an expression":            {&metal3.HostClaimNamespaces{NameMatches: "ten"}, true},
		"an anchored expression":   {&metal3.HostClaimNamespaces{NameMatches: "^ten$"}, false},
		"an invalid expression":    {&metal3.HostClaimNamespaces{NameMatches: "("}, false},
		"too many steps":           {&metal3.HostClaimNamespaces{NameMatches: "^(" + strings.Repeat("t?e?n?a?n?t?", 100) + "){1000}$"}, false},
		"a label":                  {&metal3.HostClaimNamespaces{HasLabels: []metal3.NameValuePair{{Name: "team"}}}, true},
		"a label and its value":    {&metal3.HostClaimNamespaces{HasLabels: []metal3.NameValuePair{{Name: "team", Value: "blue"}, {Name: "stage"}}}, true},
		"another value":            {&metal3.HostClaimNamespaces{HasLabels: []metal3.NameValuePair{{Name: "team", Value: "red"}}}, false},
		"a label that is missing":  {&metal3.HostClaimNamespaces{HasLabels: []metal3.NameValuePair{{Name: "team"}, {Name: "region"}}}, false},
		"the name, not the label":  {&metal3.HostClaimNamespaces{Names: []string{"tenant"}, HasLabels: []metal3.NameValuePair{{Name: "region"}}}, false},
		"the label, not the name":  {&metal3.HostClaimNamespaces{Names: []string{"other"}, HasLabels: []metal3.NameValuePair{{Name: "team"}}}, false},
		"the name, not expression": {&metal3.HostClaimNamespaces{Names: []string{"tenant"}, NameMatches: "prod"}, false},
	} {
		p, _ := newPolicy(&metal3.HostDeployPolicy{Spec: metal3.HostDeployPolicySpec{HostClaimNamespaces: test.namespaces}})
		if got := p.admits("tenant", labels); got != test.want {
			t.Errorf("%s: admitted: %t, want %t", name, got, test.want)
		}
	}
}

// All claims wait while a name is compared with the names and the expression of a policy, which may be long: each is compared once, however
// many claims and hosts there are. So is each label.
func TestAdmitsOnce(t *testing.T) {
	p, err := newPolicy(&metal3.HostDeployPolicy{Spec: metal3.HostDeployPolicySpec{HostClaimNamespaces: &metal3.HostClaimNamespaces{
		NameMatches: "^tenant", HasLabels: slices.Repeat([]metal3.NameValuePair{{Name: "team"}, {Name: "team", Value: "blue"}}, 1_000),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.hasLabels) != 2 {
		t.Errorf("%d labels are looked at for each namespace", len(p.hasLabels))
	}
	matches, compared := p.nameMatches, 0
	p.nameMatches = func(name string) bool {
		compared++
		return matches(name)
	}
	a := newAllocator(func(string) map[string]string { return map[string]string{"team": "blue"} })
	a.policyChanged(types.NamespacedName{Namespace: "racks", Name: "tenants"}, p)
	claim := func(namespace, name string) *claimRequest {
		r, err := newClaimRequest(&metal3.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	got := 0
	for i := range 20 {
		for _, namespace := range []string{"other", "tenant-1", "tenant-2"} {
			if host, _, _ := a.pick(claim(namespace, fmt.Sprintf("c%d", i))); host != nil {
				got++
			}
		}
		host := freeHost("racks", fmt.Sprintf("h%d", i), nil)
		got += len(a.hostChanged(kinds.KeyOf(host), host))
	}
	if compared != 3 || got != 20 {
		t.Errorf("%d comparisons of 3 names for %d hosts", compared, got)
	}
	for i := range 2*maxNamed + 1 {
		p.admits(fmt.Sprintf("tenant-%d", i), map[string]string{"team": "blue"})
	}
	if len(p.named) > maxNamed {
		t.Errorf("%d answers are kept", len(p.named))
	}
}

// TestSizeOfAPolicy: what is kept of a policy besides the object, which docs/security.md promises. What is only allocated for a moment
// does not count: it depends on the build, because with the race detector, a sync.Pool forgets on purpose.
func TestSizeOfAPolicy(t *testing.T) {
	names := make([]string, maxNamed)
	for i := range names {
		names[i] = fmt.Sprintf("%063d", i)
	}
	for _, expression := range []string{"^" + strings.Repeat("[0-9a-f]?", 113), "^" + strings.Repeat("a", 990), "^(" + strings.Repeat("0*|", 200) + "b)$"} {
		before := heldBytes()
		p, err := newPolicy(&metal3.HostDeployPolicy{Spec: metal3.HostDeployPolicySpec{HostClaimNamespaces: &metal3.HostClaimNamespaces{NameMatches: expression}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			p.isNamed(name)
		}
		if size := heldBytes() - before; size > 1<<20 {
			t.Errorf("%d KiB are kept of a policy with %.20s...", size>>10, expression)
		}
		runtime.KeepAlive(p)
	}
}

// heldBytes returns how many bytes are in use. A sync.Pool is empty after two collections.
func heldBytes() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// The expressions of a selector are not copied for each of them. What one of them costs depends on the build, with the race detector
// and without; ten times as many must not cost a hundred times as much.
func TestLongSelectors(t *testing.T) {
	few, _ := costOfSelector(t, 500)
	many, r := costOfSelector(t, 5_000)
	if many > 30*few {
		t.Errorf("%d KiB are allocated for 500 expressions, and %d KiB for 5000", few>>10, many>>10)
	}
	if !r.selector.Matches(labels.Set{"a": "b"}) || r.selector.Matches(labels.Set{"k4711": "b"}) {
		t.Error("the selector has not all expressions")
	}
}

// costOfSelector returns how many bytes are allocated for a claim whose selector has so many expressions.
func costOfSelector(t *testing.T, expressions int) (bytes uint64, r *claimRequest) {
	claim := &metal3.HostClaim{}
	for i := range expressions {
		claim.Spec.HostSelector.MatchExpressions = append(claim.Spec.HostSelector.MatchExpressions, metal3.HostSelectorRequirement{Key: fmt.Sprintf("k%d", i), Operator: selection.DoesNotExist})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := newClaimRequest(claim)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	return after.TotalAlloc - before.TotalAlloc, r
}

// Which host a claim gets, or why none.
func TestChoose(t *testing.T) {
	open := func(names ...string) *policy {
		p, err := newPolicy(&metal3.HostDeployPolicy{Spec: metal3.HostDeployPolicySpec{HostClaimNamespaces: &metal3.HostClaimNamespaces{Names: names}}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	in := func(domain string) map[string]string { return map[string]string{ironicapi.FailureDomainLabel: domain} }
	match := func(operator selection.Operator, values ...string) metal3.HostSelector {
		return metal3.HostSelector{MatchExpressions: []metal3.HostSelectorRequirement{{Key: "size", Operator: operator, Values: values}}}
	}
	large := freeHost("racks", "large", map[string]string{"size": "large"})
	small := freeHost("racks", "small", map[string]string{"size": "small"})
	east, west := freeHost("racks", "east", in("east")), freeHost("racks", "west", in("west"))
	elsewhere := freeHost("cellar", "elsewhere", nil)
	closed := freeHost("private", "closed", map[string]string{"size": "large"})
	const (
		noPolicy = "No HostDeployPolicy lets namespace tenant claim the hosts of "
		inUse    = "All hosts that match spec.hostSelector are in use or not available. The claim gets one that becomes available, in turn"
		noMatch  = "No host that may be claimed matches spec.hostSelector"
	)
	for name, test := range map[string]struct {
		spec      metal3.HostClaimSpec
		free, all []*metal3.BareMetalHost // all only has what is not free
		want      string                  // the name of the host, or why there is none
	}{
		"any":                             {free: []*metal3.BareMetalHost{large}, want: "large"},
		"none at all":                     {want: noMatch},
		"only where a policy says so":     {free: []*metal3.BareMetalHost{closed}, want: noMatch},
		"by label":                        {spec: metal3.HostClaimSpec{HostSelector: metal3.HostSelector{MatchLabels: map[string]string{"size": "small"}}}, free: []*metal3.BareMetalHost{large, small}, want: "small"},
		"in":                              {spec: metal3.HostClaimSpec{HostSelector: match("in", "tiny", "small")}, free: []*metal3.BareMetalHost{large, small}, want: "small"},
		"In, in upper case":               {spec: metal3.HostClaimSpec{HostSelector: match("In", "tiny", "small")}, free: []*metal3.BareMetalHost{large, small}, want: "small"},
		"notin":                           {spec: metal3.HostClaimSpec{HostSelector: match("notin", "small")}, free: []*metal3.BareMetalHost{large, small}, want: "large"},
		"exists":                          {spec: metal3.HostClaimSpec{HostSelector: match("exists")}, free: []*metal3.BareMetalHost{elsewhere, small}, want: "small"},
		"does not exist":                  {spec: metal3.HostClaimSpec{HostSelector: match("!")}, free: []*metal3.BareMetalHost{elsewhere, small}, want: "elsewhere"},
		"in a namespace":                  {spec: metal3.HostClaimSpec{HostSelector: metal3.HostSelector{InNamespace: "cellar"}}, free: []*metal3.BareMetalHost{large, elsewhere}, want: "elsewhere"},
		"in a namespace without a policy": {spec: metal3.HostClaimSpec{HostSelector: metal3.HostSelector{InNamespace: "private"}}, free: []*metal3.BareMetalHost{large, closed}, want: noPolicy + "namespace private"},
		"in a failure domain":             {spec: metal3.HostClaimSpec{FailureDomain: "west"}, free: []*metal3.BareMetalHost{elsewhere, east, west}, want: "west"},
		"in no such failure domain":       {spec: metal3.HostClaimSpec{FailureDomain: "north"}, free: []*metal3.BareMetalHost{east}, want: "east"},
		"all are in use":                  {all: []*metal3.BareMetalHost{large}, want: inUse},
		"what matches is in use":          {spec: metal3.HostClaimSpec{HostSelector: match("=", "small")}, free: []*metal3.BareMetalHost{large}, all: []*metal3.BareMetalHost{small}, want: inUse},
		"none matches":                    {spec: metal3.HostClaimSpec{HostSelector: match("=", "huge")}, free: []*metal3.BareMetalHost{large}, all: []*metal3.BareMetalHost{small, closed}, want: noMatch},
	} {
		t.Run(name, func(t *testing.T) {
			free, all := hosts{}, hosts{}
			for _, host := range test.free {
				set(free, kinds.KeyOf(host), host)
				set(all, kinds.KeyOf(host), host)
			}
			for _, host := range test.all {
				set(all, kinds.KeyOf(host), host)
			}
			w, err := newClaimRequest(&metal3.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "mine"}, Spec: test.spec})
			if err != nil {
				t.Fatal(err)
			}
			host, whyNot := choose(w, policies{
				"racks": {"nobody": &policy{}, "tenants": open("tenant")}, "cellar": {"all": open()}, "private": {"others": open("other")},
			}, free, all)
			got := whyNot
			if host != nil {
				got += host.Name
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	w, err := newClaimRequest(&metal3.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant"}})
	if err != nil {
		t.Fatal(err)
	}
	if host, whyNot := choose(w, nil, hosts{"racks": {"large": large}}, nil); host != nil || whyNot != noPolicy+"any namespace" {
		t.Errorf("without any policy: %v, %q", host, whyNot)
	}
}
