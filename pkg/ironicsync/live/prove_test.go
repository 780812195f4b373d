// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// TestWhyUnproven: whose a node is that Ironic has just returned, with all hosts of the cluster and whatever is recorded.
func TestWhyUnproven(t *testing.T) {
	own := ironic.Address{IPMIAddress: enginetest.NodeBMC}
	const cluster, anothers = "another cluster", "belongs to another host"
	named := enginetest.Namespace + "~" + enginetest.HostName(0)
	for name, test := range map[string]struct {
		node ironic.Node
		// other is the second host, which is older and has the node in its status, too; nil if there is none.
		other func(*metal3.BareMetalHost)
		// unproven and unconfirmable are parts of what the user is told; empty is nothing.
		unproven, unconfirmable string
		lists                   int
	}{
		"named and marked as this host's":          {node: ironic.Node{Name: named, Address: own, Marks: ironic.Marks{Host: "uid-0", Cluster: "this"}}, other: func(*metal3.BareMetalHost) {}},
		"named after this host":                    {node: ironic.Node{Name: named, Address: own}, other: func(*metal3.BareMetalHost) {}},
		"of nobody":                                {node: ironic.Node{Address: own}, lists: 2},
		"of nobody, and an older host has it":      {node: ironic.Node{Address: own}, other: func(*metal3.BareMetalHost) {}, unproven: anothers, unconfirmable: anothers, lists: 2},
		"of nobody, and a younger host has it":     {node: ironic.Node{Address: own}, other: func(h *metal3.BareMetalHost) { h.CreationTimestamp = metav1.NewTime(time.Unix(9, 0)) }, lists: 2},
		"marked as another host's":                 {node: ironic.Node{Address: own, Marks: ironic.Marks{Host: "uid-1", Cluster: "this"}}, other: func(h *metal3.BareMetalHost) { h.Status.Provisioning.ID = "" }, unproven: anothers, unconfirmable: anothers, lists: 2},
		"named after this, marked as another's":    {node: ironic.Node{Name: named, Address: own, Marks: ironic.Marks{Host: "uid-1", Cluster: "this"}}, other: func(h *metal3.BareMetalHost) { h.Status.Provisioning.ID = "" }, unproven: anothers, unconfirmable: anothers, lists: 2},
		"marked as a host's that is gone":          {node: ironic.Node{Name: named, Address: own, Marks: ironic.Marks{Host: "gone", Cluster: "this"}}, other: func(*metal3.BareMetalHost) {}, lists: 2},
		"of another cluster":                       {node: ironic.Node{Name: named, Address: own, Marks: ironic.Marks{Host: "x", Cluster: "that"}}, unproven: cluster, lists: 1},
		"of another cluster, in another namespace": {node: ironic.Node{Name: "rack~" + enginetest.HostName(0), Address: own, Marks: ironic.Marks{Host: "x", Cluster: "that"}}, unproven: anothers, unconfirmable: anothers},
		"with another BMC":                         {node: ironic.Node{Name: named, Address: ironic.Address{IPMIAddress: "192.0.2.77"}}, unproven: "BMC"},
		"with a BMC that Ironic does not tell":     {node: ironic.Node{Name: named}, unproven: "BMC"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, 0, enginetest.ReaderWait)
			defer b.Wait()
			defer b.stop()
			host := registeredHost(0)
			host.UID, host.CreationTimestamp = "uid-0", metav1.NewTime(time.Unix(2, 0))
			if test.other != nil {
				other := registeredHost(1)
				other.UID, other.CreationTimestamp, other.Status.Provisioning.ID = "uid-1", metav1.NewTime(time.Unix(1, 0)), host.Status.Provisioning.ID
				test.other(other)
				b.hosts.Add(other)
			}
			test.node.UUID = host.Status.Provisioning.ID
			b.hosts.Add(host)
			prover := live.NewProver(b.hosts, func() string { return "this" })
			lists := b.hosts.Lists()
			for what, ask := range map[string]struct {
				why  func() (string, error)
				want string
			}{
				"unproven":      {func() (string, error) { return prover.WhyUnproven(t.Context(), host, &test.node) }, test.unproven},
				"unconfirmable": {func() (string, error) { return prover.WhyUnconfirmable(t.Context(), host, &test.node) }, test.unconfirmable},
			} {
				why, err := ask.why()
				if err != nil || (why == "") != (ask.want == "") || !strings.Contains(why, ask.want) {
					t.Errorf("%s: %s because of %q, %v, want %q", name, what, why, err, ask.want)
				}
			}
			if lists = b.hosts.Lists() - lists; lists != test.lists {
				t.Errorf("%s: the hosts were listed %d times, want %d", name, lists, test.lists)
			}
		})
	}
}

// TestUnprovenNodeCostsNothing: of a node that is not proven to be the host's, the inventory is not read, and it is read
// again only when somebody asks.
func TestUnprovenNodeCostsNothing(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, b *bench) {
		finished := time.Now()
		b.nodes.Change(func() {
			b.nodes.ByID[enginetest.NodeID(0)] = ironic.Node{
				UUID: enginetest.NodeID(0), ProvisionState: ironic.Manageable, InspectionFinishedAt: &finished, LastError: "their error", Address: ironic.Address{IPMIAddress: "192.0.2.77"},
			}
			b.nodes.Inventory = &ironic.Inventory{}
		})
		for range 3 {
			if err := b.RefreshAll(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if err := b.RefreshHost(t.Context(), enginetest.Namespace, enginetest.HostName(0)); err != nil {
			t.Fatal(err)
		}
		host := b.hosts.Host(t, enginetest.HostName(0))
		if *host.Status.Ironic != (metal3.IronicStatus{NodeUUID: enginetest.NodeID(0), Unproven: metal3.AnotherBMCReason}) {
			t.Errorf("recorded: %+v", host.Status.Ironic)
		}
		if gets, _ := b.nodes.Asked(); gets != 1 || b.nodes.Inventories != 0 || b.hosts.Records != 1 {
			t.Errorf("the node was read %d times alone, its inventory %d times, and the host written %d times", gets, b.nodes.Inventories, b.hosts.Records)
		}
		if lifecycle.HasOwnNode(host) {
			t.Error("the host has a node of its own")
		}
	})
}
