// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/failure"
)

// shown is what `kubectl get -o wide` and `kubectl wait` tell of a host.
type shown struct {
	State       metal3.ProvisioningState
	Operational metal3.OperationalStatus
	ErrorType   metal3.ErrorType
	// Message is how errorMessage begins.
	Message    string
	ErrorCount int
	PoweredOn  bool
	// Conditions are those of conditionColumns.
	Conditions string
}

var conditionColumns = append([]string{metal3.RegisteredCondition}, stateConditions...)

func shownBy(host *metal3.BareMetalHost) shown {
	s := host.Status
	return shown{
		State: s.Provisioning.State, Operational: s.OperationalStatus,
		ErrorType: s.ErrorType, Message: valueOf(s.Record.Error).Message, ErrorCount: s.ErrorCount, PoweredOn: s.PoweredOn,
		Conditions: verdictsOf(host, conditionColumns...),
	}
}

// expect compares what a host shows, errorMessage by how it begins.
func expect(t *testing.T, name string, host *metal3.BareMetalHost, want shown) {
	t.Helper()
	got := shownBy(host)
	if want.Message != "" && strings.HasPrefix(got.Message, want.Message) {
		got.Message = want.Message
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

const (
	ok  = metal3.OperationalStatusOK
	bad = metal3.OperationalStatusError
	// Registered Manageable AvailableForProvisioning Provisioned Ready Progressing
	registering        = "T/Registered F/Registering F/NotAvailable F/NotProvisioned F/NotProvisioned T/Registering"
	registrationFailed = "T/Registered F/RegistrationFailed F/NotAvailable F/NotProvisioned F/Error T/Registering"
	inspecting         = "T/Registered T/Manageable F/NotAvailable F/NotProvisioned F/NotProvisioned T/Inspecting"
	preparing          = "T/Registered T/Manageable F/NotAvailable F/NotProvisioned F/NotProvisioned T/Preparing"
	available          = "T/Registered T/Manageable T/Available F/NotProvisioned F/NotProvisioned F/NotProgressing"
	provisioned        = "T/Registered T/Manageable F/NotAvailable T/Provisioned T/Provisioned F/NotProgressing"
)

// notReady replaces the reason of Ready being False, the last but one column.
func notReady(conditions, reason string) string {
	f := strings.Fields(conditions)
	f[4] = "F/" + reason
	return strings.Join(f, " ")
}

// TestObserve: what a host shows when Ironic says what was recorded, in each
// release that has such a recording.
func TestObserve(t *testing.T) {
	bmcSilent := "Failed to get power state for node "
	syncFailed := "During sync_power_state, max retries exceeded for node "
	for what, tt := range map[string]struct {
		host *metal3.BareMetalHost
		want shown
	}{
		"enroll-new":           {newHost(), shown{State: metal3.StateRegistering, Operational: ok, Conditions: registering}},
		"verifying":            {newHost(), shown{State: metal3.StateRegistering, Operational: ok, Conditions: registering}},
		"enroll-verify-failed": {newHost(), shown{State: metal3.StateRegistering, Operational: bad, ErrorType: metal3.RegistrationError, Message: bmcSilent, ErrorCount: 1, Conditions: registrationFailed}},
		"manageable":           {newHost(), shown{State: metal3.StateRegistering, Operational: ok, Conditions: registering}},
		"available":            {newHost(withState(metal3.StateAvailable)), shown{State: metal3.StateAvailable, Operational: ok, Conditions: available}},
		"active":               {newHost(withState(metal3.StateProvisioned)), shown{State: metal3.StateProvisioned, Operational: ok, PoweredOn: true, Conditions: provisioned}},

		"inspect-wait":   {newHost(withState(metal3.StateRegistering)), shown{State: metal3.StateInspecting, Operational: ok, PoweredOn: true, Conditions: inspecting}},
		"inspected":      {newHost(withState(metal3.StateInspecting), withPower(true)), shown{State: metal3.StateInspecting, Operational: ok, Conditions: inspecting}},
		"fake-inspected": {newHost(withState(metal3.StateInspecting)), shown{State: metal3.StateInspecting, Operational: ok, Conditions: inspecting}},

		"clean-wait":              {newHost(withState(metal3.StatePreparing)), shown{State: metal3.StatePreparing, Operational: ok, PoweredOn: true, Conditions: preparing}},
		"clean-failed-available":  {newHost(withState(metal3.StateDeprovisioning)), shown{State: metal3.StateDeprovisioning, Operational: bad, ErrorType: metal3.ProvisioningError, Message: "By request, the clean operation was aborted", ErrorCount: 1, Conditions: notReady(strings.Replace(preparing, "Preparing", "Deprovisioning", 1), "Error")}},
		"clean-failed-manageable": {newHost(withState(metal3.StatePreparing)), shown{State: metal3.StatePreparing, Operational: bad, ErrorType: metal3.PreparationError, Message: "Node ", ErrorCount: 1, Conditions: notReady(preparing, "Error")}},
		// Ironic leaves fault, maintenance and last_error behind when the node leaves clean failed.
		"manageable-after-clean-failed": {newHost(withState(metal3.StatePreparing)), shown{State: metal3.StatePreparing, Operational: bad, ErrorType: metal3.PreparationError, Message: "Node ", ErrorCount: 1, Conditions: notReady(preparing, "Error")}},
		"deploy-failed":                 {newHost(withState(metal3.StateProvisioning)), shown{State: metal3.StateProvisioning, Operational: bad, ErrorType: metal3.ProvisioningError, Message: "Failed to prepare to deploy: Validation of image href http://127.0.0.1:1/image failed", ErrorCount: 1, Conditions: notReady(strings.Replace(preparing, "Preparing", "Provisioning", 1), "Error")}},
		"service-wait":                  {newHost(withState(metal3.StateProvisioned)), shown{State: metal3.StateProvisioned, Operational: metal3.OperationalStatusServicing, PoweredOn: true, Conditions: notReady(provisioned, "Servicing")}},

		"powering-on":      {newHost(withState(metal3.StateAvailable)), shown{State: metal3.StateAvailable, Operational: ok, PoweredOn: true, Conditions: available}},
		"power-off-failed": {newHost(withState(metal3.StatePreparing), offline), shown{State: metal3.StatePreparing, Operational: bad, ErrorType: metal3.PowerManagementError, Message: "Failed to change power state to 'power off' by 'power off': Failed to set node power state to power off.", ErrorCount: 1, PoweredOn: true, Conditions: notReady(preparing, "Error")}},
		// Ironic does not know the power then: what was known last stays.
		"power-failure": {newHost(withState(metal3.StatePreparing), withPower(true)), shown{State: metal3.StatePreparing, Operational: bad, ErrorType: metal3.PowerManagementError, Message: syncFailed, ErrorCount: 1, PoweredOn: true, Conditions: strings.Replace(notReady(preparing, "Error"), "T/Manageable", "F/PowerFailure", 1)}},
		// last_error stays in Ironic when all is well again.
		"recovered": {newHost(withState(metal3.StatePreparing), withError(metal3.PowerManagementError, syncFailed, 3)), shown{State: metal3.StatePreparing, Operational: ok, PoweredOn: true, Conditions: preparing}},
	} {
		for _, name := range inEachRelease(t, what) {
			expect(t, name, observe(tt.host, recorded(t, name)), tt.want)
		}
	}

	// These say it in each release's own words.
	for name, message := range map[string]string{
		"bookworm-inspect-failed": "Failed to start inspection: Could not contact ironic-inspector",
		"trixie-inspect-failed":   "Failed to finish inspection: Failed to inspect hardware.",
		"sid-inspect-failed":      "Async execution of continue_inspection failed with error:",
	} {
		host := observe(newHost(withState(metal3.StateInspecting)), recorded(t, name))
		host.Status.PoweredOn = false // the releases differ in that, too
		expect(t, name, host, shown{State: metal3.StateInspecting, Operational: bad, ErrorType: metal3.InspectionError, Message: message, ErrorCount: 1, Conditions: notReady(inspecting, "Error")})
	}
	for name, message := range map[string]string{"trixie-service-failed": "Cannot service node ", "sid-service-failed": "Node "} {
		host := observe(newHost(withState(metal3.StateProvisioned)), recorded(t, name))
		expect(t, name, host, shown{State: metal3.StateProvisioned, Operational: bad, ErrorType: metal3.ServicingError, Message: message, ErrorCount: 1, Conditions: notReady(provisioned, "Error")})
	}
}

// errorMessage has Ironic's last_error to the letter, after a short sentence about what has happened.
func TestObserveErrorsInIronicsWords(t *testing.T) {
	for _, name := range recordings(t, "*") {
		node := recorded(t, name)
		got := observe(newHost(), node).Status.ErrorMessage
		if got != "" && !strings.HasSuffix(got, node.LastError) {
			t.Errorf("%s: errorMessage is %q, last_error is %q", name, got, node.LastError)
		}
		if first, _, _ := strings.Cut(got, ". "); len(first) > failure.MaxSentence {
			t.Errorf("%s: errorMessage begins with %q", name, first)
		}
	}
}

// status.ironic is what Ironic said, and provisioning.ID is the node's.
func TestObserveStatusIronic(t *testing.T) {
	for _, name := range recordings(t, "*") {
		var said map[string]any
		if err := json.Unmarshal(readTestdata(t, name+".json"), &said); err != nil {
			t.Fatal(err)
		}
		text := func(key string) string { s, _ := said[key].(string); return s }
		want := &metal3.IronicStatus{
			NodeUUID: text("uuid"), Instance: "room-b", NodeName: recorded(t, name).Name, BMC: "ipmi 192.0.2.1:623", ProvisionState: text("provision_state"), TargetProvisionState: text("target_provision_state"),
			PowerState: text("power_state"), TargetPowerState: text("target_power_state"),
			Maintenance: said["maintenance"] == true, MaintenanceReason: text("maintenance_reason"),
			Fault: text("fault"), Reservation: text("reservation"), LastError: text("last_error"),
		}
		want.InstanceUUID = text("instance_uuid")
		want.OwnParent = text("parent_node") == text("uuid")
		want.InventoryPending = text("inspection_finished_at") != "" // it is not read in this test
		if step, _ := said["service_step"].(map[string]any); len(step) > 0 {
			want.Step = step["interface"].(string) + "." + step["step"].(string)
			began := WholeSeconds(now)
			want.StepStartedAt = &began
		}
		if changed := recorded(t, name).ProvisionUpdatedAt; changed != nil && !recorded(t, name).ProvisionState.IsInTransit() {
			moment := metav1.NewMicroTime(*changed)
			want.StateChangedAt = &moment
		}
		if want.Operation = operationOf(recorded(t, name)); want.Operation != "" {
			began := WholeSeconds(now)
			want.OperationStartedAt = &began
		}
		host := observe(newHost(func(h *metal3.BareMetalHost) { h.Status.Record.Ironic = "room-b" }), recorded(t, name))
		if diff := cmp.Diff(want, host.Status.Ironic); diff != "" {
			t.Errorf("%s (-said +shown):\n%s", name, diff)
		}
		if host.Status.Provisioning.ID != want.NodeUUID {
			t.Errorf("%s: provisioning.ID is %s", name, host.Status.Provisioning.ID)
		}
	}
	for _, kind := range []string{"clean_step", "deploy_step", "service_step"} {
		node := &ironic.Node{Address: ownBMC}
		if err := json.Unmarshal([]byte(`{"`+kind+`": {"interface": "deploy", "step": "erase_devices", "priority": 10}}`), node); err != nil {
			t.Fatal(err)
		}
		if got := observe(newHost(), node).Status.Ironic.Step; got != "deploy.erase_devices" {
			t.Errorf("%s: step is %q", kind, got)
		}
	}
}

// The poll reads the detailed form where a read asks for a field list.
func TestObserveDetailedForm(t *testing.T) {
	for _, name := range recordings(t, "*-detail") {
		short := strings.TrimSuffix(name, "-detail")
		if recorded(t, name).UpdatedAt == nil {
			t.Errorf("%s has no updated_at", name)
		}
		host := newHost(withState(metal3.StatePreparing))
		detailed := recorded(t, name)
		if diff := cmp.Diff(observe(host, recorded(t, short)).Status, observe(host, detailed).Status); diff != "" {
			t.Errorf("%s (-field list +detailed):\n%s", short, diff)
		}
	}
}

// quietly fails unless an observation changes nothing.
func quietly(t *testing.T, name string, host *metal3.BareMetalHost, seen Observation, at time.Time) {
	t.Helper()
	status, changed := Observe(host, seen, at)
	if changed {
		t.Errorf("%s: changed by nothing (-before +after):\n%s", name, cmp.Diff(host.Status, status))
	}
}

// A quiet host costs no write: what is observed again is what is there, whatever
// was stored before, also read back from etcd, later, and with nothing but
// Ironic's clocks moved.
func TestObserveIsIdempotent(t *testing.T) {
	variants := map[string]hostOption{}
	for column, state := range storedStates {
		variants[column] = withState(state)
	}
	variants["externally provisioned"] = externallyProvisioned
	variants["deleted"] = deleted
	variants["failed before"] = withError(metal3.RegistrationError, "as before", 4)
	variants["refused before"] = withRegistration(metal3.PortConflictReason, "as before")
	for _, name := range recordings(t, "*") {
		for variant, option := range variants {
			node := recorded(t, name)
			host := observe(newHost(option), node)
			quietly(t, name+", "+variant, host, Observation{Node: node}, now.Add(time.Hour))

			later := now.Add(time.Minute)
			node.UpdatedAt = &later
			if node.ProvisionState.IsInTransit() {
				node.ProvisionUpdatedAt = &later // each heartbeat of a ramdisk renews it, and otherwise only another state does
			}
			quietly(t, name+", "+variant+", later", stored(t, host), Observation{Node: node}, now.Add(time.Hour))

			lost := observe(host, nil)
			quietly(t, name+", "+variant+", lost", stored(t, lost), Observation{}, now.Add(time.Hour))
		}
	}
}

func TestObserveLastUpdated(t *testing.T) {
	host := newHost()
	status, changed := Observe(host, Observation{Node: recorded(t, "trixie-available")}, now)
	if want := now.Truncate(time.Second); !changed || !status.LastUpdated.Time.Equal(want) {
		t.Errorf("changed: %v, lastUpdated: %v, want %v", changed, status.LastUpdated, want)
	}
	if !host.Status.LastUpdated.Equal(&created) || host.Status.Ironic != nil {
		t.Error("Observe has changed the host that it was given")
	}
}
