// SPDX-License-Identifier: Apache-2.0

package registrar

import (
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/hostindex"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// claimsOf returns the claims of hosts, of which Ironic has no nodes. In the index, the UID of the first one is
// uid-1, that of the second uid-2, and so on.
func claimsOf(t *testing.T, all ...*metal3.BareMetalHost) *Claims {
	t.Helper()
	hosts := enginetest.NewHosts()
	for _, h := range all {
		hosts.Add(h)
	}
	index := hostindex.New(hosts, nil)
	go index.Run(t.Context())
	if !cache.WaitForCacheSync(t.Context().Done(), index.HasSynced) {
		t.Fatal("the index has not synced")
	}
	return NewClaims(index, live.NewRefresher(t.Context(), live.Deps{}), func(bmc.Key) lifecycle.Elsewhere { return lifecycle.Elsewhere{} })
}

// TestManyOfOneMachine: what many hosts have in common tells no machines apart.
func TestManyOfOneMachine(t *testing.T) {
	var all []*metal3.BareMetalHost
	for i := range 9 {
		h := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "host-" + strconv.Itoa(i), CreationTimestamp: metav1.NewTime(time.Unix(int64(i), 0))}}
		h.Spec.BMC.Address = "ipmi://192.0.2." + strconv.Itoa(i)
		h.Status.Ironic = &metal3.IronicStatus{NodeUUID: h.Name, ProvisionState: "manageable"}
		h.Status.Record.RegisteredWith = &metal3.RegisteredWith{BMC: lifecycle.BMCKey(h).String()}
		h.Status.HardwareDetails = &metal3.HardwareDetails{SystemVendor: metal3.HardwareSystemVendor{SerialNumber: "CZ1234567"}, NIC: []metal3.NIC{{MAC: "00:25:90:00:00:01"}}}
		all = append(all, h)
	}
	for n, want := range map[int]bool{8: true, 9: false} {
		c := claimsOf(t, all[:n]...)
		if found := lifecycle.ClaimOf(all[n-1], c.RivalsOf(all[n-1])).SameMachine; (found.Message != "") != want {
			t.Errorf("one of %d: %+v", n, found)
		}
	}
}

// TestWhoseNode: a node that another host has, or that reaches another BMC, is not taken.
func TestWhoseNode(t *testing.T) {
	const this, others = "uid-1", "uid-2" // as claimsOf gives them
	host := &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "host-0", UID: this},
		Spec:       metal3.BareMetalHostSpec{BMC: metal3.BMCDetails{Address: "ipmi://192.0.2.1", CredentialsName: "bmc"}},
	}
	other := host.DeepCopy()
	other.Namespace, other.Name, other.UID, other.Status.Provisioning.ID = "rack", "other", others, "theirs"
	c := claimsOf(t, host, other)
	own := ironic.Address{IPMIAddress: "192.0.2.1"}
	for name, test := range map[string]struct {
		node               ironic.Node
		anothers, canAdopt bool
	}{
		"a new one":                          {node: ironic.Node{UUID: "x", Address: own}, canAdopt: true},
		"one without an address":             {node: ironic.Node{UUID: "x"}},
		"another BMC":                        {node: ironic.Node{UUID: "x", Address: ironic.Address{IPMIAddress: "192.0.2.9"}}},
		"this host's name and another BMC":   {node: ironic.Node{UUID: "x", Name: "host-0", Address: ironic.Address{IPMIAddress: "192.0.2.9"}}},
		"the full name of another host":      {node: ironic.Node{UUID: "x", Name: "rack~other", Address: own}, anothers: true},
		"the mark of another host":           {node: ironic.Node{UUID: "x", Address: own, Marks: ironic.Marks{Host: others}}, anothers: true},
		"the mark of a host that is gone":    {node: ironic.Node{UUID: "x", Address: own, Marks: ironic.Marks{Host: "gone"}}, canAdopt: true},
		"the mark of this host":              {node: ironic.Node{UUID: "theirs", Address: own, Marks: ironic.Marks{Host: this}}, canAdopt: true},
		"what another host has recorded":     {node: ironic.Node{UUID: "theirs", Address: own}, anothers: true},
		"reserved, and failed to deploy":     {node: ironic.Node{UUID: "x", Address: own, ProvisionState: ironic.DeployFail, InstanceUUID: "a"}},
		"reserved, and failed to undeploy":   {node: ironic.Node{UUID: "x", Address: own, ProvisionState: ironic.Error, InstanceUUID: "a"}},
		"failed to deploy":                   {node: ironic.Node{UUID: "x", Address: own, ProvisionState: ironic.DeployFail}, canAdopt: true},
		"failed to deploy for this host":     {node: ironic.Node{UUID: "x", Address: own, ProvisionState: ironic.DeployFail, InstanceUUID: this}, canAdopt: true},
		"failed to deploy for a former host": {node: ironic.Node{UUID: "x", Address: own, ProvisionState: ironic.DeployFail, InstanceUUID: "a", Marks: ironic.Marks{Host: "gone"}}, canAdopt: true},
		"active":                             {node: ironic.Node{UUID: "x", Address: own, ProvisionState: ironic.Active, InstanceUUID: "a"}, canAdopt: true},
		"this host's name, another's record": {node: ironic.Node{UUID: "theirs", Name: "metal3~host-0", Address: own}, canAdopt: true},
	} {
		if got := c.IsNodeOfAnother(host, lifecycle.NodeFromIronic(&test.node)); got != test.anothers {
			t.Errorf("%s: another host's: %t", name, got)
		}
		if got := c.canAdopt(host, &test.node); got != test.canAdopt {
			t.Errorf("%s: may be taken: %t", name, got)
		}
	}
}
