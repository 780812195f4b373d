// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestDeployedByAnother: the node of a host that is being provisioned ends with what another user of Ironic has deployed. The host does not
// say that it runs its image, and so that is not undeployed when Ironic has lost the node, and with it whose the deployment is.
func TestDeployedByAnother(t *testing.T) {
	host := newHost(wantsImage("http://a"))
	for _, state := range []metal3.ProvisioningState{metal3.StatePreparing, metal3.StateAvailable, metal3.StateProvisioning} {
		enter(host, nodeIn(ironic.Available), Step{Do: SetState, State: state}, now)
	}
	changed := now
	node := nodeIn(ironic.Active, func(n *ironic.Node) {
		n.UUID, n.InstanceUUID, n.ProvisionUpdatedAt = host.Status.Provisioning.ID, "another", &changed
	})
	host = observed(host, node)
	host.Status.Record.Registration = newRegistration(host, metal3.RegisteredReason, "")
	if step, held := next(planned(host, node)); step.String() != "=provisioned" || held == nil || held.Reason != metal3.AnotherDeploymentReason {
		t.Fatalf("%s, held: %+v", step, held)
	}
	Enter(host, setState(metal3.StateProvisioned), now)
	if image := host.Status.Provisioning.Image; image.URL != "" {
		t.Errorf("it is said to run %s", image.URL)
	}
	if _, held := next(planned(host, node)); held == nil || held.Reason != metal3.AnotherDeploymentReason {
		t.Errorf("then held: %+v", held)
	}
	released := host.DeepCopy()
	released.Spec.Image, released.Spec.Online = nil, false
	if step, held := next(planned(released, node)); held == nil || step.Interrupts() {
		t.Errorf("when it is wanted no more: %s, held: %+v", step, held)
	}
	gone := host.DeepCopy()
	deleted(gone)
	if step, _ := next(planned(gone, node)); step.String() != "=deleting" {
		t.Errorf("deleted: %s, want =deleting, which leaves the machine as it is", step)
	}
	host, node = seenIn(host, node, "", ironic.Enroll, ironic.Manageable)
	host.Status.Record.Registration = newRegistration(host, metal3.RegisteredReason, "")
	deleted(host)
	if step, _ := next(planned(host, node)); step.String() != "=deleting" {
		t.Errorf("lost by Ironic, and deleted: %s, want =deleting", step)
	}
}

// TestConfirmedWhileDeploying: what a person has confirmed before it was active is what the host runs.
func TestConfirmedWhileDeploying(t *testing.T) {
	host := newHost(wantsImage("http://a"))
	for _, state := range []metal3.ProvisioningState{metal3.StatePreparing, metal3.StateAvailable, metal3.StateProvisioning} {
		enter(host, nodeIn(ironic.Available), Step{Do: SetState, State: state}, now)
	}
	node := nodeIn(ironic.DeployWait, func(n *ironic.Node) { n.UUID, n.InstanceUUID = host.Status.Provisioning.ID, "another" })
	if err := TakeOver(host, node, now); err != nil {
		t.Fatal(err)
	}
	node.ProvisionState = ironic.Active
	enter(host, node, setState(metal3.StateProvisioned), now)
	if image := host.Status.Provisioning.Image; image.URL != "http://a" {
		t.Errorf("it is said to run %q", image.URL)
	}
}

// TestIdentifyDeployment: what Ironic is to adopt of a host that was moved here is left on if it runs although spec.online is
// false, as everything that is found is.
func TestIdentifyDeployment(t *testing.T) {
	for name, test := range map[string]struct {
		host  hostOption
		node  func(*ironic.Node)
		keeps bool
		own   bool // that the node has its instance_uuid already
	}{
		"on, and to be off":        {host: offline, keeps: true},
		"off, and to be off":       {host: offline, node: off},
		"on, and to be on":         {host: func(*metal3.BareMetalHost) {}},
		"not known, and to be off": {host: offline, node: func(n *ironic.Node) { n.PowerState = "" }, keeps: true},
		"with the host's UID":      {host: offline, node: func(n *ironic.Node) { n.InstanceUUID = string(newHost().UID) }, keeps: true, own: true},
		"with another's":           {host: offline, node: func(n *ironic.Node) { n.InstanceUUID = "another" }, keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			host, node := provisionedBy(test.host)
			host.Status.Record = metal3.HostRecord{}
			node.ProvisionState, node.InstanceUUID = ironic.Manageable, ""
			if test.node != nil {
				test.node(node)
			}
			if IsIdentified(host, node) {
				t.Fatal("nothing is to be recorded")
			}
			IdentifyDeployment(host, node, now)
			d := host.Status.Record.Deployment
			if d == nil || d.KeepPower != test.keeps || !d.MayAdopt || d.InstanceUUID == "" || (d.InstanceUUID == node.InstanceUUID) != test.own || !IsIdentified(host, node) {
				t.Errorf("recorded: %+v", d)
			}
		})
	}
}

// TestIdentifyCreatedByHand: a person has created the node again, which Ironic had lost, and it has another UUID.
func TestIdentifyCreatedByHand(t *testing.T) {
	host, node := provisionedBy()
	host.Status.Record.Deployment.MayAdopt = true
	node.UUID, node.InstanceUUID, node.ProvisionState = "by-hand", "", ironic.Manageable
	host.Status.Provisioning.ID = node.UUID
	if IsIdentified(host, node) {
		t.Fatal("what is to be adopted is recorded for another node")
	}
	IdentifyDeployment(host, node, now)
	if d := host.Status.Record.Deployment; d.NodeUUID != node.UUID || !IsIdentified(host, node) {
		t.Errorf("recorded is %+v", d)
	}
}
