// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestTakeoverCountsForWhatWasSeen: what a person has confirmed holds as long as the node is
// as it was then.
func TestTakeoverCountsForWhatWasSeen(t *testing.T) {
	host := newHost(withState(metal3.StateProvisioned), runs("http://images/v1"), wantsImage("http://images/v2"), func(h *metal3.BareMetalHost) {
		h.Status.Record.Deployment = &metal3.Deployment{NodeUUID: "u", InstanceUUID: "x"}
	})
	node := nodeIn(ironic.Active, func(n *ironic.Node) {
		n.InstanceUUID, n.Address.IPMIAddress, n.Marks.Cluster = "y", "192.0.2.77", "another"
	})
	s := planned(host, node)
	s.Cluster = "this"
	if step, held := next(s); step.Do != Wait || held == nil {
		t.Fatalf("%s, held %v", step, held)
	}
	if err := TakeOver(host, node, now); err != nil {
		t.Fatal(err)
	}
	if _, held := next(s); held != nil {
		t.Errorf("confirmed: held %v", held)
	}
	if image := host.Status.Provisioning.Image.URL; image != "http://images/v2" {
		t.Errorf("it is taken for running %q", image)
	}
	s.Node.Marks.Cluster = "a third one"
	if _, held := next(s); held == nil || held.Reason != metal3.NodeOfAnotherClusterReason {
		t.Errorf("changed since: held %v", held)
	}
}

// TestTakeoverNamesWhatWasSeen: that another node has the host's BMC is confirmed only by a takeover of a host that was
// held for it, and no takeover outlasts the deployment that it was about.
func TestTakeoverNamesWhatWasSeen(t *testing.T) {
	host, node := provisionedBy()
	shared := func() *metal3.Hold {
		s := planned(host, node)
		s.OtherNodes.Exist = true
		_, held := next(s)
		return held
	}
	SetHold(host, Step{Reason: metal3.AnotherDeploymentReason, Message: "seen"})
	if err := TakeOver(host, node, now); err != nil {
		t.Fatal(err)
	}
	if held := shared(); held == nil || held.Reason != metal3.BMCInUseReason {
		t.Errorf("confirmed before the other node was there: held %v", held)
	}
	SetHold(host, Step{Reason: metal3.BMCInUseReason, Message: "seen"})
	if err := TakeOver(host, node, now); err != nil {
		t.Fatal(err)
	}
	if held := shared(); held != nil {
		t.Errorf("confirmed in view of it: held %v", held)
	}
	node.Marks = ironic.Marks{Host: ironic.Text(host.UID), Cluster: "this"} // as it is registered because of that
	if held := shared(); held != nil {
		t.Errorf("the node has the host's marks: held %v", held)
	}
	node.Marks = ironic.Marks{Host: "another", Cluster: "another"}
	if held := shared(); held == nil {
		t.Error("not held, and the node has marks of another host")
	}
	node.Marks = ironic.Marks{}
	for _, state := range []metal3.ProvisioningState{metal3.StateDeprovisioning, metal3.StateAvailable} {
		enter(host, node, Step{Do: SetState, State: state}, now)
	}
	if host.Status.Record.Takeover != nil {
		t.Errorf("the next deployment has the takeover %+v", host.Status.Record.Takeover)
	}
}

// TestTakeoverOutlastsAdoption: what a person confirms of a node that Ironic is to adopt still holds when this server has named what it runs.
func TestTakeoverOutlastsAdoption(t *testing.T) {
	host, node := provisionedBy()
	host, node = seenIn(host, node, ironic.Active, "", ironic.Enroll, ironic.Verifying, ironic.Manageable)
	lost := *node
	lost.InstanceUUID = ""
	SetHold(host, Step{Reason: metal3.BMCInUseReason, Message: "seen"})
	if err := TakeOver(host, &lost, now); err != nil {
		t.Fatal(err)
	}
	for instance, want := range map[string]bool{"": true, recordedInstance(host): true, "another": false} {
		seen := lost
		seen.ProvisionState, seen.InstanceUUID = ironic.Active, instance
		if got := isSharedBMCConfirmed(host, NodeFromIronic(&seen)); got != want {
			t.Errorf("with instance_uuid %q: confirmed %t, want %t", instance, got, want)
		}
	}
}

// TestTwoMachinesAreConfirmedOnce: a person confirms that two hosts are of two machines for good, and nothing else with it.
func TestTwoMachinesAreConfirmedOnce(t *testing.T) {
	host, node := provisionedBy()
	other := newHost()
	other.UID = "b"
	s := planned(host, node)
	s.SameMachine = SameMachine{Host: other.UID, Message: "Host \"b\" is of the same machine"}
	step, held := next(s)
	if held == nil || held.Other != other.UID {
		t.Fatalf("%s, held %+v", step, held)
	}
	host.Status.Record.Hold = held
	registered := host.Status.Record.RegisteredWith.DeepCopy()
	if err := TakeOver(host, node, now); err != nil {
		t.Fatal(err)
	}
	if record := host.Status.Record; record.Hold != nil || record.Takeover != nil || !equality.Semantic.DeepEqual(record.RegisteredWith, registered) {
		t.Errorf("confirmed: %+v", record)
	}
	for _, state := range []metal3.ProvisioningState{metal3.StateDeprovisioning, metal3.StateAvailable, metal3.StateProvisioning} {
		enter(host, node, Step{Do: SetState, State: state}, now)
	}
	if !AreConfirmedApart(host, other) || !AreConfirmedApart(other, host) || AreConfirmedApart(host, newHost()) {
		t.Errorf("after another deployment, the confirmed ones are %v", host.Status.Record.OtherMachines)
	}
}

// TestResemblanceIsTold: what the machine has in common with another host's is shown, and nothing waits for it.
func TestResemblanceIsTold(t *testing.T) {
	s := planned(provisionedBy())
	s.SameMachine.Resembles = "Host \"b\" in this namespace has a machine with the same serial number"
	step := nextOf(s)
	if step.Do != NoteResemblance {
		t.Fatalf("at rest: %s", step)
	}
	SetResemblance(s.Host, step.Message)
	Render(s.Host, now)
	if c := meta.FindStatusCondition(s.Host.Status.Conditions, metal3.MachineUniqueCondition); c == nil || c.Status != metav1.ConditionFalse || c.Message != s.SameMachine.Resembles {
		t.Errorf("the condition is %+v", c)
	}
	if step := nextOf(s); step.Do != Wait {
		t.Errorf("told: %s", step)
	}
	s.SameMachine.Resembles = ""
	if step := nextOf(s); step.Do != NoteResemblance {
		t.Errorf("over: %s", step)
	}
	s.Host.Spec.Image = nil
	s.SameMachine.Resembles = "another"
	if step := nextOf(s); step.Do != SetState {
		t.Errorf("without an image: %s", step)
	}
}

// TestTakeoverEndsAnOldAttempt: a host that was being provisioned with another image in a
// backup runs what its spec says now, once a person has confirmed that.
func TestTakeoverEndsAnOldAttempt(t *testing.T) {
	host := newHost(withState(metal3.StateProvisioning), attempting("http://images/v1"), wantsImage("http://images/v2"), func(h *metal3.BareMetalHost) {
		h.Status.Record.Deployment = &metal3.Deployment{NodeUUID: "u", InstanceUUID: "x"}
	})
	node := nodeIn(ironic.Active, func(n *ironic.Node) { n.InstanceUUID = "y" })
	if err := TakeOver(host, node, now); err != nil {
		t.Fatal(err)
	}
	registeredAs()(host) // Ironic is told anew of the host first
	for range 3 {
		if step := nextOf(planned(host, node)); step.Do == SetState {
			enter(host, node, step, now)
		}
	}
	if p := host.Status.Provisioning; p.State != metal3.StateProvisioned || p.Image.URL != "http://images/v2" {
		t.Errorf("it is %s with image %q", p.State, p.Image.URL)
	}
}

// TestInstanceOfEachAttempt: two attempts to provision a host have different instances, and
// the same attempt has the same one in each process.
func TestInstanceOfEachAttempt(t *testing.T) {
	host := newHost()
	first := newInstanceUUID(host, metav1.NewTime(now))
	if again := newInstanceUUID(host.DeepCopy(), metav1.NewTime(now)); again != first {
		t.Errorf("%s and %s", first, again)
	}
	if second := newInstanceUUID(host, metav1.NewTime(now.Add(time.Second))); second == first {
		t.Error("the next attempt has the same")
	}
}

// TestTakeoverOfAvailable: what a person has confirmed of a host that counts as available is what the host is to run, and no deployment of
// its own that has begun late and would be undone.
func TestTakeoverOfAvailable(t *testing.T) {
	host := newHost(withState(metal3.StateAvailable), prepared, wantsImage("http://images/a"))
	node := nodeIn(ironic.Active, func(n *ironic.Node) { n.InstanceUUID = "another" })
	SetHold(host, Step{Reason: metal3.NodeOfAnotherClusterReason, Message: "seen"})
	registered := host.Status.Record.RegisteredWith
	host = observe(host, node)
	if err := TakeOver(host, node, now); err != nil {
		t.Fatal(err)
	}
	host.Status.Record.RegisteredWith = registered
	if step := nextOf(planned(host, node)); step.String() != "=provisioned" {
		t.Fatalf("the next step is %s", step)
	}
	enter(host, node, Step{Do: SetState, State: metal3.StateProvisioned}, now)
	if step := nextOf(planned(host, node)); step.Do != Wait || host.Status.Provisioning.Image.URL != "http://images/a" {
		t.Errorf("it runs %q, and the next step is %s", host.Status.Provisioning.Image.URL, step)
	}
}
