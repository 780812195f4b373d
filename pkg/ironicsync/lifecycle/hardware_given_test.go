// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestIsHardwareFor: a host that is created anew does not get the hardware of the machine that had its name.
func TestIsHardwareFor(t *testing.T) {
	owned := func(kind string, uid types.UID) metav1.ObjectMeta {
		return metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: kind, UID: uid}}}
	}
	own := owned("BareMetalHost", "this")
	ownAndClaims := metav1.ObjectMeta{OwnerReferences: append(owned("HostClaim", "claim").OwnerReferences, own.OwnerReferences...)}
	deleted := own
	deleted.DeletionTimestamp = &metav1.Time{Time: now}
	for name, test := range map[string]struct {
		data metav1.ObjectMeta
		want bool
	}{
		"given by hand":               {want: true},
		"of this host":                {data: own, want: true},
		"of this host, being deleted": {data: deleted},
		"of a former host":            {data: owned("BareMetalHost", "former")},
		"of something else":           {data: owned("ConfigMap", "x"), want: true},
		"of a claim":                  {data: owned("HostClaim", "claim")},
		"of this host and of a claim": {data: ownAndClaims, want: true},
	} {
		host := newHost()
		host.UID = "this"
		if got := IsHardwareFor(host, &metal3.HardwareData{ObjectMeta: test.data}); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestIsOfFormerHost: what a former host of the name owned is not the new one's. What nobody owns was made by hand or by a client, for it.
func TestIsOfFormerHost(t *testing.T) {
	owner := func(kind string, uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{Kind: kind, Name: "worker-0", UID: uid}
	}
	own, former, other := owner("BareMetalHost", "this"), owner("BareMetalHost", "former"), owner("ConfigMap", "x")
	for name, test := range map[string]struct {
		owners []metav1.OwnerReference
		want   bool
	}{
		"of nobody":                           {},
		"of this host":                        {owners: []metav1.OwnerReference{own}},
		"of something else":                   {owners: []metav1.OwnerReference{other}},
		"of a former host":                    {owners: []metav1.OwnerReference{former}, want: true},
		"of a former host and something else": {owners: []metav1.OwnerReference{other, former}, want: true},
		"of a former host and this one":       {owners: []metav1.OwnerReference{former, own}},
	} {
		host := newHost()
		host.UID = "this"
		if got := IsOfFormerHost(host, &metal3.DataImage{ObjectMeta: metav1.ObjectMeta{OwnerReferences: test.owners}}); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
