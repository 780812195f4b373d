package ironicsync

import (
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// How long what failed is left alone: 2^n minutes less up to a half, and half a
// minute at most where a BMC is silent.
func TestBackoff(t *testing.T) {
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
		{metal3.ProvisioningError, "Validation of image href http://images/a failed, reason: Max retries exceeded with url: /a", 1, time.Minute, 2 * time.Minute},
	} {
		host := newHost(withError(tt.kind, tt.message, tt.count))
		host.Status.LastUpdated = nil
		b := &backoff{}
		if got := b.hold(host, "7", now); got < tt.min || got > tt.max {
			t.Errorf("%s %q, the %d. in a row: %s, want %s to %s", tt.kind, tt.message, tt.count, got, tt.min, tt.max)
		}
		if got := b.hold(host, "7", now.Add(tt.max)); got != 0 {
			t.Errorf("%s: still held after %s: %s", tt.kind, tt.max, got)
		}
	}
}

// What may have been mended is tried at once: the spec or the Secret has changed,
// or somebody asked for it. The next failure is left alone again.
func TestBackoffEnds(t *testing.T) {
	for name, mend := range map[string]func(*metal3.BareMetalHost) string{
		"spec":    func(h *metal3.BareMetalHost) string { h.Generation++; return "7" },
		"Secret":  func(*metal3.BareMetalHost) string { return "8" },
		"retry":   func(h *metal3.BareMetalHost) string { h.Status.ErrorCount = 0; return "7" },
		"no more": func(h *metal3.BareMetalHost) string { h.Status.ErrorType, h.Status.ErrorMessage = "", ""; return "7" },
	} {
		host := newHost(withError(metal3.InspectionError, "no", 4))
		host.Status.LastUpdated = nil
		b := &backoff{}
		if b.hold(host, "7", now) < 8*time.Minute {
			t.Fatalf("%s: not held at first", name)
		}
		secret := mend(host)
		if got := b.hold(host, secret, now); got != 0 {
			t.Errorf("%s: still held for %s", name, got)
		}
		host.Status.ErrorType, host.Status.ErrorMessage, host.Status.ErrorCount = metal3.InspectionError, "no", host.Status.ErrorCount+1
		if got := b.hold(host, secret, now); got < time.Minute {
			t.Errorf("%s: the next failure is held for %s", name, got)
		}
	}
}

// A leader that has just begun goes on with the delay of the one before.
func TestBackoffAfterRestart(t *testing.T) {
	host := newHost(withError(metal3.InspectionError, "no", 1))
	host.Status.LastUpdated = metav1Now(now.Add(-10 * time.Minute))
	if got := (&backoff{}).hold(host, "7", now); got != 0 {
		t.Errorf("held for %s, ten minutes after the failure", got)
	}
}
