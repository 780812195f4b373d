// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestWhoseNodeIs: what proves that a node is a host's, and what is told to the user of a host of whose it is not.
func TestWhoseNodeIs(t *testing.T) {
	uid := ironic.Text(newHost().UID)
	own, others, none := ownBMC, ironic.Address{IPMIAddress: "192.0.2.77"}, ironic.Address{}
	mark := func(host, cluster ironic.Text) ironic.Marks { return ironic.Marks{Host: host, Cluster: cluster} }
	takenOver := func(node ironic.Node) hostOption {
		return func(h *metal3.BareMetalHost) {
			is := takeoverOf(NodeFromIronic(&node), WholeSeconds(now), "")
			h.Status.Record.Takeover = &is
		}
	}
	told := func(key string) hostOption {
		return func(h *metal3.BareMetalHost) { h.Status.Record.RegisteredWith.BMC = key }
	}
	at := func(address string) hostOption {
		return func(h *metal3.BareMetalHost) { h.Spec.BMC.Address = address }
	}
	changed := func(h *metal3.BareMetalHost) { h.Generation++ }
	foreign := ironic.Node{Address: others, Marks: mark("x", "other")}
	const name = "metal3~host-0"
	for what, test := range map[string]struct {
		host      []hostOption
		node      ironic.Node
		cluster   string
		want      string // the reason; empty is proven
		concealed bool
	}{
		"made here":                                 {node: ironic.Node{Name: name, Address: own, Marks: mark(uid, "this")}, cluster: "this"},
		"made elsewhere, not marked":                {node: ironic.Node{Name: name, Address: own}, cluster: "this"},
		"marked as a host that is gone":             {node: ironic.Node{Name: name, Address: own, Marks: mark("x", "this")}, cluster: "this"},
		"made for another host":                     {node: ironic.Node{Name: "metal3~host-1", Address: own}, cluster: "this", want: metal3.NodeOfAnotherHostReason, concealed: true},
		"made for another namespace":                {node: ironic.Node{Name: "rack~host-0", Address: own}, cluster: "this", want: metal3.NodeOfAnotherHostReason, concealed: true},
		"another host's, taken over":                {host: []hostOption{takenOver(ironic.Node{Name: "metal3~host-1", Address: own})}, node: ironic.Node{Name: "metal3~host-1", Address: own}, cluster: "this", want: metal3.NodeOfAnotherHostReason, concealed: true},
		"of another cluster":                        {node: ironic.Node{Name: name, Address: own, Marks: mark("x", "other")}, cluster: "this", want: metal3.NodeOfAnotherClusterReason, concealed: true},
		"of another cluster, paused":                {host: []hostOption{annotated(metal3.PausedAnnotation, "")}, node: ironic.Node{Name: name, Address: own, Marks: mark("x", "other")}, cluster: "this", want: metal3.NodeOfAnotherClusterReason, concealed: true},
		"of another cluster, taken over":            {host: []hostOption{takenOver(foreign)}, node: foreign, cluster: "this"},
		"of some cluster, and this is not known":    {node: ironic.Node{Name: name, Address: own, Marks: mark("x", "this")}, want: metal3.NodeOfAnotherClusterReason, concealed: true},
		"this host's, and the cluster is not known": {node: ironic.Node{Name: name, Address: own, Marks: mark(uid, "this")}},
		"this host's, marked by another cluster":    {node: ironic.Node{Name: name, Address: own, Marks: mark(uid, "other")}, cluster: "this", want: metal3.NodeOfAnotherClusterReason},
		"with another BMC":                          {node: ironic.Node{Name: name, Address: others}, cluster: "this", want: metal3.AnotherBMCReason, concealed: true},
		"with another BMC, marked as this host's":   {node: ironic.Node{Name: name, Address: others, Marks: mark(uid, "this")}, cluster: "this", want: metal3.AnotherBMCReason},
		"with the BMC that Ironic was told":         {host: []hostOption{told("ipmi 192.0.2.77:623")}, node: ironic.Node{Name: name, Address: others}, cluster: "this"},
		"whose BMC was changed before it was told":  {host: []hostOption{changed, func(h *metal3.BareMetalHost) { h.Status.Record.RegisteredWith = nil }}, node: ironic.Node{Name: name, Address: others, Marks: mark(uid, "this")}, cluster: "this"},
		"whose driver does not read the address":    {node: ironic.Node{Name: name, Address: own, Driver: "ilo"}, cluster: "this", want: metal3.AnotherBMCReason, concealed: true},
		"of an earlier driver":                      {node: ironic.Node{Name: name, Address: own, Driver: "redfish"}, cluster: "this", want: metal3.AnotherBMCReason, concealed: true},
		"whose driver reads the address":            {node: ironic.Node{Name: name, Address: own, Driver: "ipmi"}, cluster: "this"},
		"whose BMC Ironic does not tell":            {node: ironic.Node{Name: name, Address: none, Driver: "ilo"}, cluster: "this", want: metal3.AnotherBMCReason, concealed: true},
		"whose BMC Ironic does not tell, made here": {node: ironic.Node{Name: name, Address: none, Marks: mark(uid, "this")}, cluster: "this"},
		"whose BMC Ironic does not tell, registered": {host: []hostOption{told("ipmi 192.0.2.1:623")}, node: ironic.Node{Name: name, Address: none}, cluster: "this",
			want: metal3.AnotherBMCReason, concealed: true},
		"whose BMC Ironic does not tell, taken over": {host: []hostOption{takenOver(ironic.Node{Name: name})}, node: ironic.Node{Name: name}, cluster: "this"},
		"of a host that names no BMC":                {host: []hostOption{at(""), told("")}, node: ironic.Node{Name: name, Address: own}, cluster: "this", want: metal3.AnotherBMCReason, concealed: true},
		"of a host that names none, made here":       {host: []hostOption{at(""), told("")}, node: ironic.Node{Name: name, Address: own, Marks: mark(uid, "this")}, cluster: "this"},
		"neither names one":                          {host: []hostOption{at(""), told("")}, node: ironic.Node{Name: name}, cluster: "this", want: metal3.AnotherBMCReason, concealed: true},
	} {
		host := newHost(test.host...)
		host.Status.Record.Ironic = "room-b"
		test.node.UUID, test.node.InstanceUUID, test.node.LastError = host.Status.Provisioning.ID, "their-instance", "their error"
		if takeover := host.Status.Record.Takeover; takeover != nil {
			takeover.NodeUUID, takeover.InstanceUUID = test.node.UUID, test.node.InstanceUUID
		}
		reason := ""
		if c := unproven(host, NodeFromIronic(&test.node), test.cluster); c != nil {
			reason = c.reason
		}
		if reason != test.want {
			t.Errorf("%s: %q, want %q", what, reason, test.want)
		}
		why := WhyUnproven(host, &test.node, test.cluster)
		if (why != "") != (test.want != "") {
			t.Errorf("%s: the user is told %q", what, why)
		}
		seen := Observation{Node: &test.node, Cluster: test.cluster}
		status, _ := Observe(host, seen, now)
		if concealed := status.Ironic.Unproven != ""; concealed != test.concealed || seen.IsConcealed(host) != test.concealed {
			t.Errorf("%s: shown is %+v", what, status.Ironic)
		}
		for _, secret := range []string{"192.0.2.77", "their", "other\""} {
			if test.concealed && strings.Contains(why, secret) {
				t.Errorf("%s: a stranger is told %q", what, why)
			}
		}
		if test.concealed && (*status.Ironic != metal3.IronicStatus{NodeUUID: test.node.UUID, Instance: "room-b", Unproven: test.want} || status.Provisioning.State != host.Status.Provisioning.State) {
			t.Errorf("%s: recorded is %+v, %s", what, status.Ironic, status.Provisioning.State)
		}
		// What was recorded of it, the leader goes by.
		host.Status = status
		s := Situation{Host: host, SecretVersion: "7", Cluster: test.cluster, Claim: Claim{OtherNodes: OtherNodes{AsOf: now}}, ObservedAt: now}
		step := Next(s)
		if held := step.Do == Hold; held != (test.want != "" && !metal3.IsPaused(host)) || held && step.Reason != test.want {
			t.Errorf("%s: the next step is %s, for %s", what, step, step.Reason)
		}
		if HasOwnNode(host) != (!test.concealed && host.Status.Record.RegisteredWith != nil) {
			t.Errorf("%s: it has a node of its own: %t", what, HasOwnNode(host))
		}
	}
}

// TestNoTakeoverOfAnotherHosts: what a person has confirmed does not outrank that another host has the node.
func TestNoTakeoverOfAnotherHosts(t *testing.T) {
	host, node := provisionedBy()
	if err := TakeOver(host, node, now); err != nil {
		t.Fatal(err)
	}
	s := planned(host, node)
	if _, held := next(s); held != nil {
		t.Fatalf("held: %v", held)
	}
	s.NodeOfAnother = true
	if _, held := next(s); held == nil || held.Reason != metal3.NodeOfAnotherHostReason {
		t.Errorf("held is %v", held)
	}
}

// TestLiesInAStatus: whoever may write a status, and of that only what the server does not decide by, has no machine
// interrupted that would not be without.
func TestLiesInAStatus(t *testing.T) {
	lies := map[string]hostOption{
		"OperationalStatus":           func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusDiscovered },
		"OperationalStatus, delayed":  func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusDelayed },
		"OperationalStatus, an error": func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusError },
		"ErrorType":                   func(h *metal3.BareMetalHost) { h.Status.ErrorType = metal3.ProvisioningError },
		"ErrorMessage":                func(h *metal3.BareMetalHost) { h.Status.ErrorMessage = "the deployment failed" },
		"Conditions":                  func(h *metal3.BareMetalHost) { h.Status.Conditions = nil },
		"LastUpdated":                 func(h *metal3.BareMetalHost) { h.Status.LastUpdated = StatusTime(now.AddDate(100, 0, 0)) },
		"ErrorCount":                  func(h *metal3.BareMetalHost) { h.Status.ErrorCount = 100 },
		"ProvisioningFailCount":       func(h *metal3.BareMetalHost) { h.Status.ProvisioningFailCount = 100 },
	}
	runs := func(state metal3.ProvisioningState) hostOption {
		return func(h *metal3.BareMetalHost) {
			withState(state)(h)
			h.Status.Provisioning.Image = metal3.Image{URL: "http://images/v1"}
			h.Status.Record.Deployment = &metal3.Deployment{NodeUUID: "u", InstanceUUID: "i"}
		}
	}
	running := nodeIn(ironic.Active, func(n *ironic.Node) { n.InstanceUUID = "i" })
	for state, test := range map[string]struct {
		host []hostOption
		node *ironic.Node
	}{
		"provisioned":            {[]hostOption{runs(metal3.StateProvisioned), wantsImage("http://images/v1")}, running},
		"provisioning":           {[]hostOption{runs(metal3.StateProvisioning), attempting("http://images/v1"), wantsImage("http://images/v1")}, nodeIn(ironic.DeployWait, func(n *ironic.Node) { n.InstanceUUID = "i" })},
		"externally provisioned": {[]hostOption{withState(metal3.StateExternallyProvisioned), externallyProvisioned}, running},
		"available":              {[]hostOption{prepared}, nodeIn(ironic.Manageable)},
		"deployed by somebody":   {[]hostOption{prepared}, nodeIn(ironic.Active, func(n *ironic.Node) { n.InstanceUUID = "their-instance" })},
		"half deployed by somebody": {[]hostOption{withState(metal3.StateProvisioning), wantsImage("http://images/v1"), func(h *metal3.BareMetalHost) { h.Status.HardwareProfile = "unknown" }},
			nodeIn(ironic.DeployFail, func(n *ironic.Node) { n.InstanceUUID = "their-instance" })},
	} {
		for lie, tell := range lies {
			host := newHost(test.host...)
			honest, _ := next(planned(host, test.node))
			tell(host)
			if step, _ := next(planned(host, test.node)); step.Interrupts() && step.String() != honest.String() {
				t.Errorf("%s: with a lie about %s, %s, and without it, %s", state, lie, step, honest)
			}
			// Nor after the next observation, which concludes from what is recorded.
			host = observe(host, test.node)
			if step, _ := next(planned(host, test.node)); step.Interrupts() && step.String() != honest.String() {
				t.Errorf("%s: observed with a lie about %s, %s, and without it, %s", state, lie, step, honest)
			}
		}
	}
}
