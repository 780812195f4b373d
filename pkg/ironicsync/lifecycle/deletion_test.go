// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// deletionBegun is for hosts that are deprovisioned because they are deleted.
func deletionBegun(h *metal3.BareMetalHost) {
	h.Status.OperationHistory.Deprovision = metal3.OperationMetric{Start: created}
}

// What was mended, or asked for, after Ironic was told last: a password, a spec.
func TestDeletionTellsIronicFirst(t *testing.T) {
	secretMended := func(s *situation) { s.SecretVersion = "8" }
	specChanged := func(s *situation) { s.Host.Generation++ }
	refused := withRegistration(metal3.IronicRefusedReason, "no")
	deprovisioning := []hostOption{deleted, withState(metal3.StateDeprovisioning), deletionBegun}
	poweringOff := []hostOption{deleted, withState(metal3.StatePoweringOffBeforeDelete)}
	deploying := []hostOption{withState(metal3.StateProvisioning), wantsImage("http://images/a"), attempting("http://images/a"), deleted, func(h *metal3.BareMetalHost) {
		h.Status.Record.Deployment = &metal3.Deployment{NodeUUID: "u", InstanceUUID: "i"}
	}}
	lost := func(h *metal3.BareMetalHost) { h.Status.Record.Deployment.MayAdopt = true }
	nameless := []hostOption{prepared, withState(metal3.StateProvisioned), func(h *metal3.BareMetalHost) {
		h.Status.Record.Deployment = &metal3.Deployment{NodeUUID: "u", InstanceUUID: "i"}
	}}
	undeployed := func(h *metal3.BareMetalHost) {
		h.Status.Record.Deployment.Gone = &metal3.GoneDeployment{ProvisionState: string(ironic.CleanFail)}
	}
	for name, tt := range map[string]struct {
		options []hostOption
		node    *ironic.Node
		change  []func(*situation)
		want    string
	}{
		"before undeploying":                    {deprovisioning, nodeIn(ironic.Active), []func(*situation){specChanged}, "Register"},
		"before undeploying again":              {deprovisioning, nodeIn(ironic.Error), []func(*situation){secretMended}, "Register"},
		"before cleaning again":                 {deprovisioning, nodeIn(ironic.CleanFail, fault(ironic.FaultCleanFailure)), []func(*situation){secretMended}, "Register"},
		"before switching off":                  {poweringOff, nodeIn(ironic.Available), []func(*situation){secretMended}, "Register"},
		"for a ramdisk only":                    {and(poweringOff, registeredAs(dueWhenIdle)), nodeIn(ironic.Available), nil, "power-off"},
		"for a ramdisk to clean":                {and(deprovisioning, registeredAs(dueWhenIdle)), nodeIn(ironic.Manageable), nil, "Register"},
		"off already":                           {poweringOff, nodeIn(ironic.Available, off), []func(*situation){secretMended}, "=deleting"},
		"perhaps on":                            {poweringOff, nodeIn(ironic.Available, func(n *ironic.Node) { n.PowerState = "error" }), nil, "power-off"},
		"perhaps on, as ever":                   {poweringOff, nodeIn(ironic.Available, func(n *ironic.Node) { n.PowerState = "" }), nil, "power-off"},
		"not cleaned yet":                       {deploying, nodeIn(ironic.Manageable), nil, "=powering-off-before-delete"},
		"lost while it was deployed":            {and(deploying, lost), nodeIn(ironic.Manageable), nil, "=deprovisioning"},
		"nothing new":                           {deprovisioning, nodeIn(ironic.Active), nil, "deleted"},
		"Ironic would not take it":              {deprovisioning, nodeIn(ironic.DeployWait), []func(*situation){specChanged}, "deleted"},
		"being cleaned":                         {deprovisioning, nodeIn(ironic.Cleaning), []func(*situation){secretMended}, "Wait"},
		"cleaned":                               {deprovisioning, nodeIn(ironic.Available), []func(*situation){secretMended}, "=powering-off-before-delete"},
		"without Secret":                        {deprovisioning, nodeIn(ironic.Active), []func(*situation){specChanged, func(s *situation) { s.SecretVersion = "" }}, "deleted"},
		"address not understood":                {and(deprovisioning, func(h *metal3.BareMetalHost) { h.Spec.BMC.Address = "telnet://192.0.2.1" }), nodeIn(ironic.Active), []func(*situation){specChanged}, "deleted"},
		"refused just now":                      {and(deprovisioning, refused), nodeIn(ironic.Active), []func(*situation){hold}, "deleted"},
		"refused just now, still on":            {and(poweringOff, refused), nodeIn(ironic.Available), []func(*situation){hold}, "power-off"},
		"refused a while ago":                   {and(deprovisioning, refused), nodeIn(ironic.Error), nil, "Register"},
		"refused too often":                     {and(deprovisioning, refused, withError(metal3.RegistrationError, "no", 3)), nodeIn(ironic.Active), nil, "=powering-off-before-delete"},
		"given up, still on":                    {and(poweringOff, withError(metal3.PowerManagementError, "no", 3)), nodeIn(ironic.Available), []func(*situation){secretMended}, "=deleting"},
		"on its way out":                        {[]hostOption{deleted, withState(metal3.StateDeleting)}, nodeIn(ironic.Available), []func(*situation){secretMended}, "DeleteNode"},
		"externally provisioned, on":            {and(poweringOff, externallyProvisioned), nodeIn(ironic.Active), []func(*situation){secretMended}, "Register"},
		"what nobody has named":                 {and(nameless, deleted), nodeIn(ironic.Active), nil, "=deleting"},
		"what nobody has named, lost":           {and(nameless, deleted), nodeIn(ironic.Manageable), nil, "=deleting"},
		"what nobody has named, not adopted":    {and(nameless, deleted), nodeIn(ironic.AdoptFail), nil, "=deleting"},
		"what nobody has named, and undeployed": {and(nameless, deleted, undeployed), nodeIn(ironic.Available), nil, "=powering-off-before-delete"},
		"never to be off":                       {and(deprovisioning, neverOff), nodeIn(ironic.Active), nil, "deleted"},
	} {
		s := planned(newHost(tt.options...), tt.node)
		for _, change := range tt.change {
			change(&s)
		}
		if got := nextOf(s).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// Errors from before a deletion are not its own: each host has three tries to be
// deprovisioned, also if the clock of the replica that began to deprovision it before was wrong.
func TestDeletionCountsItsOwnErrors(t *testing.T) {
	provisioning := []hostOption{withState(metal3.StateProvisioning), wantsImage("http://images/a"), attempting("http://images/a"), failedTimes(3)}
	began := func(ago time.Duration) hostOption {
		return func(h *metal3.BareMetalHost) {
			h.Status.OperationHistory.Deprovision.Start = metav1.NewTime(created.Add(ago))
		}
	}
	for name, tt := range map[string]struct {
		options []hostOption
		node    *ironic.Node
		next    string // after the deletion has begun
	}{
		"deployment failed":         {provisioning, nodeIn(ironic.DeployFail), "deleted"},
		"fourth deployment":         {provisioning, nodeIn(ironic.DeployWait), "deleted"},
		"provisioned, power failed": {provisionedHost, nodeIn(ironic.Active), "deleted"},
		"cleaning goes on":          {[]hostOption{withState(metal3.StateDeprovisioning), began(-time.Hour), failedTimes(3)}, nodeIn(ironic.CleanWait), "Wait"},
		"undeploying failed":        {[]hostOption{withState(metal3.StateDeprovisioning), began(-time.Hour)}, nodeIn(ironic.Error), "deleted"},
		"failed, a clock ahead":     {[]hostOption{withState(metal3.StateDeprovisioning), began(time.Hour)}, nodeIn(ironic.Error), "deleted"},
		"node lost":                 {provisionedHost, nil, "CreateNode"},
		"node lost, registered":     {provisionedHost, nodeIn(ironic.Enroll), "Register"},
	} {
		host := newHost(and(tt.options, withError(metal3.ProvisioningError, "no", 3))...)
		SetFailure(host, metal3.ProvisioningError, "no")
		deleted(host)
		step := nextOf(planned(host, tt.node))
		if got := step.String(); got != "=deprovisioning" {
			t.Errorf("%s: %s, want =deprovisioning", name, got)
			continue
		}
		enter(host, tt.node, step, now)
		if host.Status.ErrorCount != 0 || host.Status.Record.Failure != nil {
			t.Errorf("%s: %d errors, and the failed step is shown", name, host.Status.ErrorCount)
		}
		host.Status.Record.Error = nil
		if got := nextOf(planned(host, tt.node)).String(); got != tt.next {
			t.Errorf("%s: then %s, want %s", name, got, tt.next)
		}
		// From now on they are.
		host.Status.ErrorCount, host.Status.Record.MachineErrors = 3, 3
		if got := nextOf(planned(host, tt.node)).String(); got == "=deprovisioning" {
			t.Errorf("%s: the deletion begins anew", name)
		}
	}
}

// A server whose clock is late does not take a deletion for one that has not begun.
func TestDeletionBeginsOnce(t *testing.T) {
	host := newHost(and(provisionedHost, deleted)...)
	enter(host, nodeIn(ironic.Active), Step{Do: SetState, State: metal3.StateDeprovisioning}, created.Add(-time.Minute))
	if !isDeletionBegun(host) {
		t.Errorf("deprovisioning since %v, deleted at %v", host.Status.OperationHistory.Deprovision.Start, host.DeletionTimestamp)
	}
	image := host.Status.Provisioning.Image
	enter(host, nodeIn(ironic.Active), Step{Do: SetState, State: metal3.StateDeprovisioning}, now)
	if !host.Status.OperationHistory.Deprovision.End.IsZero() || host.Status.Provisioning.Image != image {
		t.Error("a state that is entered again has not ended")
	}
}

// What is under way is not broken off for errors of the way there.
func TestDeletionGivesUpWhatStands(t *testing.T) {
	for state, want := range map[ironic.ProvisionState]string{
		ironic.Error: "=powering-off-before-delete", ironic.Active: "=powering-off-before-delete", ironic.CleanFail: "=powering-off-before-delete",
		ironic.DeployWait: "=powering-off-before-delete", ironic.Deleting: "Wait", ironic.Cleaning: "Wait", ironic.CleanWait: "Wait",
	} {
		host := newHost(deleted, withState(metal3.StateDeprovisioning), deletionBegun, withError(metal3.ProvisioningError, "no", 3))
		if got := nextOf(planned(host, nodeIn(state))).String(); got != want {
			t.Errorf("%s: %s, want %s", state, got, want)
		}
	}
}

// A node that Ironic had lost is tried to be reached three times, as all else.
func TestDeletionOfLostNodeIsTriedAgain(t *testing.T) {
	lost := nodeIn(ironic.Enroll, lastError("no"))
	for errors, want := range []string{0: "Register", 1: "Register", 2: "Register", 3: "=deleting"} {
		host := newHost(deleted, withState(metal3.StateDeprovisioning), deletionBegun, withError(metal3.RegistrationError, "no", errors))
		if got := nextOf(planned(host, lost)).String(); got != want {
			t.Errorf("%d errors: %s, want %s", errors, got, want)
		}
	}
	host := newHost(deleted, withState(metal3.StateExternallyProvisioned), withError(metal3.ProvisionedRegistrationError, "no", 1))
	if got := nextOf(planned(host, lost)).String(); got != "=deleting" {
		t.Errorf("externally provisioned: %s, want =deleting", got)
	}
}

// A BMC that refuses each power-off is counted, whatever else the node shows.
func TestPowerErrorsOfFailedNodesAreCounted(t *testing.T) {
	refused := lastError("Failed to change power state to 'power off' by 'power off'. Error: no")
	trying := func(n *ironic.Node) { n.TargetPowerState, n.Reservation = ironic.TargetPowerOff, "conductor-0" }
	host := newHost(deleted, withState(metal3.StatePoweringOffBeforeDelete))
	host = observe(host, nodeIn(ironic.CleanFail, fault(""), refused))
	for n := 1; n < 4; n++ {
		if got := host.Status.ErrorCount; got != n {
			t.Fatalf("after %d tries: %d errors", n, got)
		}
		host = observe(host, nodeIn(ironic.CleanFail, fault(""), trying))
		host = observe(host, nodeIn(ironic.CleanFail, fault(""), refused))
	}
}
