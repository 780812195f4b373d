// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/client"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// Ironic is the simulator in the bubble of a test, with the product's own client of it.
type Ironic struct {
	*client.Client
	Sim *ironicsim.Sim

	t  *testing.T
	mu sync.Mutex
	// calls counts the requests by their names, refusals are the answers to those that are refused.
	calls    map[string]int
	steps    map[string][][]ironic.StepRequest
	refusals map[string]*fsm.Refusal
	late     map[string]time.Duration
	// isAway is set while nobody listens.
	isAway    bool
	intercept func(call string, r *http.Request) error
}

// Credentials that the BMCs of the hosts accept.
const (
	BMCUser     = "admin"
	BMCPassword = "secret"
)

// NewIronic starts an Ironic in which each thing takes a second, and whose ramdisks need another
// one. The BMCs of the hosts up to number 99 are there. It stops with the test, which is in a
// bubble.
func NewIronic(t *testing.T, options ironicsim.Options) *Ironic {
	t.Helper()
	if options.Delays == (ironicsim.Delays{}) {
		options.Delays = ironicsim.All(time.Second)
	}
	options.AutoInspect, options.AutoDeploy, options.DefaultRamdisk = true, true, true
	i := &Ironic{Sim: ironicsim.New(options), t: t, calls: map[string]int{}, steps: map[string][][]ironic.StepRequest{}, refusals: map[string]*fsm.Refusal{}, late: map[string]time.Duration{}}
	t.Cleanup(i.Sim.Close)
	i.Sim.Judge(i.judge)
	for n := range 99 {
		i.Sim.AddBMC(BMCAddress(n), BMCUser, BMCPassword)
	}
	i.Client = i.Process(nil)
	return i
}

// BMCAddress is that of the BMC of host number i.
func BMCAddress(i int) string { return fmt.Sprintf("192.168.111.%d", i+1) }

// Process returns the client of one process. Each request that changes something is a step, which
// may be kept from Ironic, and its answer from the process; nil lets all pass.
func (i *Ironic) Process(step func(do func() error) error) *client.Client {
	c, err := client.New(client.Config{Endpoint: "http://ironic.test:6385", Transport: wire{i, i.Sim.Transport(), step}})
	if err != nil {
		i.t.Fatal(err)
	}
	return c
}

// Refuse has Ironic refuse the requests of a name, until Accept. See callOf for names.
func (i *Ironic) Refuse(call string, status int, message string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.refusals[call] = &fsm.Refusal{Status: status, Text: message}
}

// Accept ends a refusal.
func (i *Ironic) Accept(call string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.refusals, call)
}

func (i *Ironic) judge(_ string, r *http.Request) ironicsim.Verdict {
	call, err := callOf(r)
	i.mu.Lock()
	defer i.mu.Unlock()
	if err != nil {
		return ironicsim.Verdict{}
	}
	return ironicsim.Verdict{Refusal: i.refusals[call], Late: i.late[call]}
}

// SetLate has Ironic carry out the requests of a name only after so long, and answer none of them; 0 ends that.
func (i *Ironic) SetLate(call string, late time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.late[call] = late
}

// Intercept has each request shown to a function, with its name, before it is sent: to be noted,
// held up, or lost with an error. nil ends that.
func (i *Ironic) Intercept(intercept func(call string, r *http.Request) error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.intercept = intercept
}

// SetAway closes Ironic's port, or opens it again.
func (i *Ironic) SetAway(away bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.isAway = away
}

// BMC is that of host number n.
func (i *Ironic) BMC(n int) *ironicsim.BMC { return i.Sim.BMC(BMCAddress(n)) }

// Count is how often a process has sent a request of that name, refused ones included.
func (i *Ironic) Count(call string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.calls[call]
}

// Steps are those of each manual clean ("clean") or service ("service") that Ironic has begun at the request of a process.
func (i *Ironic) Steps(call string) [][]ironic.StepRequest {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.steps[call])
}

// accepted notes the steps of a request that Ironic has accepted.
func (i *Ironic) accepted(call string, r *http.Request) error {
	if call != string(ironic.TargetClean) && call != string(ironic.TargetService) {
		return nil
	}
	body, err := r.GetBody()
	if err != nil {
		return err
	}
	var sent ironic.ProvisionOptions
	if err := json.NewDecoder(body).Decode(&sent); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.steps[call] = append(i.steps[call], slices.Concat(sent.CleanSteps, sent.ServiceSteps))
	return nil
}

// Node is a node as the client shows it; nil if there is none.
func (i *Ironic) Node(id string) *ironic.Node {
	i.t.Helper()
	node, err := i.GetNode(i.t.Context(), id)
	if err != nil && !ironic.IsNotFound(err) {
		i.t.Fatal(err)
	}
	return node
}

// wire is the way of the requests of one process to Ironic.
type wire struct {
	ironic *Ironic
	sim    http.RoundTripper
	step   func(do func() error) error
}

// RoundTrip implements http.RoundTripper.
func (w wire) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	call, err := callOf(r)
	if err != nil {
		return nil, err
	}
	w.ironic.mu.Lock()
	w.ironic.calls[call]++
	away, intercept := w.ironic.isAway, w.ironic.intercept
	w.ironic.mu.Unlock()
	if intercept != nil {
		if err := intercept(call, r); err != nil {
			return nil, err
		}
	}
	send := func() (err error) {
		if away {
			return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		if answer, err = w.sim.RoundTrip(r); err != nil || answer.StatusCode != http.StatusAccepted {
			return err
		}
		return w.ironic.accepted(call, r)
	}
	if w.step == nil || r.Method == http.MethodGet {
		err := send()
		return answer, err
	}
	if err := w.step(send); err != nil {
		return nil, err
	}
	return answer, nil
}

// callOf names a request as the client's method, or as its target where it is for another state of
// provisioning or of power.
func callOf(r *http.Request) (string, error) {
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	if len(path) > 1 {
		path[1] = "ID"
	}
	kind := r.Method + " " + strings.Join(path, "/")
	switch kind {
	case "PUT nodes/ID/states/provision", "PUT nodes/ID/states/power":
		body, err := r.GetBody()
		if err != nil {
			return "", err
		}
		var sent struct {
			Target string `json:"target"`
		}
		err = json.NewDecoder(body).Decode(&sent)
		return sent.Target, err
	case "GET nodes/ID":
		if strings.Contains(r.URL.Query().Get("fields"), "network_data") {
			return "GetRegistration", nil
		}
	case "GET nodes":
		if r.URL.Query().Has("sort_key") {
			return "ChangedSince", nil
		}
		return "ListNodes", nil
	}
	if name, ok := callNames[kind]; ok {
		return name, nil
	}
	return kind, nil
}

var callNames = map[string]string{
	"POST nodes": "CreateNode", "PATCH nodes/ID": "UpdateNode", "DELETE nodes/ID": "DeleteNode", "GET nodes/ID": "GetNode",
	"PUT nodes/ID/maintenance": "SetMaintenance", "DELETE nodes/ID/maintenance": "ClearMaintenance",
	"PUT nodes/ID/states/raid": "SetTargetRAID", "GET nodes/ID/bios": "ListBIOSSettings", "GET nodes/ID/firmware": "ListFirmware",
	"GET nodes/ID/inventory": "GetInventory", "GET nodes/ID/validate": "Validate", "GET ports": "ListPorts", "POST ports": "CreatePort",
}
