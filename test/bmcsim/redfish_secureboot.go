// SPDX-License-Identifier: Apache-2.0

package bmcsim

import "net/http"

// secureBootResource has both the setting for the next boot and the one that is in effect.
func (m *Machine) secureBootResource() object {
	m.mu.Lock()
	defer m.mu.Unlock()
	current := "Disabled"
	if m.secureNow {
		current = "Enabled"
	}
	return resource(m.SystemID()+"/SecureBoot", "UEFI secure boot", object{
		"SecureBootEnable": m.secureBoot, "SecureBootCurrentBoot": current, "SecureBootMode": "UserMode",
	})
}

func (m *Machine) patchSecureBoot(w http.ResponseWriter, r *http.Request) {
	var request struct{ SecureBootEnable *bool }
	if !body(w, r, &request) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if request.SecureBootEnable != nil {
		m.secureBoot = *request.SecureBootEnable
	}
	w.WriteHeader(http.StatusNoContent)
}
