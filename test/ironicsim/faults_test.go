package ironicsim

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
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

func TestHang(t *testing.T) {
	a := start(t, quick())
	a.sim.SetFaults(Faults{Hang: true})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+"/v1/nodes", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.http.Do(req); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a hanging request gave %v, want a time-out", err)
	}
	failed := make(chan error)
	go func() {
		_, err := a.do("GET", "/v1/conductors", newest, nil)
		failed <- err
	}()
	eventually(t, func() bool { return a.sim.Stats().Count("GET /v1/conductors") > 0 }, func() string { return "no request" })
	a.sim.SetFaults(Faults{})
	if err := <-failed; err == nil {
		t.Error("a request that hung was answered after all")
	}
	a.must(200, "GET", "/v1/nodes", nil)
}

func TestLatency(t *testing.T) {
	a := start(t, quick())
	a.sim.SetFaults(Faults{Latency: 50 * time.Millisecond})
	begin := time.Now()
	a.must(200, "GET", "/v1/nodes", nil)
	if took := time.Since(begin); took < 50*time.Millisecond {
		t.Errorf("took %v", took)
	}
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

func TestRefuseConnections(t *testing.T) {
	a := start(t, quick())
	a.must(200, "GET", "/v1/nodes", nil) // leaves a connection open
	a.sim.RefuseConnections()
	if _, err := a.do("GET", "/v1/nodes", newest, nil); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v, want connection refused", err)
	}
	if err := a.sim.AcceptConnections(); err != nil {
		t.Fatal(err)
	}
	a.must(200, "GET", "/v1/nodes", nil)
	if a.sim.URL() != a.base {
		t.Errorf("the URL changed from %s to %s", a.base, a.sim.URL())
	}
}

func TestStats(t *testing.T) {
	a := start(t, quick())
	path := a.node(doc{"name": "x"})
	a.sim.ResetStats()
	for _, p := range []string{"/", "/v1", "/v1/nodes", "/v1/nodes?fields=uuid", "/v1/nodes?detail=True&limit=5", "/nodes/x?fields=uuid", path} {
		a.must(200, "GET", p, nil)
	}
	a.must(202, "PUT", path+"/states/power", doc{"target": fsm.PowerOn})
	a.must(404, "GET", "/v1/nope", nil)
	got := a.sim.Stats()
	for kind, want := range map[string]int{
		"GET /": 1, "GET /v1": 1, "GET /v1/nodes": 1, "GET /v1/nodes?fields": 1, "GET /v1/nodes?detail": 1, "GET /v1/nodes/{node}?fields": 1,
		"GET /v1/nodes/{node}": 1, "PUT /v1/nodes/{node}/states/power": 1, "GET (other)": 1,
	} {
		if got.Count(kind) != want {
			t.Errorf("%s: counted %d, want %d", kind, got.Count(kind), want)
		}
	}
	if got.Total != 9 {
		t.Errorf("total %d, want 9", got.Total)
	}
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

// TestClose checks that Close leaves no goroutine behind, whatever was going on.
func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	o := quick()
	o.Delays, o.BMCTimeout, o.CallbackTimeout = All(time.Hour), time.Hour, time.Hour
	s := New(o)
	if err := s.Start(0); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	a := &api{t: t, base: s.URL(), sim: s, http: client}
	verifying := a.node(ipmi(6230, "password"))
	a.must(202, "PUT", verifying+"/states/provision", doc{"target": "manage"})
	waiting := a.node(nil)
	if err := s.SetNode(strings.TrimPrefix(waiting, "/v1/nodes/"), doc{"provision_state": fsm.Manageable, "inspect_interface": "agent"}); err != nil {
		t.Fatal(err)
	}
	a.must(202, "PUT", waiting+"/states/provision", doc{"target": "inspect"})
	s.SetFaults(Faults{Hang: true})
	hung := make(chan struct{})
	go func() {
		defer close(hung)
		_, _ = a.do("GET", "/v1/conductors", newest, nil)
	}()
	eventually(t, func() bool { return s.Stats().Count("GET /v1/conductors") == 1 }, func() string { return "no request" })

	s.Close()
	<-hung
	eventually(t, func() bool { return runtime.NumGoroutine() <= before }, func() string {
		stacks := make([]byte, 1<<20)
		return "goroutines are left:\n" + string(stacks[:runtime.Stack(stacks, true)])
	})
	s.SetFaults(Faults{}) // all of this must be harmless now
	s.KillConductor()
	s.RestartConductor()
	s.Close()
	if err := s.AcceptConnections(); err == nil {
		t.Error("a closed Sim accepts connections")
	}
}
