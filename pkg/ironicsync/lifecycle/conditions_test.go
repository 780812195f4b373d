// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// verdictsOf is the given conditions of a host as "T/Reason", "F/Reason" or "U/Reason".
func verdictsOf(host *metal3.BareMetalHost, types ...string) string {
	var s []string
	for _, conditionType := range types {
		c := findCondition(&host.Status, conditionType)
		if c == nil {
			s = append(s, "-")
			continue
		}
		s = append(s, string(c.Status[0])+"/"+c.Reason)
	}
	return strings.Join(s, " ")
}

var stateConditions = []string{
	metal3.ManageableCondition, metal3.AvailableForProvisioningCondition, metal3.ProvisionedCondition,
	metal3.ReadyCondition, metal3.ProgressingCondition,
}

func withConditions(host *metal3.BareMetalHost, node *ironic.Node, at time.Time) *metal3.BareMetalHost {
	h := host.DeepCopy()
	if node != nil {
		recordNode(h, node)
	}
	h.Status.Record.Error = nil
	if h.Status.ErrorType != "" {
		h.Status.Record.Error = &metal3.HostError{Type: h.Status.ErrorType, Message: h.Status.ErrorMessage}
	}
	c := conditions{status: &h.Status, generation: h.Generation, now: WholeSeconds(at)}
	c.setState()
	c.setRecorded()
	return h
}

func findCondition(status *metal3.BareMetalHostStatus, conditionType string) *metav1.Condition {
	return meta.FindStatusCondition(status.Conditions, conditionType)
}

// Columns: Manageable, AvailableForProvisioning, Provisioned, Ready, Progressing.
func TestConditionsOfStates(t *testing.T) {
	const (
		ok        = "T/Manageable "
		idle      = " F/NotProgressing"
		unmanaged = "F/NotManaged F/NotAvailable F/NotProvisioned F/NotProvisioned F/NotProgressing"
		nothing   = "F/NotAvailable F/NotProvisioned F/NotProvisioned "
		available = "T/Available F/NotProvisioned F/NotProvisioned"
		runs      = "F/NotAvailable T/Provisioned T/Provisioned"
	)
	for state, want := range map[metal3.ProvisioningState]string{
		metal3.StateNone:                    unmanaged,
		metal3.StateUnmanaged:               unmanaged,
		metal3.StateRegistering:             "F/Registering " + nothing + "T/Registering",
		metal3.StateInspecting:              ok + nothing + "T/Inspecting",
		metal3.StateMatchProfile:            ok + nothing + "T/Inspecting",
		metal3.StatePreparing:               ok + nothing + "T/Preparing",
		metal3.StateAvailable:               ok + available + idle,
		metal3.StateReady:                   ok + available + idle,
		metal3.StateProvisioning:            ok + nothing + "T/Provisioning",
		metal3.StateProvisioned:             ok + runs + idle,
		metal3.StateExternallyProvisioned:   ok + runs + idle,
		metal3.StateDeprovisioning:          ok + nothing + "T/Deprovisioning",
		metal3.StatePoweringOffBeforeDelete: ok + nothing + "T/PoweringOffBeforeDelete",
		metal3.StateDeleting:                ok + nothing + "T/Deleting",
	} {
		for _, status := range []metal3.OperationalStatus{"", metal3.OperationalStatusOK, metal3.OperationalStatusDiscovered, metal3.OperationalStatusDelayed} {
			host := newHost(withState(state))
			host.Status.OperationalStatus = status
			if got := verdictsOf(withConditions(host, nil, now), stateConditions...); got != want {
				t.Errorf("%q, operationalStatus %q:\n got %s\nwant %s", state, status, got, want)
			}
		}

		// The corrections by operationalStatus.
		fields := strings.Fields(want)
		correct := func(index int, verdict string) string {
			corrected := append([]string(nil), fields...)
			corrected[index] = verdict
			if state == metal3.StateRegistering && verdict == "F/Error" {
				corrected[0] = "F/RegistrationFailed"
			}
			if verdict == "F/Detached" {
				corrected[4] = "F/Detached"
			}
			return strings.Join(corrected, " ")
		}
		for status, want := range map[metal3.OperationalStatus]string{
			metal3.OperationalStatusError:     correct(3, "F/Error"),
			metal3.OperationalStatusServicing: correct(3, "F/Servicing"),
			metal3.OperationalStatusDetached:  correct(3, "F/Detached"),
		} {
			host := newHost(withState(state))
			host.Status.OperationalStatus = status
			if got := verdictsOf(withConditions(host, nil, now), stateConditions...); got != want {
				t.Errorf("%q, operationalStatus %q:\n got %s\nwant %s", state, status, got, want)
			}
		}
	}
}

// A BMC that does not answer makes the host not manageable, except where that is
// not looked at.
func TestConditionManageableOnPowerFailure(t *testing.T) {
	unreachable := &ironic.Node{Address: ownBMC, Fault: ironic.FaultPowerFailure}
	for name, state := range storedStates {
		want := "F/PowerFailure"
		switch state {
		case metal3.StateNone, metal3.StateUnmanaged:
			want = "F/NotManaged"
		case metal3.StateRegistering:
			want = "F/Registering"
		case metal3.StateDeleting:
			want = "T/Manageable"
		}
		if got := verdictsOf(withConditions(newHost(withState(state)), unreachable, now), metal3.ManageableCondition); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	detached := newHost(withState(metal3.StateProvisioned))
	detached.Status.OperationalStatus = metal3.OperationalStatusDetached
	if got := verdictsOf(withConditions(detached, unreachable, now), metal3.ManageableCondition); got != "T/Manageable" {
		t.Errorf("detached: %s", got)
	}
	for _, fault := range []string{"", "clean failure", "service failure"} {
		node := &ironic.Node{Address: ownBMC, Fault: fault}
		if got := verdictsOf(withConditions(newHost(withState(metal3.StateProvisioned)), node, now), metal3.ManageableCondition); got != "T/Manageable" {
			t.Errorf("fault %q: %s", fault, got)
		}
	}
}

func TestConditionHealthy(t *testing.T) {
	host := newHost(withState(metal3.StateAvailable))
	for i, step := range []struct {
		node *ironic.Node
		want string
	}{
		{nil, "U/Unknown"},
		{&ironic.Node{Address: ownBMC}, "U/Unknown"},
		{&ironic.Node{Address: ownBMC, Health: "OK"}, "T/Healthy"},
		{&ironic.Node{Address: ownBMC}, "T/Healthy"}, // an empty answer keeps what is known
		{&ironic.Node{Address: ownBMC, Health: "Warning"}, "F/Warning"},
		{&ironic.Node{Address: ownBMC, Health: "Critical"}, "F/CriticalError"},
		{&ironic.Node{Address: ownBMC}, "F/CriticalError"},
		{&ironic.Node{Address: ownBMC, Health: "Excellent"}, "U/Unknown"},
		{&ironic.Node{Address: ownBMC, Health: "OK"}, "T/Healthy"},
		{nil, "U/Unknown"},
	} {
		host = observe(host, step.node)
		if got := verdictsOf(host, metal3.HealthyCondition); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
}

// Any answer of Ironic's says that it is reachable again, also that it has no
// such node.
func TestConditionIronicReachable(t *testing.T) {
	host := newHost()
	for want, silence := range map[string]metal3.Silence{
		"Unreachable: Ironic has not answered": {}, "Refused: Ironic has refused the server": {Refused: true}, "NoIronic: Ironic has not been asked": {Cause: metal3.NoIronicReason},
		"NodeUnreadable: Ironic answers, but has failed to show the node of this host": {Cause: metal3.NodeUnreadableReason},
	} {
		silence.Since, silence.Reason = created, "connection refused"
		host.Status.Record.Silence = &silence
		want += " since " + created.UTC().Format(time.RFC3339) + ": connection refused"
		if c := findCondition(&withConditions(host, nil, now).Status, metal3.IronicReachableCondition); c.Status != metav1.ConditionFalse || c.Reason+": "+c.Message != want {
			t.Errorf("without an observation: %+v, want %s", c, want)
		}
	}
	for name, node := range map[string]*ironic.Node{"a node": {}, "no node": nil} {
		seen := observe(host, node)
		if c := findCondition(&seen.Status, metal3.IronicReachableCondition); c.Status != metav1.ConditionTrue || c.Message != "" {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestConditionPowerSynced(t *testing.T) {
	for _, name := range []string{"trixie-enroll-patched", "trixie-enroll-verify-failed", "sid-enroll-patched", "bookworm-enroll-new"} {
		want := "-"
		if name == "trixie-enroll-patched" { // Ironic 29.0.5 made the node its own parent
			want = "F/OwnParent"
		}
		host := withConditions(newHost(), recorded(t, name), now)
		if got := verdictsOf(host, metal3.PowerSyncedCondition); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		host = withConditions(host, &ironic.Node{Address: ownBMC}, now)
		if got := verdictsOf(host, metal3.PowerSyncedCondition); got != "-" {
			t.Errorf("%s, mended: %s", name, got)
		}
	}
}

// TestConditionInMaintenance: a maintenance that somebody has asked for is told, because everything waits for its end.
func TestConditionInMaintenance(t *testing.T) {
	host := newHost(withState(metal3.StateProvisioned))
	for name, test := range map[string]struct {
		node ironic.Node
		want string
	}{
		"none":                   {ironic.Node{}, "-"},
		"of a person":            {ironic.Node{Maintenance: true, MaintenanceReason: "a fan is broken"}, "T/NodeInMaintenance"},
		"without a reason":       {ironic.Node{Maintenance: true}, "T/NodeInMaintenance"},
		"of Ironic":              {ironic.Node{Maintenance: true, Fault: ironic.FaultPowerFailure}, "-"},
		"in which the node goes": {ironic.Node{Maintenance: true, MaintenanceReason: LeavingReason(host)}, "-"},
	} {
		test.node.Address = ownBMC
		if got := verdictsOf(observe(host, &test.node), metal3.InMaintenanceCondition); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	seen := observe(host, &ironic.Node{Address: ownBMC, Maintenance: true, MaintenanceReason: "a fan is broken"})
	if c := findCondition(&seen.Status, metal3.InMaintenanceCondition); !strings.Contains(c.Message, "(a fan is broken)") {
		t.Errorf("says %q", c.Message)
	}
	if got := verdictsOf(observe(seen, &ironic.Node{Address: ownBMC}), metal3.InMaintenanceCondition); got != "-" {
		t.Errorf("ended: %s", got)
	}
}

func TestConditionMessages(t *testing.T) {
	bmcDown, shown := "IPMI call failed: power status.", "An IPMI command to the BMC has failed. IPMI call failed: power status."
	cleaning := &metal3.IronicStatus{ProvisionState: "clean wait", Step: "deploy.erase_devices_metadata"}
	for name, tt := range map[string]struct {
		host *metal3.BareMetalHost
		node *ironic.Node
		want map[string]string
	}{
		"all is well": {host: newHost(withState(metal3.StateProvisioned)), node: &ironic.Node{Address: ownBMC}, want: map[string]string{}},
		"a failed registration says why": {
			host: newHost(withError(metal3.RegistrationError, bmcDown, 1)),
			want: map[string]string{"Manageable": shown, "Ready": shown},
		},
		"a silent BMC says so": {
			host: newHost(withState(metal3.StateAvailable), withError(metal3.PowerManagementError, bmcDown, 1)),
			node: &ironic.Node{Address: ownBMC, Fault: ironic.FaultPowerFailure},
			want: map[string]string{"Manageable": shown, "Ready": shown},
		},
		"another error leaves the host manageable": {
			host: newHost(withState(metal3.StateAvailable), withError(metal3.InspectionError, "no disks", 1)),
			node: &ironic.Node{Address: ownBMC},
			want: map[string]string{"Ready": "no disks"},
		},
		"progress names Ironic's step": {
			host: newHost(withState(metal3.StateDeprovisioning), func(h *metal3.BareMetalHost) { h.Status.Ironic = cleaning }),
			want: map[string]string{"Progressing": "Ironic: clean wait, step deploy.erase_devices_metadata"},
		},
		"without a step it names the state": {
			host: newHost(func(h *metal3.BareMetalHost) { h.Status.Ironic = &metal3.IronicStatus{ProvisionState: "verifying"} }),
			want: map[string]string{"Progressing": "Ironic: verifying"},
		},
		"a conductor that never gives a node back is named": {
			host: newHost(withState(metal3.StateAvailable), deleted, func(h *metal3.BareMetalHost) {
				h.Status.Ironic = &metal3.IronicStatus{ProvisionState: "available", Reservation: "conductor-0"}
			}),
			want: map[string]string{"Progressing": "Ironic: available, locked by conductor conductor-0"},
		},
		"no progress, no message": {
			host: newHost(withState(metal3.StateAvailable), func(h *metal3.BareMetalHost) { h.Status.Ironic = cleaning }),
			want: map[string]string{},
		},
	} {
		got := map[string]string{}
		for _, c := range withConditions(tt.host, tt.node, now).Status.Conditions {
			if c.Message != "" {
				got[c.Type] = c.Message
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestConditionOfAwaitedRequests: what waits for a request that got no answer says so, and for how long.
func TestConditionOfAwaitedRequests(t *testing.T) {
	asked := func(target ironic.ProvisionTarget) hostOption {
		return func(h *metal3.BareMetalHost) {
			h.Status.Record.Asked = &metal3.AskedChange{NodeUUID: "u", Target: string(target), At: WholeSeconds(now), Times: 1}
		}
	}
	switched := func(times int) hostOption {
		return func(h *metal3.BareMetalHost) {
			h.Status.Record.AskedPower = &metal3.AskedPower{NodeUUID: "u", Target: string(ironic.TargetPowerOff), At: WholeSeconds(now), Times: times}
		}
	}
	switchedOn := func(h *metal3.BareMetalHost) { BeginPowerOn(h, "1", "u", now) }
	toBeOff := func(h *metal3.BareMetalHost) { h.Spec.Online, h.Status.PoweredOn = false, true }
	for name, tt := range map[string]struct {
		host *metal3.BareMetalHost
		node *ironic.Node
		want string // empty if nothing waits
	}{
		"an undeployment, and a deployment waits": {newHost(withState(metal3.StateProvisioning), asked(ironic.TargetDeleted)), nodeIn(ironic.Available), "nothing is deployed"},
		"a rebuild":                          {newHost(withState(metal3.StateProvisioning), asked(ironic.TargetRebuild)), nodeIn(ironic.Active), "the image is not written again"},
		"rebuilds, of which one has failed":  {newHost(withState(metal3.StateProvisioning), asked(ironic.TargetRebuild)), nodeIn(ironic.DeployFail), "the image is not written again"},
		"a service that ends a failed one":   {newHost(withState(metal3.StateProvisioned), asked(ironic.TargetService)), nodeIn(ironic.ServiceFail), "the failed service is not left by another one"},
		"a clean":                            {newHost(withState(metal3.StatePreparing), asked(ironic.TargetClean)), nodeIn(ironic.Manageable), "no clean is asked for"},
		"an undeployment, and a clean waits": {newHost(withState(metal3.StatePreparing), asked(ironic.TargetDeleted)), nodeIn(ironic.Manageable), "no clean is asked for"},
		"a rebuild, and a service waits":     {newHost(withState(metal3.StateProvisioned), asked(ironic.TargetRebuild)), nodeIn(ironic.Active), "no service is asked for"},
		"a clean that has begun":             {newHost(withState(metal3.StatePreparing), asked(ironic.TargetClean)), nodeIn(ironic.Cleaning), ""},
		"a service":                          {newHost(withState(metal3.StateProvisioned), asked(ironic.TargetService)), nodeIn(ironic.Active), "the machine is not switched on"},
		"an undeployment":                    {newHost(withState(metal3.StateDeprovisioning), asked(ironic.TargetDeleted)), nodeIn(ironic.Active), ""},
		"of another node":                    {newHost(withState(metal3.StateProvisioned), asked(ironic.TargetService)), &ironic.Node{UUID: "v", ProvisionState: ironic.Active, Address: ownBMC}, ""},
		"a power-off":                        {newHost(withState(metal3.StateProvisioned), switched(1)), nodeIn(ironic.Active), ""},
		"a power-on":                         {newHost(withState(metal3.StateProvisioned), switchedOn), nodeIn(ironic.Active, off), ""},
		"a power-on, and it is to be off":    {newHost(withState(metal3.StateProvisioned), switchedOn, toBeOff), nodeIn(ironic.Active, off), "it is not shown as off"},
		"power-offs, of which one may come":  {newHost(withState(metal3.StateProvisioned), switched(2)), nodeIn(ironic.Active, off), "the machine is not switched on"},
	} {
		c := findCondition(&withConditions(tt.host, tt.node, now).Status, metal3.ProgressingCondition)
		waits := strings.Contains(c.Message, "may still carry out")
		if waits != (tt.want != "") || !strings.Contains(c.Message, tt.want) || waits && !strings.Contains(c.Message, now.Add(metal3.AskedLimit).UTC().Format(time.RFC3339)) {
			t.Errorf("%s: says %q, want %q", name, c.Message, tt.want)
		}
	}
}

// Clients sort and wait by lastTransitionTime: it moves with the status of a
// condition and with nothing else.
func TestConditionsKeepTransitionTime(t *testing.T) {
	times := func(h *metal3.BareMetalHost) map[string]string {
		m := map[string]string{}
		for _, c := range h.Status.Conditions {
			m[c.Type] = fmt.Sprintf("%s since %s", c.Status, c.LastTransitionTime.UTC().Format(time.RFC3339))
		}
		return m
	}
	first := withConditions(newHost(withState(metal3.StateInspecting)), &ironic.Node{Address: ownBMC}, now)
	before := times(first)

	// Another reason, another message, another generation, an hour later.
	second := first.DeepCopy()
	second.Generation++
	second.Status.Provisioning.State = metal3.StatePreparing
	second.Status.Ironic = &metal3.IronicStatus{ProvisionState: "cleaning"}
	second = withConditions(second, &ironic.Node{Address: ownBMC}, now.Add(time.Hour))
	if diff := cmp.Diff(before, times(second)); diff != "" {
		t.Errorf("no status changed, but (-before +after):\n%s", diff)
	}
	for _, c := range second.Status.Conditions {
		want := second.Generation
		if c.Type == metal3.RegisteredCondition {
			want-- // only registering again says that the new spec has reached Ironic
		}
		if c.ObservedGeneration != want {
			t.Errorf("%s: observedGeneration is %d, want %d", c.Type, c.ObservedGeneration, want)
		}
	}

	third := second.DeepCopy()
	third.Status.Provisioning.State = metal3.StateAvailable
	third = withConditions(third, &ironic.Node{Address: ownBMC}, now.Add(2*time.Hour))
	before[metal3.ProgressingCondition] = "False since 2026-11-21T10:00:00Z"
	before[metal3.AvailableForProvisioningCondition] = "True since 2026-11-21T10:00:00Z"
	if diff := cmp.Diff(before, times(third)); diff != "" {
		t.Errorf("available (-want +got):\n%s", diff)
	}
}

// TestConditionsOfWhatIsMissing: what Ironic did not take, and what cannot be read, is in the messages of conditions that are
// True as long as the rest is in order.
func TestConditionsOfWhatIsMissing(t *testing.T) {
	const missing, later = "Network cards without a port", "What Ironic accepts only for an idle node is registered when the node is idle"
	finished := metav1.NewMicroTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for name, tt := range map[string]struct {
		change          func(h *metal3.BareMetalHost)
		conditionType   string
		verdict, prefix string
		says            string
	}{
		"all ports":      {func(h *metal3.BareMetalHost) { SetRegistered(h, metal3.RegisteredWith{}, "") }, metal3.RegisteredCondition, "T/Registered", "", ""},
		"a missing port": {func(h *metal3.BareMetalHost) { SetRegistered(h, metal3.RegisteredWith{}, missing) }, metal3.RegisteredCondition, "T/Registered", missing, missing},
		"a later part":   {func(h *metal3.BareMetalHost) { SetRegistered(h, metal3.RegisteredWith{DueWhenIdle: true}, "") }, metal3.RegisteredCondition, "T/Registered", later, later},
		"both":           {func(h *metal3.BareMetalHost) { SetRegistered(h, metal3.RegisteredWith{DueWhenIdle: true}, missing) }, metal3.RegisteredCondition, "T/Registered", missing + ". " + later, later},
		"no bad part":    {func(*metal3.BareMetalHost) {}, metal3.InventoryReadCondition, "-", "", ""},
		"a bad part": {func(h *metal3.BareMetalHost) {
			h.Status.Ironic = &metal3.IronicStatus{InspectionFinishedAt: &finished, UnreadInventory: "a is 1"}
		}, metal3.InventoryReadCondition, "T/InventoryIncomplete", "Parts of the inventory of the inspection that ended at 2026-01-01T00:00:00Z cannot be read", ": a is 1"},
		"a bad inventory": {func(h *metal3.BareMetalHost) {
			h.Status.Record.UnusableInventory = &metal3.UnusableInventory{InspectionFinishedAt: finished, Problem: "a is 1"}
		}, metal3.InventoryReadCondition, "F/InventoryUnusable", "The inventory of the inspection that ended at 2026-01-01T00:00:00Z cannot be used", ": a is 1"},
	} {
		host := newHost(tt.change)
		host = withConditions(host, nil, now)
		message := ""
		if c := findCondition(&host.Status, tt.conditionType); c != nil {
			message = c.Message
		}
		if got := verdictsOf(host, tt.conditionType); got != tt.verdict || !strings.HasPrefix(message, tt.prefix) || !strings.HasSuffix(message, tt.says) || tt.prefix == "" && message != "" {
			t.Errorf("%s: %s, %q; want %s, %q to %q", name, got, message, tt.verdict, tt.prefix, tt.says)
		}
	}
}

// TestConditionsWithoutANode: what was so of a node that is gone, or may be another host's, is not known any more.
func TestConditionsWithoutANode(t *testing.T) {
	types := []string{metal3.NetworkInterfacesValidCondition, metal3.HealthyCondition}
	own := &ironic.Node{Address: ownBMC, Health: "OK", ProvisionState: ironic.Active}
	host := newHost(withState(metal3.StateProvisioned), func(h *metal3.BareMetalHost) {
		SetRegistered(h, metal3.RegisteredWith{}, "")
		h.Status.Record.Network = &metal3.NetworkVerdict{Generation: h.Generation, Reason: metal3.AllInterfacesValidReason}
	})
	host = observe(host, own)
	if got := verdictsOf(host, types...); got != "T/AllInterfacesValid T/Healthy" {
		t.Fatalf("before: %s", got)
	}
	rendered := func(change func(h *metal3.BareMetalHost)) *metal3.BareMetalHost {
		h := host.DeepCopy()
		change(h)
		Render(h, now)
		return h
	}
	for name, without := range map[string]*metal3.BareMetalHost{
		"lost":     observe(host, nil),
		"detached": rendered(func(h *metal3.BareMetalHost) { MarkDetached(h, now) }),
		"moved": rendered(func(h *metal3.BareMetalHost) {
			h.Status.Record.Transfer = &metal3.Transfer{}
			MarkTransferred(h, now)
		}),
		"of another host": observe(host, &ironic.Node{Name: "metal3~host-1", Address: ownBMC, Health: "OK"}),
	} {
		if got := verdictsOf(without, types...); got != "U/Unknown U/Unknown" {
			t.Errorf("%s: %s", name, got)
		}
		if host.Status.Record.Network.Reason != metal3.AllInterfacesValidReason {
			t.Fatalf("%s: the host that was observed has changed", name)
		}
	}
	// The switch ports of the next node are not known before somebody has looked at them.
	if got := verdictsOf(observe(observe(host, nil), own), types...); got != "U/Unknown T/Healthy" {
		t.Errorf("there again: %s", got)
	}
}

// TestConditionRegisteredWithoutANode: a host whose node the server has removed is not registered until it is registered again.
func TestConditionRegisteredWithoutANode(t *testing.T) {
	host := newHost(withState(metal3.StateProvisioned), func(h *metal3.BareMetalHost) { SetRegistered(h, metal3.RegisteredWith{}, "") })
	host = observe(host, &ironic.Node{Address: ownBMC, ProvisionState: ironic.Active})
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"registered", func() {}, "T/Registered"},
		{"detached", func() { MarkDetached(host, now) }, "U/Unknown"},
		{"attached", func() { MarkAttached(host, now) }, "U/Unknown"},
		{"registered again", func() { SetRegistered(host, metal3.RegisteredWith{}, "") }, "T/Registered"},
	} {
		step.do()
		Render(host, now)
		if got := verdictsOf(host, metal3.RegisteredCondition); got != step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
	}
}
