// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"fmt"
	"net/http"
	"slices"
)

// ledStates are the states of a light (IndicatorLED of Redfish).
var ledStates = []string{"Off", "Lit", "Blinking"}

// setLED switches the light of a resource. It returns false if it has answered with an error.
// m.mu must be held.
func (m *Machine) setLED(w http.ResponseWriter, path, state string) bool {
	if !slices.Contains(ledStates, state) {
		fail(w, http.StatusBadRequest, "Base.1.0.PropertyValueNotInList", fmt.Sprintf("%q is not one of %v.", state, ledStates))
		return false
	}
	m.leds[path] = state
	return true
}

func (m *Machine) patchChassis(w http.ResponseWriter, r *http.Request) {
	var request struct{ IndicatorLED *string }
	if !body(w, r, &request) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if request.IndicatorLED == nil || m.setLED(w, chassisPath(m), *request.IndicatorLED) {
		w.WriteHeader(http.StatusNoContent)
	}
}

// SystemLED returns the state of the light of the system: Off, Lit or Blinking.
func (m *Machine) SystemLED() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leds[m.SystemID()]
}

// BootOverride returns from what the machine boots, in Redfish's words, and whether it does so Once or
// continuously; None and Disabled if from its own list.
func (m *Machine) BootOverride() (target, enabled string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.boot.target, m.boot.enabled
}
