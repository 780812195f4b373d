// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestHoldEnds: an error of before a hold, which may be over since, is no error of after it.
func TestHoldEnds(t *testing.T) {
	for reason, stays := range map[string]bool{metal3.SecretNotFoundReason: false, metal3.IronicRefusedReason: false, metal3.BMCInUseReason: true} {
		host := newHost(withState(metal3.StateProvisioned))
		SetNotRegistered(host, reason, "told before the hold")
		Render(host, now)
		SetHold(host, Step{Do: Hold, Reason: metal3.NodeOfAnotherClusterReason, Message: "held"})
		Render(host, now)
		SetHold(host, Step{Do: Hold})
		Render(host, now)
		if shown := host.Status.ErrorMessage != ""; shown != stays {
			t.Errorf("%s: shows %q, with the count %d, after the hold", reason, host.Status.ErrorMessage, host.Status.ErrorCount)
		}
	}
}

// TestAsOfRestore: a host that has run something is of a backup until Ironic shows that, or works on the end of it; others only while all are held.
func TestAsOfRestore(t *testing.T) {
	for name, test := range map[string]struct {
		state    metal3.ProvisioningState
		node     *ironic.Node
		restored string
		want     int64
	}{
		"available":                            {state: metal3.StateAvailable, node: nodeIn(ironic.Available), want: 2},
		"available, held":                      {state: metal3.StateAvailable, node: nodeIn(ironic.Available), restored: "etcd was restored"},
		"available, its node is lost":          {state: metal3.StateAvailable, want: 2},
		"provisioned":                          {state: metal3.StateProvisioned, node: nodeIn(ironic.Active), want: 2},
		"provisioned, its node is lost":        {state: metal3.StateProvisioned},
		"provisioned, its node made again":     {state: metal3.StateProvisioned, node: nodeIn(ironic.Manageable)},
		"provisioning, its node made again":    {state: metal3.StateProvisioning, node: nodeIn(ironic.Manageable)},
		"deprovisioning, its node is lost":     {state: metal3.StateDeprovisioning},
		"deprovisioning, Ironic works on that": {state: metal3.StateDeprovisioning, node: nodeIn(ironic.Cleaning), want: 2},
	} {
		host := newHost(withState(test.state), runs("http://images/v1"), wantsImage("http://images/v1"))
		s := planned(host, test.node)
		s.RestoredAt, s.Restored = 2, test.restored
		for range 3 {
			if step := nextOf(s); step.Do == Hold {
				SetHold(host, step)
			}
		}
		if got := host.Status.Record.AsOfRestore; got != test.want {
			t.Errorf("%s: as of the restore at %d, want %d", name, got, test.want)
		}
	}
}

// TestAsOfRestoreIsNotedLater: that a host at which nothing happens is not of the backup is noted also if the server planned for it before it
// knew all nodes.
func TestAsOfRestoreIsNotedLater(t *testing.T) {
	host := newHost(withState(metal3.StateAvailable), prepared)
	host.Spec.Online, host.Status.PoweredOn = true, true
	s := planned(host, nodeIn(ironic.Available))
	s.RestoredAt, s.OtherNodes.AsOf = 2, time.Time{}
	if step := nextOf(s); step.Do != Wait || step.After != sharedPause {
		t.Errorf("the nodes are not known: %s, want a wait of %s", step, sharedPause)
	}
	s.RestoredAt = 0
	if step := nextOf(s); step.Do != Wait || step.After != 0 {
		t.Errorf("and nothing was restored: %s, want Wait", step)
	}
}

// TestHoldOfAllHosts: what was found of a host before all hosts were held counts again afterwards, and rests on no memory of the server's.
func TestHoldOfAllHosts(t *testing.T) {
	for name, test := range map[string]struct {
		was  metal3.Hold
		node *ironic.Node
		with func(*situation)
	}{
		"another deployment, and its node has gone since": {was: metal3.Hold{Reason: metal3.AnotherDeploymentReason, Message: "seen"}, node: nodeIn(ironic.Manageable)},
		"a node in another Ironic, which cannot be read":  {was: metal3.Hold{Reason: metal3.BMCInUseReason, Message: "seen", Elsewhere: true}, node: nodeIn(ironic.Active), with: func(s *situation) { s.OtherNodes.MayExistElsewhere = true }},
		"another Ironic, which was not read since":        {was: metal3.Hold{Reason: metal3.AnotherIronicReason, Message: "seen"}, with: func(s *situation) { s.NodeMayExist = true }},
	} {
		host := newHost(withState(metal3.StateDeprovisioning), runs("http://images/v1"), func(h *metal3.BareMetalHost) {
			h.Status.Record.Hold, h.Status.OperationHistory.Deprovision.Start = &test.was, WholeSeconds(now)
		})
		s := planned(host, test.node)
		if test.with != nil {
			test.with(&s)
		}
		for _, all := range []*string{&s.Restored, &s.OperatorRunning, &s.Restored} {
			s.Restored, s.OperatorRunning = "", ""
			*all = "for all hosts"
			SetHold(host, nextOf(s))
		}
		if !host.Status.Record.Hold.IsOfAllHosts() {
			t.Fatalf("%s: held because of %s", name, host.Status.Record.Hold.Reason)
		}
		s.Restored, s.OperatorRunning = "", ""
		for range 3 {
			step := nextOf(s)
			if step.Do == Hold {
				SetHold(host, step)
			} else if step.Do != Wait {
				t.Errorf("%s: %s", name, step)
			}
		}
		if hold := host.Status.Record.Hold; hold == nil || hold.Reason != test.was.Reason || hold.Elsewhere != test.was.Elsewhere || host.Status.Record.HeldBefore != nil {
			t.Errorf("%s: held because of %+v at last", name, hold)
		}
	}
}

// TestHoldIsNoFailure: the deletion of a host does not give up its machine because the host is held.
func TestHoldIsNoFailure(t *testing.T) {
	host := newHost(withState(metal3.StateProvisioned))
	SetHold(host, Step{Do: Hold, Reason: metal3.AnotherDeploymentReason, Message: "held"})
	Render(host, now)
	if s := &host.Status; s.ErrorMessage == "" || s.ErrorCount != 0 || s.Record.MachineErrors != 0 {
		t.Errorf("shows %q, with %d errors, %d of them of the machine", s.ErrorMessage, s.ErrorCount, s.Record.MachineErrors)
	}
}
