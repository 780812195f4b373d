// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/client"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// simulatedIronic is the Ironic on which the actions act: the simulator, which is asked
// through the real client. It records the changes that are requested. A test can interfere
// just before a change reaches Ironic, as a conductor or another client might.
type simulatedIronic struct {
	sim    *ironicsim.Sim
	client *client.Client

	mu            sync.Mutex
	changes       []string // the requested targets
	asked         int      // how many requests there were
	disconnected  bool     // every request loses its connection
	before, after func(node string)
}

// noSoftPower is a driver that has no soft power off here.
const noSoftPower = "redfish"

func startIronic(t *testing.T) *simulatedIronic {
	t.Helper()
	i := &simulatedIronic{sim: ironicsim.New(ironicsim.Options{
		// A change of power that has begun does not end during a test.
		Delays:            ironicsim.Delays{Power: time.Hour},
		LockRetryInterval: time.Millisecond, NoSoftPowerOff: []string{noSoftPower}, PowerSyncInterval: -1,
	})}
	t.Cleanup(i.sim.Close)
	front := httptest.NewServer(i)
	t.Cleanup(front.Close)
	var err error
	if i.client, err = client.New(client.Config{Endpoint: front.URL}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.client.Close)
	return i
}

// ServeHTTP passes requests on to the simulator.
func (i *simulatedIronic) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.asked++
	i.mu.Unlock()
	if i.isDisconnected() {
		panic(http.ErrAbortHandler)
	}
	if r.Method != http.MethodPut { // changes of power and provision state are PUT requests
		i.sim.Handler().ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var change struct {
		Target string `json:"target"`
	}
	_ = json.Unmarshal(body, &change) // what is no JSON, the simulator refuses
	i.mu.Lock()
	i.changes = append(i.changes, change.Target)
	before, after := i.before, i.after
	i.mu.Unlock()
	node, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/nodes/"), "/")
	if before != nil {
		before(node)
	}
	if i.isDisconnected() {
		panic(http.ErrAbortHandler)
	}
	answer := httptest.NewRecorder()
	i.sim.Handler().ServeHTTP(answer, r)
	if after != nil {
		after(node)
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // the client may be gone
}

func (i *simulatedIronic) isDisconnected() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.disconnected
}

// reset forgets the changes requested so far. Whatever the test then sets lasts until its end.
func (i *simulatedIronic) reset(t *testing.T) {
	i.clear()
	t.Cleanup(i.clear)
}

func (i *simulatedIronic) clear() {
	i.mu.Lock()
	i.changes, i.asked, i.disconnected, i.before, i.after = nil, 0, false, nil, nil
	i.mu.Unlock()
	i.sim.SetFaults(ironicsim.Faults{})
}

// disconnect resets, and has every request lose its connection.
func (i *simulatedIronic) disconnect(t *testing.T) {
	i.reset(t)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.disconnected = true
}

// intercept resets, and has before called before each change reaches the simulator, and
// after when the simulator has answered it but the client does not have the answer yet.
// Either may be nil.
func (i *simulatedIronic) intercept(t *testing.T, before, after func(node string)) {
	i.reset(t)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.before, i.after = before, after
}

// interfere is intercept with an interference before each change.
func (i *simulatedIronic) interfere(t *testing.T, what interference) {
	i.intercept(t, func(node string) {
		if err := what(i, node); err != nil {
			t.Error(err)
		}
	}, nil)
}

// requested returns the targets of the changes requested since the last reset.
func (i *simulatedIronic) requested() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.changes
}

// requests returns how many requests there were since the last reset.
func (i *simulatedIronic) requests() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked
}

// addNode creates a node that is available and on.
func (i *simulatedIronic) addNode(t *testing.T, name string) (uuid string) {
	t.Helper()
	uuid, err := i.sim.CreateNode(map[string]any{"name": ironic.NodeName(namespace, name), "driver": "fake-hardware"})
	if err != nil {
		t.Fatal(err)
	}
	i.edit(t, uuid, func(n *ironic.Node) { n.ProvisionState, n.PowerState = ironic.Available, ironic.PowerOn })
	return uuid
}

// nodeOf returns the UUID of the node of a host.
func (i *simulatedIronic) nodeOf(t *testing.T, name string) (uuid string) {
	t.Helper()
	node, ok := i.sim.Node(ironic.NodeName(namespace, name))
	if !ok {
		t.Fatalf("host %s has no node", name)
	}
	return node["uuid"].(string)
}

// edit changes a node in Ironic's database, past its locks and its state machine.
func (i *simulatedIronic) edit(t *testing.T, uuid string, change func(*ironic.Node)) {
	t.Helper()
	node := &ironic.Node{}
	fields, _ := i.sim.Node(uuid)
	if content, err := json.Marshal(fields); err != nil || json.Unmarshal(content, node) != nil || node.UUID != uuid {
		t.Errorf("node %s is %v: %v", uuid, fields, err) // not Fatal: it may be called in a handler
		return
	}
	change(node)
	moment := func(at *time.Time) any {
		if at == nil {
			return nil
		}
		return *at
	}
	if err := i.sim.SetNode(uuid, map[string]any{
		"extra":  map[string]any{ironic.HostMark: string(node.Marks.Host)},
		"driver": node.Driver, "reservation": node.Reservation, "last_error": node.LastError,
		"provision_state": string(node.ProvisionState), "target_provision_state": string(node.TargetProvisionState),
		"power_state": string(node.PowerState), "target_power_state": string(node.TargetPowerState),
		"inspection_started_at": moment(node.InspectionStartedAt), "inspection_finished_at": moment(node.InspectionFinishedAt),
	}); err != nil {
		t.Error(err)
	}
}

// interference is what happens to a node after an action has read it, and before the change
// that the action requests reaches Ironic.
type interference func(i *simulatedIronic, node string) error

// none does not interfere.
func none(*simulatedIronic, string) error { return nil }

// lockNode locks the node, as a conductor does that begins something.
func lockNode(i *simulatedIronic, node string) error { return i.sim.LockNode(node, "") }

// deleteNode removes the node.
func deleteNode(i *simulatedIronic, node string) error { return i.sim.LoseNode(node) }

// setState moves the node to a provision state.
func setState(state ironic.ProvisionState) interference {
	return func(i *simulatedIronic, node string) error {
		return i.sim.SetNode(node, map[string]any{"provision_state": string(state)})
	}
}

// failWrites has Ironic answer changes with an HTTP status.
func failWrites(status int) interference {
	return func(i *simulatedIronic, _ string) error {
		i.sim.SetFaults(ironicsim.Faults{FailWrites: status})
		return nil
	}
}

// breakConnection has the change, and every request after it, lose its connection.
func breakConnection(i *simulatedIronic, _ string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.disconnected = true
	return nil
}
