// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// tells waits for events about the host, by type and reason, and returns them by reason.
func (h *host) tells(wanted ...string) map[string]eventsv1.Event {
	h.t.Helper()
	uid := h.get().UID
	found := map[string]eventsv1.Event{}
	h.eventually(func() string {
		list, err := s.Core.EventsV1().Events(h.ns).List(h.ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		var missing []string
		for _, event := range list.Items {
			if event.Regarding.Kind == "BareMetalHost" && event.Regarding.Name == h.name && event.Regarding.UID == uid {
				found[event.Type+" "+event.Reason] = event
			}
		}
		for _, want := range wanted {
			if _, ok := found[want]; !ok {
				missing = append(missing, want)
			}
		}
		if len(missing) == 0 {
			return ""
		}
		return fmt.Sprintf("there are no events %q, only %q", missing, slices.Sorted(maps.Keys(found)))
	})
	return found
}

// The way of a host can be read from its events.
func TestEvents(t *testing.T) {
	t.Parallel()
	h := newHost(t, withImage)
	h.provisioned()
	h.patch(`{"spec":{"image":null}}`)
	h.available()
	found := h.tells("Normal Registered", "Normal BMCAccessValidated", "Normal InspectionStarted", "Normal InspectionComplete", "Normal ProfileSet",
		"Normal ProvisioningStarted", "Normal ProvisioningComplete", "Normal DeprovisioningStarted", "Normal DeprovisioningComplete")
	for key, event := range found {
		if strings.HasPrefix(key, "Warning") {
			t.Errorf("a host without trouble has the event %s: %s", key, event.Note)
		}
		if strings.HasPrefix(key, "Normal Power") {
			t.Errorf("Ironic switched the machine for its own work, and the host has the event %s: %s", key, event.Note)
		}
	}
	if note := found["Normal ProvisioningComplete"].Note; !strings.Contains(note, bmcsim.ImageFile) {
		t.Errorf("ProvisioningComplete does not name the image: %q", note)
	}
	h.power(bmcsim.On)
	if err := s.ironic.Operator().Power(h.ctx, h.get().Status.Provisioning.ID, "power off"); err != nil {
		t.Fatal(err)
	}
	if note := h.tells("Normal PowerOff")["Normal PowerOff"].Note; !strings.Contains(note, "spec.online is true") {
		t.Errorf("PowerOff of a machine that an operator switched off says %q", note)
	}
}

// Errors are events of type Warning, with the words of the error and no password.
func TestErrorEvents(t *testing.T) {
	t.Parallel()
	h := newHost(t, withSecret("mine"), notInspected, notCleaned, offline)
	h.tells("Warning BMCCredentialError")
	h.secret("mine", map[string]string{"username": h.machine.Username(), "password": "not-the-password"})
	h.tells("Warning RegistrationError")
	h.patchSecret("mine", map[string]string{"password": h.machine.Password()})
	h.available()
	h.fault(bmcsim.IgnorePower)
	h.patch(`{"spec":{"online":true}}`)
	h.tells("Warning PowerManagementError")
	h.mend(bmcsim.IgnorePower)
	h.retry()
	h.power(bmcsim.On)
	h.fault(bmcsim.DeployStepFails)
	h.wantImage()
	h.undone(1)
	for key, event := range h.tells("Warning ProvisioningError") {
		if strings.Contains(event.Note, "not-the-password") {
			t.Errorf("event %s gives the password away: %q", key, event.Note)
		}
		if key == "Warning ProvisioningError" && !strings.Contains(event.Note, "simulated fault deploy-step-fails") {
			t.Errorf("event %s says %q", key, event.Note)
		}
	}
}
