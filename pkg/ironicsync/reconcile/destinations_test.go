// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/destination"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// anywhere allows all destinations, and looks up no names.
var anywhere = destination.Policy{AllowLocal: true}

// TestBMCNotAllowed: Ironic is told nothing of a BMC whose address is not allowed, also not to which
// Secret belong its credentials, and the host is tried again only after a while.
func TestBMCNotAllowed(t *testing.T) {
	for _, address := range []string{"ipmi://169.254.169.254", "redfish://127.0.0.1:6385/redfish/v1/Systems/1", "redfish+http://192.168.111.1/redfish/v1/Systems/1"} {
		settings := fleetSettings()
		settings.BMCs = destination.Policy{Schemes: []string{"ipmi", "redfish"}}
		inSimulatedFleet(t, settings, ironicsim.Options{}, func(t *testing.T, w *world) {
			w.secret("secret")
			host := enrolled(0)
			host.Spec.BMC.Address = address
			w.hosts.Add(host)
			w.after(time.Minute, "the host says that its BMC is not allowed", func() bool {
				return condition(w.host(), metal3.RegisteredCondition) == metal3.AddressNotAllowedReason
			})
			if got := w.host().Status.ErrorMessage; !strings.Contains(got, "spec.bmc.address: ") {
				t.Errorf("the error is %q", got)
			}
			time.Sleep(time.Minute) // of the bubble
			if n := len(w.sim.Sim.NodeUUIDs()); n != 0 {
				t.Errorf("%s: Ironic has %d nodes", address, n)
			}
			if owners := w.storedSecret().OwnerReferences; len(owners) != 0 {
				t.Errorf("the Secret is claimed: %v", owners)
			}
			if count := w.host().Status.ErrorCount; count > 10 {
				t.Errorf("%d tries in a minute", count)
			}
		})
	}
}

// TestImageNotAllowed: nothing is deployed from a URL that is not allowed. The host goes on when it
// gets another one.
func TestImageNotAllowed(t *testing.T) {
	settings := fleetSettings()
	settings.Images = destination.Policy{}
	for _, image := range []metal3.Image{
		{URL: "http://169.254.169.254/latest/meta-data", Checksum: "d41d8cd98f00b204e9800998ecf8427e"},
		{URL: "http://192.0.2.1/a", Checksum: "http://localhost:8080/sums"},
	} {
		inSimulatedFleet(t, settings, ironicsim.Options{}, func(t *testing.T, w *world) {
			w.secret("secret")
			host := enrolled(0)
			host.Spec.Image = image.DeepCopy()
			w.hosts.Add(host)
			w.after(5*time.Minute, "the host says that its image is not allowed", func() bool {
				return w.host().Status.ErrorType == metal3.ProvisioningError && strings.Contains(w.host().Status.ErrorMessage, "is not allowed")
			})
			if info := w.registration().InstanceInfo; len(info) != 0 {
				t.Errorf("Ironic was told %v", info)
			}
			w.editSpec(func(s *metal3.BareMetalHostSpec) {
				s.Image = &metal3.Image{URL: "http://192.0.2.1/a", Checksum: "http://192.0.2.1/sums"}
			})
			w.becomes(metal3.StateProvisioned)
		})
	}
}

// TestMovedImageNotAllowed: of a host that was moved here and says what it runs, Ironic is told no image
// that is not allowed, although it would only adopt the machine: it looks whether images are there.
func TestMovedImageNotAllowed(t *testing.T) {
	settings := fleetSettings()
	settings.Images = destination.Policy{}
	for _, url := range []string{"http://169.254.169.254/latest/meta-data", "file:/etc/passwd"} {
		inSimulatedFleet(t, settings, ironicsim.Options{}, func(t *testing.T, w *world) {
			w.secret("secret")
			host := enrolled(0)
			host.Spec.Image = &metal3.Image{URL: url, Checksum: "d41d8cd98f00b204e9800998ecf8427e"}
			status, err := json.Marshal(metal3.BareMetalHostStatus{
				OperationalStatus: metal3.OperationalStatusOK,
				Provisioning:      metal3.ProvisionStatus{State: metal3.StateProvisioned, Image: *host.Spec.Image},
			})
			if err != nil {
				t.Fatal(err)
			}
			host.Annotations = map[string]string{metal3.StatusAnnotation: string(status)}
			w.hosts.Add(host)
			w.after(5*time.Minute, "the host says that its image is not allowed", func() bool {
				return strings.Contains(w.host().Status.ErrorMessage, "status.provisioning.image.url: ") && strings.Contains(w.host().Status.ErrorMessage, "allowed")
			})
			if registration := w.registration(); len(registration.InstanceInfo) != 0 || w.sim.Count("adopt") != 0 {
				t.Errorf("Ironic was told %v, adoptions: %d", registration.InstanceInfo, w.sim.Count("adopt"))
			}
		})
	}
}
