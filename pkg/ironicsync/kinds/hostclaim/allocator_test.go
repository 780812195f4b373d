// SPDX-License-Identifier: Apache-2.0

package hostclaim

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
)

// newTestAllocator has a policy that lets the namespace tenant have the hosts of racks.
func newTestAllocator(t *testing.T) *allocator {
	t.Helper()
	f := newAllocator(func(string) map[string]string { return nil })
	p, err := newPolicy(&metal3.HostDeployPolicy{Spec: metal3.HostDeployPolicySpec{HostClaimNamespaces: &metal3.HostClaimNamespaces{Names: []string{"tenant"}}}})
	if err != nil {
		t.Fatal(err)
	}
	f.policyChanged(types.NamespacedName{Namespace: "racks", Name: "tenants"}, p)
	return f
}

// newTestRequest is that of a claim of a certain age for hosts with labels.
func newTestRequest(t *testing.T, name string, age time.Duration, labels map[string]string) *claimRequest {
	t.Helper()
	w, err := newClaimRequest(&metal3.HostClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))},
		Spec:       metal3.HostClaimSpec{HostSelector: metal3.HostSelector{MatchLabels: labels}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func names(keys []types.NamespacedName) (all []string) {
	for _, key := range keys {
		all = append(all, key.Name)
	}
	return all
}

// Hosts that become free go to the claims that wait, the oldest first, one claim for each host.
func TestInTurn(t *testing.T) {
	f := newTestAllocator(t)
	large := map[string]string{"size": "large"}
	requests := map[string]*claimRequest{
		"young": newTestRequest(t, "young", time.Minute, nil), "old": newTestRequest(t, "old", time.Hour, nil),
		"large": newTestRequest(t, "large", 2*time.Hour, large), "middle": newTestRequest(t, "middle", 30*time.Minute, nil),
	}
	pick := func(claim, want string) {
		t.Helper()
		f.begin(kinds.KeyOf(requests[claim].claim))
		host, _, woken := f.pick(requests[claim])
		got := ""
		if host != nil {
			got = host.Name
		}
		if got != want || len(woken) > 0 {
			t.Errorf("%s picks %q and wakes %v, want %q", claim, got, woken, want)
		}
	}
	free := func(name string, labels map[string]string, want ...string) types.NamespacedName {
		t.Helper()
		host := freeHost("racks", name, labels)
		if diff := cmp.Diff(want, names(f.hostChanged(kinds.KeyOf(host), host))); diff != "" {
			t.Errorf("host %s wakes (-want +got):\n%s", name, diff)
		}
		return kinds.KeyOf(host)
	}
	end := func(claim string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, names(f.end(kinds.KeyOf(requests[claim].claim)))); diff != "" {
			t.Errorf("after %s, these are woken (-want +got):\n%s", claim, diff)
		}
	}
	bind := func(claim string, host types.NamespacedName) {
		t.Helper()
		bound := f.all[host.Namespace][host.Name].DeepCopy()
		bound.Spec.ConsumerRef = refTo(requests[claim].claim)
		f.hostChanged(host, bound)
		end(claim)
	}
	for name := range requests {
		pick(name, "")
	}
	a, b := free("a", nil, "old"), free("b", nil, "middle")
	free("a", nil) // an observation changes nothing
	late := newTestRequest(t, "late", 0, nil)
	if host, _, _ := f.pick(late); host != nil {
		t.Errorf("a claim that comes last gets %s, which was offered to another", host.Name)
	}
	f.begin(kinds.KeyOf(late.claim))
	pick("old", "a")
	bind("old", a)
	// The next one cannot be bound, for example because it was deleted.
	end("middle", "young")
	pick("young", "b")
	bind("young", b)
	// Nobody who waits wants this host, so it stays free.
	c := free("c", nil)
	free("d", large, "large")
	pick("large", "d")
	end("large") // it fails, and nobody waits
	pick("large", "d")
	pick("middle", "c")
	bind("middle", c)
	if len(f.waiting) > 0 {
		t.Errorf("%d claims wait", len(f.waiting))
	}
}

// What the watch has shown of a host is not undone by what a claim has read before. The watch itself is believed, also when it
// shows an earlier version, as after a restore of etcd.
func TestVersionsInAnyOrder(t *testing.T) {
	f := newTestAllocator(t)
	waits := newTestRequest(t, "waits", time.Hour, nil)
	f.pick(waits)
	version := func(version string, free bool) *metal3.BareMetalHost {
		host := freeHost("racks", "a", nil)
		host.ResourceVersion = version
		if !free {
			host.Spec.ConsumerRef = refTo(newTestRequest(t, "another", 0, nil).claim)
		}
		return host
	}
	key := kinds.KeyOf(version("", true))
	f.hostChanged(key, version("9", false))
	if woken := f.hostFound(key, version("8", true)); len(woken) > 0 {
		t.Errorf("%v are woken for a host that is in use", woken)
	}
	f.hostFound(key, version("10", true))
	f.hostFound(key, version("9", false))
	if host, whyNot, _ := f.pick(waits); host == nil {
		t.Errorf("a host that is free again is not given away: %s", whyNot)
	}
}

// A claim is woken when somebody may admit it, and a host that it was offered in vain goes to another.
func TestAdmittedLater(t *testing.T) {
	f := newTestAllocator(t)
	mine, other := newTestRequest(t, "mine", time.Hour, nil), newTestRequest(t, "other", time.Minute, nil)
	f.pick(mine)
	f.pick(other)
	if diff := cmp.Diff([]string{"mine", "other"}, names(f.namespaceChanged("tenant"))); diff != "" {
		t.Errorf("new labels of the namespace wake (-want +got):\n%s", diff)
	}
	f.pick(mine)
	f.pick(other)
	host := freeHost("racks", "worker-0", nil)
	f.hostChanged(kinds.KeyOf(host), host) // wakes mine
	changed, err := newClaimRequest(&metal3.HostClaim{ObjectMeta: mine.claim.ObjectMeta, Spec: metal3.HostClaimSpec{HostSelector: metal3.HostSelector{InNamespace: "cellar"}}})
	if err != nil {
		t.Fatal(err)
	}
	if host, _, woken := f.pick(changed); host != nil || fmt.Sprint(names(woken)) != "[other]" {
		t.Errorf("got %v, woken are %v", host, woken)
	}
	if diff := cmp.Diff([]string{"mine"}, names(f.policyChanged(types.NamespacedName{Namespace: "cellar", Name: "all"}, nil))); diff != "" {
		t.Errorf("another policy wakes (-want +got):\n%s", diff)
	}
}

// Nothing is kept of what is gone, nor of its namespace.
func TestAllocatorForgets(t *testing.T) {
	f := newTestAllocator(t)
	for n := range 3 {
		host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("racks-%d", n), Name: "worker-0"}}
		host.Spec.ConsumerRef = refTo(newTestRequest(t, "tenants", 0, nil).claim)
		f.hostChanged(kinds.KeyOf(host), host)
		f.hostChanged(kinds.KeyOf(host), nil)
	}
	f.policyChanged(types.NamespacedName{Namespace: "racks", Name: "tenants"}, nil)
	if len(f.all)+len(f.free)+len(f.bound)+len(f.offered)+len(f.policies) != 0 {
		t.Errorf("after all are gone, there are still %v %v %v %v %v", f.all, f.free, f.bound, f.offered, f.policies)
	}
}
