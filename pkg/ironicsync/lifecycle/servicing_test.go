// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/settings"
)

// TestUpdatesOfServiceAreTheLast: what a service has updated is not taken for outdated by what a preparation had made before, whichever
// conductor's clock was ahead; neither after another service, nor when the host runs nothing any more.
func TestUpdatesOfServiceAreTheLast(t *testing.T) {
	first, second := metal3.FirmwareUpdate{Component: "bmc", URL: "http://f/1"}, metal3.FirmwareUpdate{Component: "bmc", URL: "http://f/2"}
	for name, ahead := range map[string]time.Duration{"in order": time.Hour, "set back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			host, node := provisionedBy()
			host = observed(host, node)
			ended := WholeSeconds(now)
			at := metav1.NewMicroTime(node.ProvisionUpdatedAt.Add(-ahead))
			host.Status.Record.Preparation = &metal3.Preparation{
				Phase: metal3.PreparationSucceeded, EndedAt: &ended, StateChangedAt: &at, Steps: []string{"firmware.update"}, FirmwareUpdates: []metal3.FirmwareUpdate{first},
			}
			c := &metal3.HostFirmwareComponents{}
			recorded := func(when string, want metal3.FirmwareUpdate) {
				t.Helper()
				settings.RecordUpdates(c, host)
				if diff := cmp.Diff([]metal3.FirmwareUpdate{want}, c.Status.Updates); diff != "" || settings.HasUnrecordedUpdates(host, c) {
					t.Errorf("%s, it is recorded (-want +got):\n%s", when, diff)
				}
			}
			serves := func(service *settings.Clean) {
				RequestService(host, service, now)
				s := host.Status.Record.Servicing
				s.Phase, s.EndedAt = metal3.PreparationSucceeded, &ended
			}
			recorded("prepared", first)
			serves(&settings.Clean{FirmwareUpdates: []metal3.FirmwareUpdate{second}})
			recorded("serviced", second)
			serves(&settings.Clean{})
			recorded("serviced once more", second)
			Enter(host, setState(metal3.StateDeprovisioning), now)
			recorded("deprovisioned", second)
		})
	}
}
