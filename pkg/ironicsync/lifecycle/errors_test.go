// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// wrong is what is recorded to be wrong with a host.
type wrong struct {
	kind    metal3.ErrorType
	message string
	count   int
}

func wrongWith(host *metal3.BareMetalHost) wrong {
	s := host.Status
	return wrong{ErrorType(&s), recordedMessage(host), s.ErrorCount}
}

// recordedMessage is the error of a host in its own words, without the sentence that is put in front of them.
func recordedMessage(host *metal3.BareMetalHost) string {
	return valueOf(host.Status.Record.Error).Message
}

// step is one observation of a host and what it shows then.
type step struct {
	node *ironic.Node
	want wrong
}

func follow(t *testing.T, name string, host *metal3.BareMetalHost, steps []step) *metal3.BareMetalHost {
	t.Helper()
	for i, s := range steps {
		host = observe(host, s.node)
		if got := wrongWith(host); got != s.want {
			t.Errorf("%s, step %d: %+v, want %+v", name, i, got, s.want)
		}
		if got := host.Status.OperationalStatus; (got == metal3.OperationalStatusError) != (s.want.kind != "") {
			t.Errorf("%s, step %d: operationalStatus is %q", name, i, got)
		}
		again := observe(host, s.node) // looking twice counts nothing twice
		if got := wrongWith(again); got != s.want {
			t.Errorf("%s, step %d, seen again: %+v, want %+v", name, i, got, s.want)
		}
	}
	return host
}

// While a BMC is away, verification is tried again and again. The error stays in
// view, its count says how often, and it goes with the first success.
func TestErrorDuringRegistrationRetries(t *testing.T) {
	for _, release := range releases {
		verifying, failed, verified := recorded(t, release+"-verifying"), recorded(t, release+"-enroll-verify-failed"), recorded(t, release+"-manageable")
		// Ironic releases the lock a moment after it has written state and error.
		locked := *failed
		locked.Reservation = "conductor-0"
		away := func(n int) wrong { return wrong{metal3.RegistrationError, failed.LastError, n} }

		host := newHost(withState(metal3.StateNone))
		host.Status.GoodCredentials, host.Status.OperationHistory.Register.End = metal3.CredentialsStatus{}, metav1.Time{}
		host = follow(t, release, host, []step{
			{verifying, wrong{}}, {&locked, away(1)}, {failed, away(1)},
			{verifying, away(1)}, {&locked, away(2)}, {failed, away(2)},
			{verifying, away(2)}, {failed, away(3)},
		})
		if s := host.Status; s.GoodCredentials.Version != "" || !s.OperationHistory.Register.End.IsZero() {
			t.Errorf("%s: credentials count as good (%+v) or the host as registered (%v)", release, s.GoodCredentials, s.OperationHistory.Register)
		}
		host = follow(t, release, host, []step{{verifying, away(3)}, {verified, wrong{}}})
		if s := host.Status; s.GoodCredentials.Version != "7" || !s.OperationHistory.Register.End.Time.Equal(now.Truncate(time.Second)) {
			t.Errorf("%s: credentials %+v, registration %v", release, s.GoodCredentials, s.OperationHistory.Register)
		}
	}
}

// The same for a host that runs something, whose state stays. As with the Bare Metal Operator, only an adoption has an error type of its
// own.
func TestErrorOfProvisionedHostRegisteredAgain(t *testing.T) {
	for _, state := range []metal3.ProvisioningState{metal3.StateProvisioned, metal3.StateExternallyProvisioned} {
		verifying, failed := recorded(t, "trixie-verifying"), recorded(t, "trixie-enroll-verify-failed")
		away := func(n int) wrong { return wrong{metal3.RegistrationError, failed.LastError, n} }
		host := follow(t, string(state), newHost(withState(state)), []step{
			{failed, away(1)}, {verifying, away(1)}, {failed, away(2)},
			{recorded(t, "trixie-manageable"), wrong{}},
		})
		if got := host.Status.Provisioning.State; got != state {
			t.Errorf("state went from %q to %q", state, got)
		}
	}
}

// A BMC that goes away and comes back: the error comes and goes, though Ironic
// keeps last_error.
func TestErrorOfSilentBMC(t *testing.T) {
	for _, release := range releases {
		failure := recorded(t, release+"-power-failure")
		silent := wrong{metal3.PowerManagementError, failure.LastError, 1}
		host := follow(t, release, newHost(withState(metal3.StateAvailable), withPower(true)), []step{
			{recorded(t, release+"-available"), wrong{}}, {failure, silent}, {failure, silent},
			{recorded(t, release+"-recovered"), wrong{}},
		})
		if !host.Status.PoweredOn {
			t.Errorf("%s: not powered on", release)
		}

		// New credentials do not count as good before the BMC has answered to them.
		host = observe(newHost(withState(metal3.StateAvailable)), failure)
		if got := host.Status.GoodCredentials.Version; got != "" {
			t.Errorf("%s: credentials %q count as good while the BMC is silent", release, got)
		}
		host = observe(host, recorded(t, release+"-recovered"))
		if got := host.Status.GoodCredentials.Version; got != "7" {
			t.Errorf("%s: credentials %q count as good once the BMC answers", release, got)
		}
	}
}

// What our own side found wrong wins over what Ironic says.
func TestErrorOfRegistrationWins(t *testing.T) {
	const message = `Secret "host-0-bmc" has no password`
	for _, name := range append(recordings(t, "*"), "") {
		var node *ironic.Node
		if name != "" {
			node = recorded(t, name)
		}
		host := newHost(withRegistration(metal3.SecretIncompleteReason, message))
		if name == "" {
			host.Status.Ironic = nil // never made
		}
		host = observe(host, node)
		want := wrong{metal3.RegistrationError, message, 1}
		if got := wrongWith(host); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		registeredAs()(host)
		if got := wrongWith(observe(host, &ironic.Node{Address: ownBMC, ProvisionState: ironic.Manageable})); got != (wrong{}) {
			t.Errorf("%s, mended: %+v", name, got)
		}
	}
}

// The Bare Metal Operator has the same type of error when the Secret of a provisioned host is deleted.
func TestErrorOfRegistrationOfProvisionedHost(t *testing.T) {
	const message = `Secret "host-0-bmc" does not exist`
	for _, state := range []metal3.ProvisioningState{metal3.StateAvailable, metal3.StateProvisioned, metal3.StateExternallyProvisioned} {
		host := newHost(withState(state), withRegistration(metal3.SecretNotFoundReason, message))
		Render(host, now)
		if got, want := wrongWith(host), (wrong{metal3.RegistrationError, message, 1}); got != want {
			t.Errorf("%s: %+v, want %+v", state, got, want)
		}
	}
}

// A BMC that falls silent while its host is on its way into Ironic is a matter
// of the registration.
func TestErrorOfSilentBMCDuringRegistration(t *testing.T) {
	for _, state := range []metal3.ProvisioningState{metal3.StateRegistering, metal3.StateProvisioned} {
		node := &ironic.Node{Address: ownBMC, ProvisionState: ironic.Enroll, Fault: ironic.FaultPowerFailure, LastError: "no answer"}
		follow(t, string(state), newHost(withState(state)), []step{{node, wrong{metal3.RegistrationError, "no answer", 1}}})
	}
}

func TestErrorNodeLost(t *testing.T) {
	host := observe(newHost(withState(metal3.StateProvisioned), withPower(true)), recorded(t, "trixie-power-failure"))
	id := host.Status.Provisioning.ID
	lost := observe(host, nil)
	s := lost.Status
	if got := verdictsOf(lost, metal3.RegisteredCondition); got != "F/NodeLost" {
		t.Errorf("Registered is %s", got)
	}
	if got, want := findCondition(&s, metal3.RegisteredCondition).Message, "Ironic no longer has node "+id+"; the host is registered again"; got != want {
		t.Errorf("message is %q, want %q", got, want)
	}
	if s.Ironic != nil || s.Provisioning.ID != id || s.Provisioning.State != metal3.StateProvisioned || !s.PoweredOn {
		t.Errorf("what was known is not kept: %+v", s)
	}
	if got := wrongWith(lost); got != (wrong{}) {
		t.Errorf("the error of a node that is gone stays: %+v", got)
	}

	// One that is deleted, or was never made, is not lost.
	deletedHost := host.DeepCopy()
	deletedHost.DeletionTimestamp = &created
	for name, h := range map[string]*metal3.BareMetalHost{"deleted": deletedHost, "never made": newHost()} {
		if got := verdictsOf(observe(h, nil), metal3.RegisteredCondition); got != "T/Registered" {
			t.Errorf("%s: Registered is %s", name, got)
		}
	}
}

// Ironic writes a failed state before it writes last_error; as long as it holds
// the lock, there may be more to come.
func TestErrorOfUnfinishedFailure(t *testing.T) {
	for state, want := range map[ironic.ProvisionState]wrong{
		ironic.InspectFail: {metal3.InspectionError, "inspection failed", 1},
		ironic.CleanFail:   {metal3.PreparationError, "cleaning failed", 1},
		ironic.DeployFail:  {metal3.ProvisioningError, "deployment failed", 1},
		ironic.Error:       {metal3.ProvisioningError, "deployment failed", 1},
		ironic.AdoptFail:   {metal3.ProvisionedRegistrationError, "adoption failed", 1},
		ironic.ServiceFail: {metal3.ServicingError, "servicing failed", 1}, // aborted: Ironic gives no reason
		ironic.Enroll:      {},                                             // never verified
	} {
		said := want
		if want.kind != "" {
			said.message = "the disk is full"
		}
		locked := &ironic.Node{Address: ownBMC, ProvisionState: state, Reservation: "conductor-0"}
		silent := &ironic.Node{Address: ownBMC, ProvisionState: state}
		spoken := &ironic.Node{Address: ownBMC, ProvisionState: state, LastError: said.message}
		follow(t, string(state)+", silent", newHost(withState(metal3.StatePreparing)), []step{{locked, wrong{}}, {silent, want}})
		follow(t, string(state), newHost(withState(metal3.StatePreparing)), []step{{locked, wrong{}}, {spoken, said}})
	}
}

// An old last_error in a stable state is history, except of a power action that
// did not get where it should.
func TestErrorOfPowerAction(t *testing.T) {
	const failed = "Failed to change power state to 'power off' by 'soft power off': IPMI call failed: power status."
	for name, tt := range map[string]struct {
		node ironic.Node
		want wrong
	}{
		"wanted no more":           {ironic.Node{Address: ownBMC, PowerState: ironic.PowerOff, LastError: "Failed to change power state to 'power on' by 'power on': no"}, wrong{}},
		"failed":                   {ironic.Node{Address: ownBMC, PowerState: ironic.PowerOn, LastError: failed}, wrong{metal3.PowerManagementError, failed, 1}},
		"failed, power not known":  {ironic.Node{Address: ownBMC, LastError: failed}, wrong{metal3.PowerManagementError, failed, 1}},
		"reached since":            {ironic.Node{Address: ownBMC, PowerState: ironic.PowerOff, LastError: failed}, wrong{}},
		"tried again":              {ironic.Node{Address: ownBMC, PowerState: ironic.PowerOn, TargetPowerState: ironic.TargetPowerOff, LastError: failed}, wrong{}},
		"soft target reached":      {ironic.Node{Address: ownBMC, PowerState: ironic.PowerOff, LastError: "Failed to change power state to 'soft power off': no"}, wrong{}},
		"another action's":         {ironic.Node{Address: ownBMC, PowerState: ironic.PowerOn, LastError: "Failed to set boot device"}, wrong{}},
		"not even a target":        {ironic.Node{Address: ownBMC, PowerState: ironic.PowerOn, LastError: "Failed to change power state to '"}, wrong{metal3.PowerManagementError, "Failed to change power state to '", 1}},
		"maintenance by a person":  {ironic.Node{Address: ownBMC, PowerState: ironic.PowerOn, Maintenance: true, MaintenanceReason: "new disks"}, wrong{}},
		"fault without last_error": {ironic.Node{Address: ownBMC, Fault: "power failure", MaintenanceReason: "BMC away"}, wrong{metal3.PowerManagementError, "BMC away", 1}},
		"fault without any text":   {ironic.Node{Address: ownBMC, Fault: "rescue abort failure"}, wrong{metal3.PowerManagementError, "Ironic reports the fault rescue abort failure", 1}},
	} {
		for _, state := range []ironic.ProvisionState{ironic.Manageable, ironic.Available, ironic.Active} {
			node := tt.node
			node.ProvisionState = state
			follow(t, name, newHost(withState(metal3.StateAvailable), offline), []step{{&node, tt.want}})
		}
	}
}

// A failed reboot aims at power on; a machine that is on has got there.
func TestErrorOfReboot(t *testing.T) {
	const failed = "Failed to change power state to 'power on' by 'rebooting': no"
	node := &ironic.Node{Address: ownBMC, ProvisionState: ironic.Active, PowerState: ironic.PowerOff, LastError: failed}
	on := *node
	on.PowerState = ironic.PowerOn
	follow(t, "reboot", newHost(), []step{{node, wrong{metal3.PowerManagementError, failed, 1}}, {&on, wrong{}}})
}

// Ironic clears last_error when it finds the power state as it was before the action. The failure has not gone with it.
func TestPowerErrorOutlivesLastError(t *testing.T) {
	const failed = "Failed to change power state to 'power on' by 'power on': the BMC refuses"
	node := func(change func(*ironic.Node)) *ironic.Node {
		n := &ironic.Node{Address: ownBMC, ProvisionState: ironic.Active, PowerState: ironic.PowerOff}
		change(n)
		return n
	}
	refused := node(func(n *ironic.Node) { n.LastError = failed })
	forgotten := node(func(*ironic.Node) {})
	wrongFor := func(count int) wrong { return wrong{metal3.PowerManagementError, failed, count} }
	host := follow(t, "twice", newHost(withState(metal3.StateProvisioned)), []step{
		{refused, wrongFor(1)},
		{forgotten, wrongFor(1)},
		{node(func(n *ironic.Node) { n.TargetPowerState = ironic.TargetPowerOn }), wrongFor(1)},
		{refused, wrongFor(2)},
		{forgotten, wrongFor(2)},
	})
	if next := nextOfPower(Situation{Host: host, Hold: time.Minute, node: NodeOf(&host.Status)}); next != (Step{Do: Wait, After: time.Minute}) {
		t.Errorf("during the back-off: %+v", next)
	}
	for name, end := range map[string]func(*metal3.BareMetalHost, *ironic.Node){
		"on":                     func(_ *metal3.BareMetalHost, n *ironic.Node) { n.PowerState = ironic.PowerOn },
		"wanted no more":         func(h *metal3.BareMetalHost, _ *ironic.Node) { h.Spec.Online = false },
		"something else is done": func(_ *metal3.BareMetalHost, n *ironic.Node) { n.ProvisionState = ironic.Deleting },
		"maintenance":            func(_ *metal3.BareMetalHost, n *ironic.Node) { n.Maintenance, n.MaintenanceReason = true, "repair" },
	} {
		h, n := host.DeepCopy(), *forgotten
		end(h, &n)
		if got, want := wrongWith(observe(h, &n)).kind == metal3.PowerManagementError, name == "maintenance"; got != want {
			t.Errorf("%s: there is a power error: %t, want %t", name, got, want)
		}
	}
	withFault := observe(host, node(func(n *ironic.Node) {
		n.Maintenance, n.Fault = true, ironic.FaultPowerFailure
		n.LastError = "During sync_power_state, max retries exceeded"
		n.MaintenanceReason = n.LastError
	}))
	if got := wrongWith(observe(withFault, forgotten)); got.kind != "" {
		t.Errorf("when the BMC answers again, the host has the error %+v: the machine is not switched on at once", got)
	}
}

// A deletion gives up a machine that cannot be switched off.
func TestPowerOffBeforeDeleteIsGivenUp(t *testing.T) {
	host := newHost(withState(metal3.StatePoweringOffBeforeDelete))
	host.DeletionTimestamp = &metav1.Time{Time: now}
	on := ironic.Node{Address: ownBMC, ProvisionState: ironic.Available, PowerState: ironic.PowerOn}
	refused, asked := on, on
	refused.LastError, asked.TargetPowerState = "Failed to change power state to 'power off' by 'power off': refused", ironic.TargetPowerOff
	for range abandonAfter {
		for _, node := range []*ironic.Node{&asked, &refused, &on} {
			host = observe(host, node)
		}
	}
	if !mayGiveUp(&host.Status) {
		t.Errorf("after %d failures, %+v", abandonAfter, wrongWith(host))
	}
}

// The statuses that say something else than OK or error are not Ironic's to change.
func TestOperationalStatusesOfOurs(t *testing.T) {
	for status, want := range map[metal3.OperationalStatus]metal3.OperationalStatus{
		"": ok, ok: ok, bad: ok, metal3.OperationalStatusServicing: ok,
		metal3.OperationalStatusDiscovered: metal3.OperationalStatusDiscovered,
		metal3.OperationalStatusDelayed:    metal3.OperationalStatusDelayed,
		metal3.OperationalStatusDetached:   metal3.OperationalStatusDetached,
	} {
		host := newHost(withState(metal3.StateAvailable))
		host.Status.OperationalStatus = status
		if got := observe(host, recorded(t, "trixie-available")).Status.OperationalStatus; got != want {
			t.Errorf("%q becomes %q, want %q", status, got, want)
		}
	}
}

func TestPowerStateUnknownKeepsPoweredOn(t *testing.T) {
	for _, on := range []bool{false, true} {
		for state, want := range map[ironic.PowerState]bool{"": on, ironic.PowerOn: true, ironic.PowerOff: false, "error": on} {
			host := observe(newHost(withPower(on)), &ironic.Node{Address: ownBMC, ProvisionState: ironic.Available, PowerState: state})
			if got := host.Status.PoweredOn; got != want {
				t.Errorf("power_state %q, poweredOn was %v: %v", state, on, got)
			}
		}
	}
}

// A ramdisk that never calls is timed out where Ironic 29.0.5 has forgotten to, in
// each state, and what follows is that of a failure.
func TestSilentRamdiskOfForgottenNode(t *testing.T) {
	since := now.Add(-31 * time.Minute)
	for _, tt := range []struct {
		options []hostOption
		state   ironic.ProvisionState
		kind    metal3.ErrorType
		want    string
	}{
		{[]hostOption{withState(metal3.StateInspecting), inspectionBegan}, ironic.InspectWait, metal3.InspectionError, "abort"},
		{[]hostOption{withState(metal3.StatePreparing)}, ironic.CleanWait, metal3.PreparationError, "abort"},
		{[]hostOption{withState(metal3.StateProvisioning), wantsImage("http://images/a"), attempting("http://images/a")}, ironic.DeployWait, metal3.ProvisioningError, "!deprovisioning"},
		{[]hostOption{withState(metal3.StateProvisioning), wantsImage("http://images/a"), attempting("http://images/a")}, ironic.CleanWait, metal3.ProvisioningError, "abort"},
		{[]hostOption{withState(metal3.StateDeprovisioning)}, ironic.CleanWait, metal3.ProvisioningError, "abort"},
	} {
		host := newHost(tt.options...)
		seen := func(parent string, limit time.Duration) Observation {
			return Observation{CallbackTimeout: limit, Node: &ironic.Node{
				Address: ownBMC, UUID: host.Status.Provisioning.ID, ProvisionState: tt.state, ParentNode: parent, ProvisionUpdatedAt: &since,
			}}
		}
		for name, patient := range map[string]Observation{
			"Ironic watches over it": seen("", 30*time.Minute),
			"not yet":                seen(host.Status.Provisioning.ID, 32*time.Minute),
			"never, by the settings": seen(host.Status.Provisioning.ID, 0),
		} {
			if status, _ := Observe(host, patient, now); status.ErrorType != "" {
				t.Errorf("%s, %s: %q", tt.state, name, status.ErrorMessage)
			}
		}
		late := seen(host.Status.Provisioning.ID, 30*time.Minute)
		host.Status, _ = Observe(host, late, now)
		if host.Status.ErrorType != tt.kind || !strings.Contains(host.Status.ErrorMessage, "has not called Ironic for more than 30m") {
			t.Errorf("%s: error %q %q", tt.state, host.Status.ErrorType, host.Status.ErrorMessage)
		}
		if got := nextOf(planned(host, late.Node)).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.state, got, tt.want)
		}
		if aborted := (ironic.Node{Address: ownBMC, UUID: host.Status.Provisioning.ID, LastError: "aborted by request"}); tt.want == "abort" {
			failed := map[ironic.ProvisionState]ironic.ProvisionState{ironic.InspectWait: ironic.InspectFail, ironic.CleanWait: ironic.CleanFail}[tt.state]
			for _, aborted.ProvisionState = range []ironic.ProvisionState{tt.state, failed} {
				if aborted.Reservation = ""; aborted.ProvisionState == tt.state {
					aborted.Reservation = "conductor-0" // the abort goes on
				}
				host.Status, _ = Observe(host, Observation{CallbackTimeout: 30 * time.Minute, Node: &aborted}, now)
				if !strings.Contains(host.Status.ErrorMessage, "has not called Ironic") || host.Status.ErrorCount != 1 {
					t.Errorf("%s, then %s: %d errors, %q", tt.state, aborted.ProvisionState, host.Status.ErrorCount, host.Status.ErrorMessage)
				}
			}
		}
		again := *late.Node
		recently := now.Add(-time.Second)
		again.ProvisionUpdatedAt = &recently
		if status, _ := Observe(host, Observation{CallbackTimeout: 30 * time.Minute, Node: &again}, now); isTimedOut(&status) {
			t.Errorf("%s: the next try is timed out at once", tt.state)
		}
		over := *late.Node
		over.ProvisionState = ironic.Manageable
		host.Status, _ = Observe(host, Observation{Node: &over}, now)
		if findCondition(&host.Status, metal3.StepFailedCondition) != nil {
			t.Errorf("%s: still shown when it is over", tt.state)
		}
	}
}

// TestGivenUpDeployment: why a deployment was given up is shown until it is tried again, also if the node is looked at once more
// before Ironic begins to undo it.
func TestGivenUpDeployment(t *testing.T) {
	since := now.Add(-time.Hour)
	host := newHost(withState(metal3.StateProvisioning), wantsImage("http://images/a"), attempting("http://images/a"))
	node := &ironic.Node{Address: ownBMC, UUID: host.Status.Provisioning.ID, ProvisionState: ironic.DeployWait, ParentNode: host.Status.Provisioning.ID, ProvisionUpdatedAt: &since}
	observe := func() {
		host.Status, _ = Observe(host, Observation{CallbackTimeout: 30 * time.Minute, Node: node}, now)
	}
	observe()
	enter(host, node, Step{Do: SetState, State: metal3.StateDeprovisioning, Failed: true}, now)
	for _, node.ProvisionState = range []ironic.ProvisionState{ironic.DeployWait, ironic.Deleting, ironic.Available} {
		if node.ProvisionState != ironic.DeployWait {
			since = now // it has just begun
		}
		observe()
		if host.Status.ErrorType != metal3.ProvisioningError || !strings.Contains(host.Status.ErrorMessage, "has not called Ironic") || host.Status.ErrorCount != 1 {
			t.Errorf("%s: %d errors, %q", node.ProvisionState, host.Status.ErrorCount, host.Status.ErrorMessage)
		}
	}
}

// Ironic writes the fault of a failed step before the state that goes with it, and
// keeps the node reserved meanwhile. That is one failure, counted once.
func TestFaultBeforeItsStateCountsOnce(t *testing.T) {
	host := newHost(withState(metal3.StatePreparing))
	node := &ironic.Node{Address: ownBMC, UUID: host.Status.Provisioning.ID, ProvisionState: ironic.CleanWait, TargetProvisionState: "available"}
	host = observe(host, node)
	for _, n := range []ironic.Node{
		{ProvisionState: ironic.Cleaning, Reservation: "conductor-0", Maintenance: true, Fault: ironic.FaultCleanFailure, LastError: "erase failed"},
		{ProvisionState: ironic.Cleaning, TargetPowerState: ironic.TargetPowerOff, Maintenance: true, Fault: ironic.FaultCleanFailure, LastError: "erase failed"},
		{ProvisionState: ironic.CleanFail, Maintenance: true, Fault: ironic.FaultCleanFailure, LastError: "erase failed"},
		{ProvisionState: ironic.CleanFail, LastError: "erase failed"},
		{ProvisionState: ironic.CleanFail, Maintenance: true, Fault: ironic.FaultCleanFailure, LastError: "erase failed"},
	} {
		n.UUID, n.Address = node.UUID, ownBMC
		host = observe(host, &n)
	}
	if s := host.Status; s.ErrorType != metal3.PreparationError || s.ErrorMessage != "erase failed" || s.ErrorCount != 1 {
		t.Errorf("error %q %q, %d times", s.ErrorType, s.ErrorMessage, s.ErrorCount)
	}
}

// A power action clears last_error, which is not another failure: neither while the
// fault is there nor when it has been cleared for the next try.
func TestErrorWithoutText(t *testing.T) {
	failedNode := ironic.Node{
		UUID: "n", Address: ownBMC, ProvisionState: ironic.CleanFail, Maintenance: true, Fault: ironic.FaultCleanFailure,
		LastError: "a step failed", MaintenanceReason: "a step failed on 12 March",
	}
	silent, cleared := failedNode, failedNode
	silent.LastError = ""
	cleared.LastError, cleared.Maintenance, cleared.Fault, cleared.MaintenanceReason = "", false, "", ""
	locked := cleared
	locked.Reservation = "conductor-0" // with the next try's first step
	is := wrong{metal3.ProvisioningError, "a step failed", 1}
	host := newHost(withState(metal3.StateDeprovisioning))
	host = follow(t, "clean failed", host, []step{{&failedNode, is}, {&silent, is}, {&failedNode, is}, {&cleared, is}, {&locked, is}})
	host.Status.ErrorCount = 0 // by /retry
	is.count = 0
	follow(t, "tried again", host, []step{{&failedNode, is}, {&silent, is}, {&cleared, is}})
}

// TestErrorsEndWithPowerThatIsKept: a host whose machine is left on although spec.online is false
// has arrived, and earlier errors count no more, unless its power is just being switched again.
func TestErrorsEndWithPowerThatIsKept(t *testing.T) {
	for _, test := range []struct {
		kept   bool
		target ironic.PowerTarget
		want   int
	}{{kept: true}, {kept: false, want: 1}, {kept: true, target: ironic.TargetReboot, want: 1}} {
		host := newHost(withState(metal3.StateExternallyProvisioned), externallyProvisioned, offline, withPower(true), func(h *metal3.BareMetalHost) {
			h.Status.ErrorCount = 1
			h.Status.Record.Deployment = &metal3.Deployment{NodeUUID: "u", KeepPower: test.kept}
		})
		node := nodeIn(ironic.Active, func(n *ironic.Node) { n.TargetPowerState = test.target })
		status, _ := Observe(host, Observation{Node: node}, now)
		if status.ErrorCount != test.want {
			t.Errorf("%+v: %d errors", test, status.ErrorCount)
		}
	}
}

// TestErrorsOfTheMachine: requests that got no answer, and what goes wrong with Ironic itself or is done by people, are not counted as errors
// for which a deletion gives up.
func TestErrorsOfTheMachine(t *testing.T) {
	for name, test := range map[string]struct {
		record func(*metal3.BareMetalHost)
		node   func(*ironic.Node)
		want   int
	}{
		"a registration that Ironic refuses": {record: func(h *metal3.BareMetalHost) { SetNotRegistered(h, metal3.IronicRefusedReason, "no") }},
		"a registration that is refused, of a BMC that was never verified": {record: func(h *metal3.BareMetalHost) {
			h.Status.Ironic.ProvisionState = string(ironic.Enroll)
			SetNotRegistered(h, metal3.IronicRefusedReason, "no")
		}, want: 1},
		"a registration that gets no answer": {record: func(h *metal3.BareMetalHost) { SetNotRegistered(h, metal3.RequestFailedReason, "HTTP 500") }},
		"a step that Ironic refuses":         {record: func(h *metal3.BareMetalHost) { SetFailure(h, metal3.ProvisioningError, "no") }, want: 1},
		"a step that gets no answer":         {record: func(h *metal3.BareMetalHost) { SetRequestFailing(h, Step{Do: Provision}, "HTTP 500") }},
		"a ramdisk that does not call":       {record: timedOut, want: 1},
		"a node that Ironic has forgotten": {record: func(h *metal3.BareMetalHost) {
			h.Status.Ironic.ProvisionState, h.Status.Ironic.Forgotten = string(ironic.Deleting), true
		}},
		"cleaning that has failed": {node: func(n *ironic.Node) { n.LastError = "erase failed" }, want: 1},
		"cleaning that Ironic has no disk space for": {node: func(n *ironic.Node) {
			n.LastError = "Failed to prepare node n for cleaning: [Errno 28] No space left on device: '/shared/html/redfish/boot-n.iso'"
		}},
		"cleaning that somebody has aborted": {node: func(n *ironic.Node) { n.LastError = "By request, the clean operation was aborted" }},
		"a node that somebody has protected": {record: func(h *metal3.BareMetalHost) {
			SetFailure(h, metal3.ProvisioningError, "Node n is protected and cannot be undeployed, rebuilt or deleted.")
		}},
		"cleaning that a restart has interrupted": {node: func(n *ironic.Node) { n.LastError = "Operation was aborted due to conductor take over" }},
	} {
		t.Run(name, func(t *testing.T) {
			host, node := newHost(withState(metal3.StateDeprovisioning), deleted), nodeIn(ironic.Active)
			if test.node != nil {
				node = nodeIn(ironic.CleanFail, test.node)
			}
			host = observed(host, node)
			host.Status.ErrorCount, host.Status.Record.MachineErrors, host.Status.Record.Error = 0, 0, nil
			if test.record != nil {
				test.record(host)
			}
			Render(host, now)
			if got := host.Status.Record.MachineErrors; got != test.want || host.Status.ErrorCount != 1 {
				t.Errorf("%d errors of the machine's of %d, want %d", got, host.Status.ErrorCount, test.want)
			}
		})
	}
}

// TestCauses: the cause of an error decides when the server tries again.
func TestCauses(t *testing.T) {
	const redfish, inspect = "Failed to get power state for node n. Error: Redfish connection failed for node n: ", "Failed to inspect hardware. Reason: unable to start inspection: "
	for message, want := range map[string]metal3.ErrorCause{
		redfish + "Unable to connect to https://192.0.2.1. Error: timed out":                                                            metal3.BMCSilent,
		redfish + "HTTP GET https://192.0.2.1/redfish/v1/Systems/1 returned code 401":                                                   metal3.BMCRefuses,
		redfish + "HTTP POST https://192.0.2.1/redfish/v1/SessionService/Sessions returned code 400":                                    metal3.BMCRefuses,
		"Failed to get power state for node n. Error: IPMI call failed: power status.":                                                  metal3.BMCSilentOrRefuses,
		redfish + "Unable to connect to https://192.0.2.1. Error: (Caused by SSLError(SSLError(1, '[SSL] record layer failure')))":      metal3.BMCNoAccess,
		redfish + "Unable to connect to https://192.0.2.1. Error: (Caused by SSLError(SSLError('The handshake operation timed out')))":  metal3.BMCSilent,
		redfish + "Unable to connect to https://192.0.2.1. Error: (Caused by SSLError(SSLEOFError(8, 'EOF occurred in violation')))":    metal3.BMCSilent,
		"Failed to get power state for node n. Error: Invalid IPMI address \"a_b\" for node n. Must be a valid IP address or hostname.": metal3.BMCNoAccess,
		"Failed to verify node n: BMC clock verify step failed: no":                                                                     metal3.BMCNoAccess,
		inspect + "IPMI call failed: power off.":                                                                                        metal3.BMCSilentOrRefuses,
		inspect + "IPMI call failed: raw 0x00 0x08 0x03 0x08.":                                                                          "",
		inspect + "IPMI call failed: raw 0x00 0x08 0x05 0xe0 0x04 0x00 0x00 0x00.":                                                      "",
		"Failed to prepare node n for cleaning: IPMI call failed: chassis bootdev pxe.":                                                 "",
		"The cleaning state can't be resumed by conductor conductor-0. Moving to failed.":                                               metal3.Interrupted,
		"no": "",
	} {
		if got := causeOf(message); got != want {
			t.Errorf("%s: %q, want %q", message, got, want)
		}
	}
}
