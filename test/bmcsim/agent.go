// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
)

// agent is the API of a ramdisk, through which Ironic sends it commands. There is one agent per boot.
type agent struct {
	machine *Machine
	ctx     context.Context // ends when the ramdisk ends
	wake    chan struct{}   // requests a heartbeat now

	mu        sync.Mutex
	uuid      string
	token     string
	inspected bool
	locked    bool
	commands  []*command
}

// command is a command from Ironic, in the form in which the agent shows it.
type command struct {
	ID     string `json:"id"`
	Name   string `json:"command_name"`
	Params object `json:"command_params"`
	Status string `json:"command_status"`
	Error  any    `json:"command_error"`
	Result any    `json:"command_result"`
}

// The statuses of a command. Ironic polls a command that is running.
const (
	running   = "RUNNING"
	succeeded = "SUCCEEDED"
	failed    = "FAILED"
)

func agentPath(m *Machine) string { return "/agent/" + m.name }

// found stores what Ironic answered to a lookup. Ironic sends the token only once; later answers have a
// mask in its place.
func (a *agent) found(f found) {
	a.mu.Lock()
	if isToken(f.Config.Token) {
		a.uuid, a.token = f.Node.UUID, f.Config.Token
	}
	known := a.uuid != ""
	a.mu.Unlock()
	if !known {
		return
	}
	// From now on, Ironic may send commands.
	a.machine.mu.Lock()
	defer a.machine.mu.Unlock()
	if a.ctx.Err() == nil {
		a.machine.agent = a
	}
}

func (a *agent) node() string {
	uuid, _ := a.credentials()
	return uuid
}

func (a *agent) credentials() (uuid, token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.uuid, a.token
}

// inspectionAccepted records that Ironic has accepted the inventory.
func (a *agent) inspectionAccepted() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inspected = true
}

// mayInspect returns false after Ironic has accepted an inventory, or has sent a command, which means
// that it booted the ramdisk for something else.
func (a *agent) mayInspect() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.inspected && len(a.commands) == 0
}

func (a *agent) isLockedDown() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.locked
}

// agentRoutes adds the API of all agents to mux. If no agent is running, the connection is aborted, as
// for a machine that is off.
func (s *Sim) agentRoutes(mux *http.ServeMux) {
	handle := func(pattern string, h func(*agent, http.ResponseWriter, *http.Request)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			var a *agent
			if m := s.machine(r.PathValue("machine")); m != nil {
				m.mu.Lock()
				a = m.agent
				m.mu.Unlock()
			}
			if a == nil || a.isLockedDown() {
				panic(http.ErrAbortHandler)
			}
			// Ironic 21.4 sends no token with a GET.
			sent := r.URL.Query().Get("agent_token")
			if _, token := a.credentials(); sent != token && (sent != "" || r.Method != http.MethodGet) {
				agentFault(w, http.StatusUnauthorized, "The agent_token is missing or wrong.")
				return
			}
			h(a, w, r)
		})
	}
	for _, end := range []string{"", "/{$}"} {
		handle("GET /agent/{machine}/v1/commands"+end, (*agent).listCommands)
		handle("POST /agent/{machine}/v1/commands"+end, (*agent).postCommand)
	}
}

func (a *agent) listCommands(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	commands := make([]command, 0, len(a.commands))
	for _, c := range a.commands {
		commands = append(commands, *c)
	}
	a.mu.Unlock()
	respond(w, http.StatusOK, object{"commands": commands})
}

func (a *agent) postCommand(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Name   string
		Params json.RawMessage
	}
	// The request can contain a config drive of several megabytes.
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 256<<20)).Decode(&request); err != nil {
		agentFault(w, http.StatusBadRequest, err.Error())
		return
	}
	do, name := a.lookup(request.Name)
	if do == nil {
		agentFault(w, http.StatusNotFound, "Unknown command: "+request.Name)
		return
	}
	wait, _ := strconv.ParseBool(r.URL.Query().Get("wait"))
	c := &command{ID: uuid(), Name: name, Params: object{}, Status: running}
	a.mu.Lock()
	if n := len(a.commands); n > 0 && a.commands[n-1].Status == running {
		busy := a.commands[n-1].Name
		a.mu.Unlock()
		agentFault(w, http.StatusConflict, "Agent is busy executing "+busy)
		return
	}
	a.commands = append(a.commands, c)
	a.mu.Unlock()

	work := func() {
		result, err := do(a.ctx, request.Params)
		a.finish(c, result, err)
	}
	// Steps run in the background, because they take long. When a heartbeat arrives, Ironic checks
	// whether they have ended.
	if wait || !isStep(request.Name) {
		work()
	} else if !a.machine.sim.task(func() { work(); a.beat() }) {
		panic(http.ErrAbortHandler)
	}
	a.mu.Lock()
	answer := *c
	a.mu.Unlock()
	respond(w, http.StatusOK, answer)
}

func (a *agent) finish(c *command, result any, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.Status, c.Result = succeeded, result
	if err != nil {
		c.Status, c.Result = failed, nil
		c.Error = object{"type": "CommandExecutionError", "code": 500, "message": "Command execution failed", "details": err.Error()}
	}
}

// beat requests a heartbeat now.
func (a *agent) beat() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func agentFault(w http.ResponseWriter, code int, message string) {
	respond(w, code, object{"faultcode": "Client", "faultstring": message, "code": code})
}

func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
