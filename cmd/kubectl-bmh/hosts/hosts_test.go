// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func host(state metal3.ProvisioningState, change ...func(*metal3.BareMetalHost)) *metal3.BareMetalHost {
	h := &metal3.BareMetalHost{Status: metal3.BareMetalHostStatus{
		OperationalStatus: metal3.OperationalStatusOK, Provisioning: metal3.ProvisionStatus{State: state},
	}}
	for _, c := range change {
		c(h)
	}
	return h
}

func power(state, target string) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) {
		h.Status.Ironic = &metal3.IronicStatus{PowerState: state, TargetPowerState: target}
	}
}

func online(h *metal3.BareMetalHost) { h.Spec.Online = true }

func withCondition(conditionType string, status metav1.ConditionStatus, reason string) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) {
		h.Status.Conditions = append(h.Status.Conditions, metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: "the message"})
	}
}

func customDeploy(method string) *metal3.CustomDeploy {
	if method == "" {
		return nil
	}
	return &metal3.CustomDeploy{Method: method}
}

func withError(h *metal3.BareMetalHost) {
	h.Status.OperationalStatus, h.Status.ErrorType, h.Status.ErrorMessage = metal3.OperationalStatusError, metal3.ProvisioningError, "the error"
}

// mayComeOnLate is how the server shows a host while a request to switch it on may be carried out late.
func mayComeOnLate(h *metal3.BareMetalHost) { h.Status.PoweredOn = true }

func TestPower(t *testing.T) {
	for _, c := range []struct {
		host *metal3.BareMetalHost
		want string
	}{
		{host(metal3.StateProvisioned), ""},
		{host(metal3.StateProvisioned, power("", "")), ""},
		{host(metal3.StateProvisioned, power("power on", ""), online), "on"},
		{host(metal3.StateProvisioned, power("power on", "")), "on!"},
		{host(metal3.StateProvisioned, power("power off", ""), online), "off!"},
		{host(metal3.StateProvisioned, power("power off", "power on"), online), "off→on"},
		{host(metal3.StateProvisioned, power("power on", "rebooting"), online), "on→reboot"},
		{host(metal3.StateProvisioned, power("power on", "power on"), online), "on"},
		{host(metal3.StateProvisioning, power("power off", ""), online), "off"}, // Ironic switches it as it needs it
		{host(metal3.StateProvisioned, power("error", "")), "error"},
		{host(metal3.StateProvisioned, power("power off", ""), mayComeOnLate), "off?"},
		{host(metal3.StateProvisioning, power("power off", ""), mayComeOnLate), "off"},
	} {
		if got := Power(c.host); got != c.want {
			t.Errorf("%+v: %q, want %q", c.host.Status.Ironic, got, c.want)
		}
	}
}

func TestPowerChange(t *testing.T) {
	for want, h := range map[string]*metal3.BareMetalHost{
		"":                                    host(metal3.StateProvisioned, power("power on", "")),
		"changing its power from off to on":   host(metal3.StateProvisioned, power("power off", "power on")),
		"changing its power from on to off":   host(metal3.StateProvisioned, power("power on", "soft power off")),
		"switching it on":                     host(metal3.StateProvisioned, power("", "power on")),
		"switching it off":                    host(metal3.StateProvisioned, power("power off", "power off")),
		"rebooting it":                        host(metal3.StateProvisioned, power("power on", "soft rebooting")),
		"changing its power from error to on": host(metal3.StateProvisioned, power("error", "power on")),
	} {
		if got := PowerChange(h); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := PowerChange(host(metal3.StateNone)); got != "" {
		t.Error(got)
	}
}

func TestProgress(t *testing.T) {
	for want, status := range map[string]metal3.IronicStatus{
		"":                       {ProvisionState: "active"},
		"deploy":                 {ProvisionState: "wait call-back", Step: "deploy.deploy"},
		"deploy 1/6":             {ProvisionState: "deploying", Step: "deploy.deploy", StepIndex: 1, StepCount: 6},
		"deploy 2/6 write_image": {ProvisionState: "deploying", Step: "deploy.write_image", StepIndex: 2, StepCount: 6},
		"clean erase_devices":    {ProvisionState: "clean wait", Step: "deploy.erase_devices"},
		"service":                {ProvisionState: "service wait"},
	} {
		h := host(metal3.StateProvisioning)
		h.Status.Ironic = &status
		if got := ProgressOf(h).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestReached(t *testing.T) {
	inMaintenance := func(h *metal3.BareMetalHost) { h.Status.Ironic.Maintenance = true }
	deleting := func(h *metal3.BareMetalHost) { h.DeletionTimestamp = &metav1.Time{Time: now} }
	image := func(wanted, deployed string) func(*metal3.BareMetalHost) {
		return func(h *metal3.BareMetalHost) {
			h.Status.Provisioning.Image.URL = deployed
			if wanted != "" {
				h.Spec.Image = &metal3.Image{URL: wanted}
			}
		}
	}
	custom := func(wanted, deployed string) func(*metal3.BareMetalHost) {
		return func(h *metal3.BareMetalHost) {
			h.Spec.CustomDeploy, h.Status.Provisioning.CustomDeploy = customDeploy(wanted), customDeploy(deployed)
		}
	}
	rebooting := func(key string) func(*metal3.BareMetalHost) {
		return func(h *metal3.BareMetalHost) { h.Annotations = map[string]string{key: `{"mode":"hard"}`} }
	}
	serviced := func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusServicing }
	serviceFailed := func(h *metal3.BareMetalHost) {
		h.Status.Record.Servicing = &metal3.Servicing{Preparation: metal3.Preparation{Phase: metal3.PreparationFailed}}
	}
	serviceEnded := func(h *metal3.BareMetalHost) {
		h.Status.Record.Servicing = &metal3.Servicing{Preparation: metal3.Preparation{Phase: metal3.PreparationFailed, EndedAt: &metav1.Time{Time: now}}}
	}
	toAdopt := func(h *metal3.BareMetalHost) { h.Status.Record.Deployment = &metal3.Deployment{MayAdopt: true} }
	detached := func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusDetached }
	unreachable := withCondition(metal3.IronicReachableCondition, metav1.ConditionFalse, metal3.UnreachableReason)
	registered := withCondition(metal3.RegisteredCondition, metav1.ConditionTrue, metal3.RegisteredReason)
	for _, c := range []struct {
		name   string
		host   *metal3.BareMetalHost
		target Target
		want   bool
	}{
		{"registered", host(metal3.StateInspecting, registered), Registered, true},
		{"not verified", host(metal3.StateRegistering, registered), Registered, false},
		{"not inspected", host(metal3.StateAvailable), Inspected, false},
		{"available", host(metal3.StateAvailable), Available, true},
		{"ready", host(metal3.StateReady), Available, true},
		{"given up", host(metal3.StateAvailable, withError), Available, false},
		{"deleting", host(metal3.StateAvailable, deleting), Available, false},
		{"provisioned", host(metal3.StateProvisioned, image("a", "a")), Provisioned, true},
		{"other image", host(metal3.StateProvisioned, image("b", "a")), Provisioned, false},
		{"image removed", host(metal3.StateProvisioned, image("", "a")), Provisioned, false},
		{"taken over", host(metal3.StateProvisioned), Provisioned, true},
		{"procedure", host(metal3.StateProvisioned, custom("a", "a")), Provisioned, true},
		{"other procedure", host(metal3.StateProvisioned, custom("b", "a")), Provisioned, false},
		{"procedure removed", host(metal3.StateProvisioned, image("b", ""), custom("", "a")), Provisioned, false},
		{"procedure added", host(metal3.StateProvisioned, image("a", "a"), custom("b", "")), Provisioned, true}, // which changes nothing
		{"external", host(metal3.StateExternallyProvisioned), ExternallyProvisioned, true},
		{"on", host(metal3.StateAvailable, power("power on", "")), On, true},
		{"going off", host(metal3.StateAvailable, power("power on", "power off")), On, false},
		{"off", host(metal3.StateAvailable, power("power off", "")), Off, true},
		{"unknown", host(metal3.StateAvailable, power("", "")), Off, false},
		{"off, and may come on", host(metal3.StateProvisioned, power("power off", ""), mayComeOnLate), Off, false},
		{"off, when Ironic was last asked", host(metal3.StateProvisioned, power("power off", ""), unreachable), Off, false},
		{"provisioned then", host(metal3.StateProvisioned, unreachable), Provisioned, false},
		{"idle then", host(metal3.StateProvisioned, unreachable), Idle, false},
		{"to be rebooted", host(metal3.StateProvisioned, power("power on", ""), rebooting(metal3.RebootAnnotation)), On, false},
		{"being serviced", host(metal3.StateProvisioned, power("power on", ""), serviced), On, false},
		{"off while being serviced", host(metal3.StateProvisioned, power("power off", ""), serviced), Off, false},
		{"service failed", host(metal3.StateProvisioned, power("power on", ""), withError, serviceFailed), On, false},
		{"on without the change", host(metal3.StateProvisioned, power("power on", ""), withError, serviceEnded), On, true},
		{"the ramdisk is on", host(metal3.StateInspecting, power("power on", "")), On, false},
		{"between ramdisks", host(metal3.StatePreparing, power("power off", "")), Off, false},
		{"rebooted", host(metal3.StateProvisioned, power("power on", "")), Rebooted, true},
		{"rebooting", host(metal3.StateProvisioned, power("power on", "rebooting")), Rebooted, false},
		{"not rebooted", host(metal3.StateProvisioned, power("power on", ""), lastError(softFailed)), Rebooted, false},
		{"held off", host(metal3.StateProvisioned, power("power off", ""), rebooting(metal3.RebootAnnotationPrefix+"x")), Off, true},
		{"ok", host(metal3.StateInspecting), OK, true},
		{"not ok", host(metal3.StateInspecting, withError), OK, false},
		{"ok with a warning light", host(metal3.StateProvisioned, withCondition(metal3.HealthyCondition, metav1.ConditionFalse, metal3.WarningReason)), OK, true},
		{"ok in maintenance", host(metal3.StateProvisioned, power("power on", ""), inMaintenance), OK, true},
		{"held", host(metal3.StateProvisioned, withCondition(metal3.HeldCondition, metav1.ConditionTrue, metal3.AnotherBMCReason)), OK, false},
		{"without Ironic", host(metal3.StateProvisioned, withCondition(metal3.IronicReachableCondition, metav1.ConditionFalse, metal3.UnreachableReason)), OK, false},
		{"trying again", host(metal3.StateInspecting), Settled, false},
		{"failed again", host(metal3.StateAvailable, withError), Settled, false},
		{"settled", host(metal3.StateAvailable), Settled, true},
		{"idle", host(metal3.StateProvisioned), Idle, true},
		{"busy", host(metal3.StateProvisioning), Idle, false},
		{"to be adopted", host(metal3.StateProvisioned, toAdopt), Idle, false},
		{"to be adopted when it comes back", host(metal3.StateProvisioned, toAdopt, detached), Idle, true},
		{"idle but for a reboot that was asked for", host(metal3.StateProvisioned, power("power on", ""), rebooting(metal3.RebootAnnotation)), Idle, false},
	} {
		if got := Reached(c.host, c.target); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
	for _, target := range Targets {
		if target != Deleted && Reached(host(metal3.StateProvisioned, deleting), target) {
			t.Errorf("a host that is being deleted is %s", target)
		}
	}
}

// TestIsAskedFor: who waits for what nobody is about to do is told so.
func TestIsAskedFor(t *testing.T) {
	paused := func(h *metal3.BareMetalHost) { h.Annotations = map[string]string{metal3.PausedAnnotation: "me"} }
	detached := func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusDetached }
	uninspected := func(h *metal3.BareMetalHost) { h.Spec.InspectionMode = metal3.InspectionModeDisabled }
	deleting := func(h *metal3.BareMetalHost) { h.DeletionTimestamp = &metav1.Time{Time: now} }
	for _, c := range []struct {
		name   string
		host   *metal3.BareMetalHost
		target Target
		why    string
	}{
		{"inspecting", host(metal3.StateInspecting), Inspected, ""},
		{"never inspected", host(metal3.StateAvailable, uninspected), Inspected, "its spec.inspectionMode is disabled"},
		{"available without an inspection", host(metal3.StateRegistering, uninspected), Available, ""},
		{"unmanaged", host(metal3.StateUnmanaged), Available, "it is unmanaged, because its spec has no BMC"},
		{"unmanaged and deleted", host(metal3.StateUnmanaged, deleting), Deleted, ""},
		{"paused", host(metal3.StateInspecting, paused), Available, "it is paused by me"},
		{"paused and deleted", host(metal3.StateAvailable, paused, deleting), Deleted, "it is paused by me"},
		{"paused, while Ironic switches it", host(metal3.StateAvailable, paused, power("power off", "power on"), online), On, ""},
		{"detached", host(metal3.StateAvailable, detached, online), On, "it is detached"},
		{"detached and deleted", host(metal3.StateAvailable, detached, deleting), Deleted, ""},
		{"detached, for an image", host(metal3.StateAvailable, detached), Available, "it is detached"},
		{"to be on", host(metal3.StateAvailable, online), On, ""},
		{"to be off", host(metal3.StateAvailable), On, "its spec.online is false"},
		{"not deleted", host(metal3.StateAvailable, paused), Deleted, "nobody has deleted it"},
	} {
		if why, ok := IsAskedFor(c.host, c.target); why != c.why || ok != (c.why == "") {
			t.Errorf("%s: %q %t, want %q", c.name, why, ok, c.why)
		}
	}
	if Reached(host(metal3.StateAvailable, detached), Available) {
		t.Error("no image can be written to a detached host")
	}
}

// What Ironic says of reboots that have failed.
const (
	softFailed = "Failed to change power state to 'power on' by 'soft rebooting': Failed to set node power state to power on."
	hardFailed = "Failed to change power state to 'power on' by 'rebooting': Redfish exception occurred."
)

func lastError(text string) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) { h.Status.Ironic.LastError = text }
}

// TestFailedAt: a reboot that has failed leaves the machine on, without an error of the host.
func TestFailedAt(t *testing.T) {
	reserved := func(h *metal3.BareMetalHost) { h.Status.Ironic.Reservation = "conductor" }
	toReboot := func(h *metal3.BareMetalHost) { h.Annotations = map[string]string{metal3.RebootAnnotation: ""} }
	for _, c := range []struct {
		name   string
		host   *metal3.BareMetalHost
		target Target
		want   string
	}{
		{"well", host(metal3.StateProvisioned, power("power on", "")), Rebooted, ""},
		{"soft", host(metal3.StateProvisioned, power("power on", ""), lastError(softFailed)), Rebooted, "the machine was not rebooted, and is on as before: " + softFailed + " (--mode hard does not ask the system)"},
		{"hard", host(metal3.StateProvisioned, power("power on", ""), lastError(hardFailed)), Rebooted, "the machine was not rebooted, and is on as before: " + hardFailed},
		{"another target", host(metal3.StateProvisioned, power("power on", ""), lastError(hardFailed)), On, ""},
		{"another error", host(metal3.StateProvisioned, power("power on", ""), lastError("Failed to change power state to 'power off' by 'power off': no")), Rebooted, ""},
		{"under way", host(metal3.StateProvisioned, power("power on", "rebooting"), lastError(hardFailed)), Rebooted, ""},
		{"about to begin", host(metal3.StateProvisioned, power("power on", ""), lastError(hardFailed), reserved), Rebooted, ""},
		{"by the annotation", host(metal3.StateProvisioned, power("power on", ""), lastError(hardFailed), toReboot), Rebooted, ""},
		{"off, and to be switched on", host(metal3.StateProvisioned, power("power off", ""), lastError(hardFailed)), Rebooted, ""},
		{"no node", host(metal3.StateProvisioned), Rebooted, ""},
	} {
		if got := FailedAt(c.host, c.target); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestBlocked(t *testing.T) {
	for _, c := range []struct {
		name        string
		host        *metal3.BareMetalHost
		why         string
		needsPerson bool
	}{
		{"well", host(metal3.StateProvisioning), "", false},
		{"held", host(metal3.StateProvisioned, withCondition(metal3.HeldCondition, metav1.ConditionTrue, metal3.AnotherBMCReason)), "the message", true},
		{"failed", host(metal3.StateProvisioning, withError), "the error", false},
		{"given up", host(metal3.StateAvailable, withError), "the error", true},
		{"Secret", host(metal3.StateRegistering, withError, withCondition(metal3.RegisteredCondition, metav1.ConditionFalse, metal3.SecretNotFoundReason)), "the error", true},
		{"Ironic", host(metal3.StateRegistering, withError, withCondition(metal3.RegisteredCondition, metav1.ConditionFalse, metal3.RequestFailedReason)), "the error", false},
	} {
		if why, needsPerson := Blocked(c.host); why != c.why || needsPerson != c.needsPerson {
			t.Errorf("%s: %q %t", c.name, why, needsPerson)
		}
	}
}

func TestExpectation(t *testing.T) {
	took := func(minutes, endedAgo int) *metal3.BareMetalHost {
		end := now.Add(-time.Duration(endedAgo) * time.Minute)
		h := host(metal3.StateProvisioned)
		h.Status.OperationHistory.Provision = metal3.OperationMetric{Start: metav1.NewTime(end.Add(-time.Duration(minutes) * time.Minute)), End: metav1.NewTime(end)}
		return h
	}
	running := host(metal3.StateProvisioning)
	running.Status.OperationHistory.Provision.Start = metav1.NewTime(now)
	for _, c := range []struct {
		fleet []*metal3.BareMetalHost
		want  string
	}{
		{nil, ""},
		{[]*metal3.BareMetalHost{running}, ""},
		{[]*metal3.BareMetalHost{took(6, 1)}, "the last deployment took 6m"},
		{[]*metal3.BareMetalHost{took(6, 1), took(6, 2)}, "the last 2 deployments took 6m"},
		// The one of 99 minutes is too long ago.
		{[]*metal3.BareMetalHost{took(9, 1), took(99, 100), took(6, 2), took(7, 3), took(7, 4), took(8, 5), running}, "the last 5 deployments took 6m to 9m"},
	} {
		if got := Expectation(c.fleet, metal3.StateProvisioning); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if got := Expectation([]*metal3.BareMetalHost{took(6, 1)}, metal3.StateAvailable); got != "" {
		t.Errorf("available: %q", got)
	}
}

func TestProblem(t *testing.T) {
	maintenance := func(h *metal3.BareMetalHost) {
		h.Status.Ironic = &metal3.IronicStatus{Maintenance: true, MaintenanceReason: "a fan"}
	}
	for want, h := range map[string]*metal3.BareMetalHost{
		"":                      host(metal3.StateProvisioned, withCondition(metal3.PowerSyncedCondition, metav1.ConditionFalse, metal3.OwnParentReason)),
		"the error":             host(metal3.StateProvisioned, withError, maintenance),
		"the message":           host(metal3.StateProvisioned, withCondition(metal3.StepFailedCondition, metav1.ConditionTrue, metal3.InspectionErrorReason)),
		"in maintenance: a fan": host(metal3.StateProvisioned, maintenance),
		"the BMC reports that the machine's health is critical": host(metal3.StateProvisioned, withCondition(metal3.HealthyCondition, metav1.ConditionFalse, metal3.CriticalErrorReason)),
		"paused by metal3.io/capm3": host(metal3.StateProvisioned, func(h *metal3.BareMetalHost) {
			h.Annotations = map[string]string{metal3.PausedAnnotation: "metal3.io/capm3"}
		}),
	} {
		if got := Problem(h); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
