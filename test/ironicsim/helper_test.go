// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// api is a client of one Ironic, simulated or not.
type api struct {
	t    *testing.T
	base string
	sim  *Sim
	http *http.Client
}

// quick are options for tests: everything that waits in a real Ironic is short.
func quick() Options {
	return Options{
		Delays: All(5 * time.Millisecond), LockRetryInterval: 20 * time.Millisecond, BMCDelay: time.Millisecond,
		BMCTimeout: 50 * time.Millisecond, MaxPowerTimeout: 100 * time.Millisecond,
		PowerSyncInterval: 20 * time.Millisecond, PowerRecoveryInterval: 20 * time.Millisecond, RamdiskDelay: 10 * time.Millisecond,
		InventoryLag: 5 * time.Millisecond,
	}
}

// start runs a Sim for a test.
func start(t *testing.T, o Options) *api {
	t.Helper()
	s := New(o)
	t.Cleanup(s.Close)
	if err := s.Start(0); err != nil {
		t.Fatal(err)
	}
	return &api{t: t, base: s.URL(), sim: s, http: newHTTPClient(t)}
}

// startInBubble runs a Sim in a bubble of synctest, without sockets.
func startInBubble(t *testing.T, o Options) *api {
	t.Helper()
	s := New(o)
	t.Cleanup(s.Close)
	return &api{t: t, base: "http://sim", sim: s, http: &http.Client{Transport: s.Transport()}}
}

func newHTTPClient(t *testing.T) *http.Client {
	tr := &http.Transport{MaxIdleConnsPerHost: 4}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 5 * time.Minute}
}

// answer is a response with its fault text taken out of Ironic's wrappings.
type answer struct {
	code   int
	header http.Header
	raw    []byte
	json   map[string]any
	fault  string
}

const newest = "1.96"

// do sends a request; body may be nil, a []byte that is sent as it is, or a value
// that is sent as JSON.
func (a *api) do(method, path, version string, body any) (*answer, error) {
	var r io.Reader
	if raw, ok := body.([]byte); ok {
		r = bytes.NewReader(raw)
	} else if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, a.base+path, r)
	if err != nil {
		return nil, err
	}
	if r != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if version != "" {
		req.Header.Set(headerVersion, version)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	out := &answer{code: resp.StatusCode, header: resp.Header, raw: raw}
	_ = json.Unmarshal(raw, &out.json) // a body need not be an object
	if message, ok := out.json["error_message"].(string); ok {
		var inner struct{ Faultstring, Description string }
		if err := json.Unmarshal([]byte(message), &inner); err != nil {
			return nil, fmt.Errorf("error_message %q: %w", message, err)
		}
		out.fault = inner.Faultstring + inner.Description
	}
	return out, nil
}

// must is do at the newest version that expects a status code.
func (a *api) must(code int, method, path string, body any) *answer {
	a.t.Helper()
	r, err := a.do(method, path, newest, body)
	if err != nil {
		a.t.Fatalf("%s %s: %v", method, path, err)
	}
	if r.code != code {
		a.t.Fatalf("%s %s: got %d %s, want %d", method, path, r.code, r.raw, code)
	}
	return r
}

type doc = map[string]any

// node creates a node and returns its path.
func (a *api) node(fields doc) string {
	a.t.Helper()
	body := doc{"driver": "fake-hardware"}
	for k, v := range fields {
		body[k] = v
	}
	r := a.must(http.StatusCreated, "POST", "/v1/nodes", body)
	return "/v1/nodes/" + r.json["uuid"].(string)
}

// get returns the fields of a node.
func (a *api) get(path string) doc {
	a.t.Helper()
	return a.must(http.StatusOK, "GET", path, nil).json
}

// provision asks for a target and waits until the node is in a state and unlocked.
func (a *api) provision(path, target, state string) doc {
	a.t.Helper()
	body := doc{"target": target}
	switch target {
	case "clean":
		body["clean_steps"] = []doc{{"interface": "bios", "step": "factory_reset"}}
	case "service":
		body["service_steps"] = []doc{{"interface": "vendor", "step": "log_passthrough"}}
	}
	a.must(http.StatusAccepted, "PUT", path+"/states/provision", body)
	return a.settled(path, state)
}

// settled waits until a node is in a state and unlocked.
func (a *api) settled(path, state string) doc {
	a.t.Helper()
	return a.until(path, "be "+state+" and unlocked", func(n doc) bool {
		return n["provision_state"] == state && n["reservation"] == nil
	})
}

// power asks for a power target and waits until the node is unlocked again.
func (a *api) power(path, target string) doc {
	a.t.Helper()
	a.must(http.StatusAccepted, "PUT", path+"/states/power", doc{"target": target})
	return a.until(path, "be unlocked", func(n doc) bool { return n["reservation"] == nil })
}

// until polls a node.
func (a *api) until(path, what string, ok func(doc) bool) doc {
	a.t.Helper()
	var last doc
	eventually(a.t, func() bool {
		last = a.get(path)
		return ok(last)
	}, func() string { return fmt.Sprintf("node %s did not come to %s: %v", path, what, brief(last)) })
	return last
}

func brief(n doc) doc {
	out := doc{}
	for _, k := range []string{"provision_state", "target_provision_state", "power_state", "target_power_state", "last_error",
		"maintenance", "fault", "reservation"} {
		out[k] = n[k]
	}
	return out
}

// eventually polls until ok, and fails the test after a while with what says.
func eventually(t *testing.T, ok func() bool, what func() string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 5*time.Minute, true,
		func(context.Context) (bool, error) { return ok(), nil })
	if err != nil {
		t.Fatal(what())
	}
}
