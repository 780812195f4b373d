// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"net/http"
	"strings"
	"testing"
)

// The virtual drive of a Redfish machine is changed behind the back of the caller, and a refusal is in
// last_error only.
func TestVirtualMedia(t *testing.T) {
	a := start(t, quick())
	a.sim.AddBMC("http://127.0.0.1:8000/redfish/v1/Systems/1", "admin", "password")
	path := a.node(redfish(8000, "password"))
	unlocked := func() doc {
		return a.until(path, "be unlocked", func(n doc) bool { return n["reservation"] == nil })
	}
	inserted := func(want string) {
		t.Helper()
		if got := string(a.must(http.StatusOK, "GET", path+"/vmedia", nil).raw); !strings.Contains(got, want) {
			t.Errorf("the drives are %s, want %s", got, want)
		}
	}
	inserted(`"inserted":false`)
	for _, refusal := range []any{nil, "Could not attach device cdrom"} {
		a.must(http.StatusNoContent, "POST", path+"/vmedia", doc{"device_type": "cdrom", "image_url": "http://h/x.iso"})
		message, _ := unlocked()["last_error"].(string)
		if want, _ := refusal.(string); !strings.HasPrefix(message, want) || want == "" && message != "" {
			t.Errorf("last_error is %q, want %q", message, want)
		}
		inserted("http://h/x.iso")
	}
	a.must(http.StatusNoContent, "DELETE", path+"/vmedia?device_types=cdrom", nil)
	unlocked()
	inserted(`"inserted":false`)
	if r := a.must(http.StatusBadRequest, "GET", a.node(doc{"driver": "ipmi"})+"/vmedia", nil); r.fault != "Driver ipmi does not support get_virtual_media (disabled or not implemented)." {
		t.Errorf("with IPMI: %q", r.fault)
	}
}
