// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// How long what failed is left alone: 2^n minutes less up to a half, and half a
// minute at most where a BMC is silent.
func TestBackoff(t *testing.T) {
	const noTLS = "Failed to get power state for node n. Error: Redfish connection failed for node n: Unable to connect to https://bmc:8000. Error: (Caused by SSLError(SSLError(1, '[SSL] record layer failure (_ssl.c:1006)')))"
	const clock = "Node n failed verify step verify_bmc_clock with unexpected error: Failed to verify node n: BMC clock verify step failed: "
	for _, tt := range []struct {
		kind     metal3.ErrorType
		message  string
		count    int
		min, max time.Duration
	}{
		{metal3.InspectionError, "no", 1, time.Minute, 2 * time.Minute},
		{metal3.InspectionError, "no", 2, 2 * time.Minute, 4 * time.Minute},
		{metal3.ProvisioningError, "no", 5, 16 * time.Minute, 32 * time.Minute},
		{metal3.PreparationError, "no", 9, 256 * time.Minute, 512 * time.Minute},
		{metal3.PreparationError, "no", 90, 256 * time.Minute, 512 * time.Minute},
		{metal3.RegistrationError, "no", 9, 16 * time.Second, 20 * time.Second},
		{metal3.InspectionError, "Redfish connection failed for node n: Unable to connect to http://192.0.2.1. Error: timed out", 9, 16 * time.Second, 20 * time.Second},
		{metal3.PowerManagementError, "Failed to change power state to 'power on'. Error: IPMI call failed: power on.", 3, 16 * time.Second, 20 * time.Second},
		{metal3.InspectionError, "Failed to inspect hardware. Reason: unable to start inspection: IPMI call failed: power off.", 9, 16 * time.Second, 20 * time.Second},
		{metal3.InspectionError, "Failed to inspect hardware. Reason: unable to start inspection: IPMI call failed: raw 0x00 0x08 0x03 0x08.", 1, time.Minute, 2 * time.Minute},
		{metal3.InspectionError, "Failed to inspect hardware. Reason: unable to start inspection: IPMI call failed: raw 0x00 0x08 0x03 0x08.", 9, 256 * time.Minute, 512 * time.Minute},
		{metal3.PreparationError, "Failed to prepare node n for cleaning: IPMI call failed: chassis bootdev pxe.", 5, 16 * time.Minute, 32 * time.Minute},
		{metal3.RegistrationError, "Failed to get power state for node n. Error: Redfish connection failed for node n: HTTP GET https://bmc/redfish/v1/Systems/1 returned code 401", 4, 8 * time.Minute, 16 * time.Minute},
		{metal3.RegistrationError, "Failed to get power state for node n. Error: Redfish connection failed for node n: HTTP GET https://bmc/redfish/v1/Systems/1 returned code 401", 400, 8 * time.Minute, 16 * time.Minute},
		{metal3.RegistrationError, noTLS, 1, time.Minute, 2 * time.Minute},
		{metal3.RegistrationError, noTLS, 90, 8 * time.Minute, 16 * time.Minute},
		{metal3.PowerManagementError, noTLS, 3, 4 * time.Minute, 8 * time.Minute},
		{metal3.RegistrationError, clock + "HTTP PATCH https://bmc/redfish/v1/Managers/1 returned code 400.", 3, 4 * time.Minute, 8 * time.Minute},
		{metal3.RegistrationError, clock + "HTTP PATCH https://bmc/redfish/v1/Managers/1 returned code 400.", 90, 8 * time.Minute, 16 * time.Minute},
		{metal3.RegistrationError, clock + "Redfish connection failed for node n: Unable to connect to https://bmc. Error: timed out", 3, 16 * time.Second, 20 * time.Second},
		{metal3.ProvisioningError, "The deploying state can't be resumed by conductor conductor-0. Moving to fail state.", 1, 2 * time.Second, 4 * time.Second},
		{metal3.PreparationError, "Operation was aborted due to conductor take over", 3, 8 * time.Second, 16 * time.Second},
		{metal3.RegistrationError, "The verifying state can't be resumed by conductor conductor-0. Moving to fail state.", 9, 16 * time.Second, 20 * time.Second},
		{metal3.ProvisioningError, "Validation of image href http://images/a failed, reason: Max retries exceeded with url: /a", 1, time.Minute, 2 * time.Minute},
	} {
		host := newHost(withError(tt.kind, tt.message, tt.count))
		host.Status.LastUpdated = nil
		host.Status.TriedCredentials = metal3.CredentialsStatus{Reference: &corev1.SecretReference{Name: "bmc"}, Version: "7"}
		host.Status.GoodCredentials = host.Status.TriedCredentials
		b := &backoff{}
		if got, mended := b.hold(host, secretVersions("7"), now); got < tt.min || got > tt.max || mended {
			t.Errorf("%s %q, the %d. in a row: %s, want %s to %s; mended: %t", tt.kind, tt.message, tt.count, got, tt.min, tt.max, mended)
		}
		if got, mended := b.hold(host, secretVersions("7"), now.Add(tt.max)); got != 0 || mended {
			t.Errorf("%s: still held after %s: %s; mended: %t", tt.kind, tt.max, got, mended)
		}
	}
}

// ipmitool's words for a BMC that refuses and for one that is silent are the same to us. Where the BMC has never accepted the user, it is
// asked less and less often, so that no account stays locked; a BMC that has, is asked as often as any that is silent.
func TestBackoffOfIPMI(t *testing.T) {
	const message = "Failed to get power state for node n. Error: IPMI call failed: power status."
	accepted := metal3.CredentialsStatus{Reference: &corev1.SecretReference{Name: "bmc", Namespace: "metal3"}, Version: "7"}
	for _, tt := range []struct {
		good     metal3.CredentialsStatus
		count    int
		min, max time.Duration
	}{
		{metal3.CredentialsStatus{}, 1, 16 * time.Second, 20 * time.Second},
		{metal3.CredentialsStatus{}, 3, 64 * time.Second, 80 * time.Second},
		{metal3.CredentialsStatus{}, 7, 1024 * time.Second, 1280 * time.Second},
		{metal3.CredentialsStatus{}, 700, 1024 * time.Second, 1280 * time.Second},
		{metal3.CredentialsStatus{Reference: accepted.Reference, Version: "6"}, 3, 64 * time.Second, 80 * time.Second},
		{accepted, 7, 16 * time.Second, 20 * time.Second},
	} {
		host := newHost(withError(metal3.RegistrationError, message, tt.count))
		host.Status.LastUpdated, host.Status.TriedCredentials, host.Status.GoodCredentials = nil, accepted, tt.good
		if got, _ := (&backoff{}).hold(host, secretVersions("7"), now); got < tt.min || got > tt.max {
			t.Errorf("accepted %+v, the %d. in a row: %s, want %s to %s", tt.good, tt.count, got, tt.min, tt.max)
		}
	}
}

// TestBackoffOfFirmware: an update that has failed is not repeated after a few seconds.
func TestBackoffOfFirmware(t *testing.T) {
	for _, message := range []string{"Redfish connection failed for node n", "The cleaning state can't be resumed by conductor conductor-0."} {
		host := newHost(withError(metal3.PreparationError, message, 1))
		host.Status.LastUpdated = nil
		host.Status.Record.Preparation = &metal3.Preparation{Phase: metal3.PreparationFailed, FirmwareUpdates: []metal3.FirmwareUpdate{{Component: "bmc"}}}
		if got, _ := (&backoff{}).hold(host, nil, now); got < time.Minute {
			t.Errorf("%s: held for %s", message, got)
		}
	}
}

// secrets are the versions of the Secrets that a host names.
func secretVersions(userData string) map[string]string {
	return map[string]string{"host-0-bmc": "7", "user-data": userData}
}

// What may have been mended is tried at once: the spec or a Secret has changed,
// or somebody asked for it. The next failure is left alone again.
func TestBackoffEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after string // of the Secret
		change        func(*metal3.BareMetalHost)
	}{
		"spec":              {"7", "7", func(h *metal3.BareMetalHost) { h.Generation++ }},
		"Secret":            {"7", "8", func(*metal3.BareMetalHost) {}},
		"Secret comes late": {"", "8", func(*metal3.BareMetalHost) {}},
		"reboot asked for": {"7", "7", func(h *metal3.BareMetalHost) {
			h.Annotations = map[string]string{metal3.RebootAnnotation + "/fence": ""}
		}},
		"retry":               {"7", "7", func(h *metal3.BareMetalHost) { h.Status.ErrorCount = 0 }},
		"retry, after a wait": {"7", "7", func(h *metal3.BareMetalHost) { h.Status.ErrorCount = 0 }},
	} {
		host := newHost(withError(metal3.InspectionError, "no", 4))
		host.Status.LastUpdated = nil
		b, now := &backoff{}, now
		if left, mended := b.hold(host, secretVersions(tt.before), now); left < 8*time.Minute || mended {
			t.Fatalf("%s: held for %s at first; mended: %t", name, left, mended)
		}
		if name == "retry, after a wait" {
			now = now.Add(time.Hour)
		}
		tt.change(host)
		if left, mended := b.hold(host, secretVersions(tt.after), now); left != 0 || !mended {
			t.Errorf("%s: still held for %s; mended: %t", name, left, mended)
		}
		withError(metal3.InspectionError, "no", host.Status.ErrorCount+1)(host)
		if left, mended := b.hold(host, secretVersions(tt.after), now); left < time.Minute || mended {
			t.Errorf("%s: the next failure is held for %s; mended: %t", name, left, mended)
		}
	}
}

// What the watch shows late, from before the failure, mends nothing.
func TestBackoffIgnoresOldSecret(t *testing.T) {
	host, b := newHost(withError(metal3.InspectionError, "no", 1)), &backoff{}
	host.Status.LastUpdated = nil
	b.hold(host, secretVersions("8"), now)
	if left, mended := b.hold(host, secretVersions("7"), now); left < time.Minute || mended {
		t.Errorf("held for %s; mended: %t", left, mended)
	}
}

// What is changed between the step that goes by it and its failure, which may be an hour
// later, is a reason to try again at once.
func TestBackoffKnowsWhatWasTried(t *testing.T) {
	for name, change := range map[string]func(*metal3.BareMetalHost) (secret string){
		"Secret": func(*metal3.BareMetalHost) string { return "8" },
		"spec":   func(h *metal3.BareMetalHost) string { h.Generation++; return "7" },
	} {
		host, b := newHost(), &backoff{}
		b.hold(host, secretVersions("7"), now)
		b.begin(lifecycle.Step{}, now)
		secret := change(host)
		b.hold(host, secretVersions(secret), now) // while the step is under way
		withError(metal3.ProvisioningError, "no", 1)(host)
		if left, mended := b.hold(host, secretVersions(secret), now); left != 0 || !mended {
			t.Errorf("%s: held for %s; mended: %t", name, left, mended)
		}
		b.begin(lifecycle.Step{Do: lifecycle.ClearMaintenance}, now) // before the next try
		withError(metal3.ProvisioningError, "no, in other words", 2)(host)
		if left, mended := b.hold(host, secretVersions(secret), now); left != 0 || !mended {
			t.Errorf("%s: held for %s after the maintenance was ended; mended: %t", name, left, mended)
		}
		b.begin(lifecycle.Step{}, now)
		host.Status.ErrorCount++
		if left, mended := b.hold(host, secretVersions(secret), now); left < 2*time.Minute || mended {
			t.Errorf("%s: the next failure is held for %s; mended: %t", name, left, mended)
		}
	}
}

// When Ironic was away, nobody has looked whether a BMC is back. What failed for another
// reason is as it was.
func TestBackoffWhenIronicIsBack(t *testing.T) {
	for kind, held := range map[metal3.ErrorType]bool{metal3.RegistrationError: false, metal3.ProvisioningError: true} {
		host, b := newHost(withError(kind, "no", 1)), &backoff{}
		host.Status.LastUpdated = nil
		b.hold(host, secretVersions("7"), now)
		b.ironicIsBack()
		if left, mended := b.hold(host, secretVersions("7"), now); left > 0 != held || mended {
			t.Errorf("%s: held for %s; mended: %t", kind, left, mended)
		}
	}
}

// A host whose error is gone is not held.
func TestNoBackoffWithoutError(t *testing.T) {
	host, b := newHost(withError(metal3.InspectionError, "no", 4)), &backoff{}
	b.hold(host, secretVersions("7"), now)
	host.Status.Record.Error = nil
	if left, mended := b.hold(host, secretVersions("7"), now); left != 0 || mended {
		t.Errorf("held for %s; mended: %t", left, mended)
	}
}

// A leader that has just begun goes on with the delay of the one before.
func TestBackoffAfterRestart(t *testing.T) {
	host := newHost(withError(metal3.InspectionError, "no", 1))
	host.Status.LastUpdated = &metav1.Time{Time: (now.Add(-10 * time.Minute)).Truncate(time.Second)}
	if got, mended := (&backoff{}).hold(host, secretVersions("7"), now); got != 0 || mended {
		t.Errorf("held for %s, ten minutes after the failure; mended: %t", got, mended)
	}
}

// A hold shows in place of what fails behind it, and counts nothing. What is still asked of the machine is left alone all the same for
// longer and longer: BMCs lock the account of who asks again and again. Once it has succeeded, the count begins anew.
func TestBackoffBehindHold(t *testing.T) {
	host, b, now := newHost(), &backoff{}, now
	host.Status.LastUpdated = nil
	host.Spec.Online = true
	host.Status.Record.Hold = &metal3.Hold{Reason: metal3.BMCInUseReason, Message: "in use"}
	host.Status.Record.Error = &metal3.HostError{Type: metal3.ProvisionedRegistrationError, Message: "in use"}
	host.Status.Provisioning.State = metal3.StateProvisioned
	const failed = "Failed to change power state to 'power on'. Error: no"
	node := &metal3.IronicStatus{ProvisionState: string(ironic.Active), PowerState: string(ironic.PowerOff)}
	host.Status.Ironic = node
	hold := func(atLeast, atMost time.Duration) {
		t.Helper()
		left, retryNow := b.hold(host, nil, now)
		if left < atLeast || left > atMost || retryNow {
			t.Errorf("held for %s, want %s to %s; retryNow: %t", left, atLeast, atMost, retryNow)
		}
		now = now.Add(left)
	}
	try := func() {
		b.begin(lifecycle.Step{Do: lifecycle.SwitchPower, Power: ironic.TargetPowerOn}, now)
		node.LastError, node.TargetPowerState = "", string(ironic.TargetPowerOn)
		hold(0, 0)
		node.LastError, node.TargetPowerState = failed, ""
	}
	hold(0, 0)
	for n := range 12 {
		try()
		hold(time.Minute<<min(n, 3), 2*time.Minute<<min(n, 3)) // nobody can end the wait: an error count is not shown
	}
	b.begin(lifecycle.Step{Do: lifecycle.SwitchPower, Power: ironic.TargetPowerOn}, now)
	node.LastError, node.PowerState = "", string(ironic.PowerOn)
	hold(0, 0)
	node.PowerState = string(ironic.PowerOff)
	try()
	hold(time.Minute, 2*time.Minute)
}
