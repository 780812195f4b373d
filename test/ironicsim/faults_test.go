// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Reads go on while writes are refused, each in the form that Ironic gives it.
func TestFailWrites(t *testing.T) {
	a := start(t, quick())
	path := a.node(nil)
	for code, text := range map[int]string{401: `"error"`, 403: "Access was denied", 500: "Unexpected error"} {
		a.sim.SetFaults(Faults{FailWrites: code})
		for _, r := range []*answer{
			a.must(code, "PUT", path+"/states/provision", doc{"target": "manage"}), a.must(code, "POST", "/v1/nodes", doc{"driver": "fake-hardware"}),
			a.must(code, "PATCH", path, []doc{}), a.must(code, "DELETE", path, nil),
		} {
			if !strings.Contains(string(r.raw), text) {
				t.Errorf("%d says %s", code, r.raw)
			}
		}
		a.must(200, "GET", "/v1/nodes", nil)
		a.get(path)
	}
	if s := a.sim.Stats(); s.Writes() != 13 || s.Count("GET /v1/nodes/{node}") != 3 || s.Total != 19 {
		t.Errorf("%+v, of which %d writes", s, s.Writes())
	}
	a.sim.SetFaults(Faults{})
	a.provision(path, "manage", "manageable")
}

// A list takes its time for each node that it returns, whatever form it has.
func TestLatencyPerNode(t *testing.T) {
	a := start(t, noSync())
	var last string
	for range 6 {
		last = a.node(nil)
	}
	const perNode = 50 * time.Millisecond
	a.sim.SetFaults(Faults{LatencyPerNode: perNode})
	for query, nodes := range map[string]int{
		"fields=uuid,name": 6, "limit=2": 2, "detail=True&sort_key=updated_at&sort_dir=desc&limit=4": 4, "marker=" + strings.TrimPrefix(last, "/v1/nodes/"): 0,
	} {
		begin := time.Now()
		got, _ := a.page(query)
		took := time.Since(begin)
		if want := time.Duration(nodes) * perNode; len(got) != nodes || took < want {
			t.Errorf("%s: %d nodes after %v, want %d after %v", query, len(got), took, nodes, want)
		}
	}
	a.sim.SetFaults(Faults{LatencyPerNode: time.Hour})
	a.get(last) // which is no list
}

func TestLostNodes(t *testing.T) {
	a := start(t, quick())
	one, other := a.node(doc{"name": "one"}), a.node(nil)
	a.must(201, "POST", "/v1/ports", doc{"node_uuid": strings.TrimPrefix(one, "/v1/nodes/"), "address": mac})
	if err := a.sim.LoseNode("one"); err != nil {
		t.Fatal(err)
	}
	a.must(404, "GET", one, nil)
	a.must(200, "GET", other, nil)
	one = a.node(doc{"name": "one"}) // the name is free again, and the MAC address
	a.must(201, "POST", "/v1/ports", doc{"node_uuid": strings.TrimPrefix(one, "/v1/nodes/"), "address": mac})
	a.sim.LoseAllNodes()
	if got, _ := a.page("include_children=true"); got != nil {
		t.Errorf("after the loss of all: %v", got)
	}
}

// A node that is lost under an operation stays lost.
func TestLostUnderOperation(t *testing.T) {
	o := quick()
	o.Delays.Verify = 20 * time.Millisecond
	a := start(t, o)
	path := a.node(nil)
	a.must(202, "PUT", path+"/states/provision", doc{"target": "manage"})
	if err := a.sim.LoseNode(strings.TrimPrefix(path, "/v1/nodes/")); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		a.sim.mu.Lock()
		defer a.sim.mu.Unlock()
		return a.sim.conductor.free == a.sim.opts.Workers
	}, func() string { return "the worker did not end" })
	a.must(404, "GET", path, nil)
}

func TestBasicAuth(t *testing.T) {
	o := quick()
	o.Username, o.Password = "admin", "secret"
	a := start(t, o)
	basic := func(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(s)) }
	for _, tt := range []struct {
		path, authorization string
		code                int
		body                string
	}{
		{"/", "", 200, ""},
		{"/v1", "", 200, ""},
		{"/v1/nodes", "", 401, `{"error":{"code":401,"message":"Authorization required"}}`},
		{"/v1/nope", "", 401, `{"error":{"code":401,"message":"Authorization required"}}`},
		{"/v1/nodes", basic("admin:nope"), 401, `{"error":{"code":401,"message":"Incorrect username or password"}}`},
		{"/v1/nodes", basic("admin:secret"), 200, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.base+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(headerVersion, newest)
		if tt.authorization != "" {
			req.Header.Set("Authorization", tt.authorization)
		}
		resp, err := a.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		raw := make([]byte, 4096)
		n, _ := resp.Body.Read(raw)
		_ = resp.Body.Close()
		if resp.StatusCode != tt.code || tt.body != "" && string(raw[:n]) != tt.body {
			t.Errorf("%s with %q: %d %s, want %d %s", tt.path, tt.authorization, resp.StatusCode, raw[:n], tt.code, tt.body)
		}
		if challenge := resp.Header.Get("WWW-Authenticate"); (challenge != "") != (tt.code == 401) {
			t.Errorf("%s with %q: WWW-Authenticate is %q", tt.path, tt.authorization, challenge)
		}
	}
}
