// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestRetryTellsThePassword: where the BMC may refuse Ironic's user, Ironic is told the password again, which it does not show.
func TestRetryTellsThePassword(t *testing.T) {
	for cause, want := range map[metal3.ErrorCause]string{"": "7", metal3.BMCSilent: "7", metal3.BMCRefuses: "", metal3.BMCSilentOrRefuses: ""} {
		status := metal3.BareMetalHostStatus{ErrorType: metal3.PowerManagementError, ErrorCount: 3, TriedCredentials: metal3.CredentialsStatus{Version: "7"}}
		status.Record.Error = &metal3.HostError{Type: metal3.PowerManagementError, Cause: cause}
		if resetErrorCounts(&status); status.TriedCredentials.Version != want {
			t.Errorf("%q: the Secret counts as tried at %q, want %q", cause, status.TriedCredentials.Version, want)
		}
	}
}
