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
	} {
		host := newHost()
		host.UID = "this"
		if got := IsHardwareFor(host, &metal3.HardwareData{ObjectMeta: test.data}); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
