// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"strings"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

func TestAdmin(t *testing.T) {
	a := start(t, quick())
	path := a.node(ipmi(6230, "password"))
	id := strings.TrimPrefix(path, "/v1/nodes/")
	for _, tt := range []struct {
		method, path string
		body         any
		code         int
	}{
		{"GET", "/_sim/", nil, 200},
		{"PUT", "/_sim/bmcs/127.0.0.1:6230", doc{"user": "admin", "password": "password", "power": fsm.PowerOn}, 204},
		{"PUT", "/_sim/bmcs/127.0.0.1:6230", doc{"power": "up"}, 400},
		{"GET", "/_sim/bmcs", nil, 200},
		{"PATCH", "/_sim/nodes/" + id, doc{"last_error": "made up", "driver_info": doc{"ipmi_password": "x"}}, 204},
		{"PATCH", "/_sim/nodes/" + id, doc{"bogus": 1}, 400},
		{"PATCH", "/_sim/nodes/nosuch", doc{}, 404},
		{"GET", "/_sim/nodes/" + id, nil, 200},
		{"POST", "/_sim/nodes/" + id + "/lock", nil, 204},
		{"POST", "/_sim/nodes/" + id + "/lock", nil, 409},
		{"POST", "/_sim/nodes/" + id + "/unlock", nil, 204},
		{"POST", "/_sim/nodes/" + id + "/fail", doc{"phase": "nope"}, 400},
		{"POST", "/_sim/nodes/" + id + "/ramdisk", nil, 409},
		{"POST", "/_sim/conductor/kill", nil, 204},
		{"POST", "/_sim/conductor/restart", nil, 204},
		{"PUT", "/_sim/faults", doc{"failWrites": 403, "latency": "1ms", "latencyPerNode": "1us"}, 204},
		{"DELETE", "/v1/nodes/" + id, nil, 403},
		{"PUT", "/_sim/faults", doc{"failWrites": 404}, 400},
		{"PUT", "/_sim/faults", doc{"latency": "soon"}, 400},
		{"PUT", "/_sim/faults", doc{}, 204},
		{"PUT", "/_sim/nodes/" + id + "/inventory", []byte("{NaN}"), 204},
		{"GET", "/v1/nodes/" + id + "/inventory", nil, 200},
		{"PUT", "/_sim/nodes/" + id + "/inventory", nil, 204},
		{"GET", "/v1/nodes/" + id + "/inventory", nil, 404},
		{"GET", "/_sim/stats", nil, 200},
		{"DELETE", "/_sim/nodes/" + id, nil, 204},
		{"DELETE", "/_sim/nodes", nil, 204},
	} {
		r := a.must(tt.code, tt.method, tt.path, tt.body)
		if tt.path != "/_sim/" && strings.Contains(string(r.raw), `"password":"`) || strings.Contains(string(r.raw), `"ipmi_password":"x"`) {
			t.Errorf("%s %s shows a secret: %s", tt.method, tt.path, r.raw)
		}
	}
}
