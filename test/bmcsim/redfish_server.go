// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

type object = map[string]any

// bmc is the Redfish service of one machine.
type bmc struct {
	machine *Machine
	address string // host:port
	port    int
	server  *http.Server

	mu       sync.Mutex
	listener net.Listener  // nil while connections are refused
	thawed   chan struct{} // open while requests hang, otherwise closed
	sessions map[string]bool
}

func startBMC(m *Machine) (*bmc, error) {
	listener, err := listen(0)
	if err != nil {
		return nil, fmt.Errorf("BMC of %s: %w", m.name, err)
	}
	b := &bmc{
		machine: m, address: listener.Addr().String(), port: listener.Addr().(*net.TCPAddr).Port,
		thawed: make(chan struct{}), sessions: map[string]bool{},
	}
	close(b.thawed)
	b.server = &http.Server{Handler: b.guard(b.routes()), ReadHeaderTimeout: 10 * time.Second}
	b.listener = listener
	if !b.serve(listener) {
		return nil, errClosed
	}
	return b, nil
}

func (b *bmc) serve(l net.Listener) bool {
	return b.machine.sim.task(func() { _ = b.server.Serve(l) }) // ends when the listener is closed
}

func (b *bmc) endSessions() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.sessions)
}

func (b *bmc) close() error { return b.server.Close() }

// apply updates the BMC according to the machine's faults, and to whether it restarts itself. m.mu must not
// be held.
func (b *bmc) apply() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.machine.mu.Lock()
	refuse := b.machine.faulty(RefuseConnections) || b.machine.bmcAway
	hang, locked := b.machine.faulty(HangConnections), b.machine.faulty(WrongPassword)
	b.machine.mu.Unlock()
	if locked {
		clear(b.sessions)
	}
	frozen := true
	select {
	case <-b.thawed:
		frozen = false
	default:
	}
	switch {
	case hang && !frozen:
		b.thawed = make(chan struct{})
	case !hang && frozen:
		close(b.thawed)
	}
	switch {
	case refuse && b.listener != nil:
		err := b.listener.Close()
		b.listener = nil
		return err
	case !refuse && b.listener == nil:
		l, err := listen(b.port)
		if err != nil {
			return fmt.Errorf("BMC of %s cannot listen again: %w", b.machine.name, err)
		}
		b.listener = l
		if !b.serve(l) {
			return errClosed
		}
	}
	return nil
}

// guard simulates the machine's faults and requires authentication.
func (b *bmc) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		thawed, refused := b.thawed, b.listener == nil
		b.mu.Unlock()
		if refused { // the connection is older than the fault
			panic(http.ErrAbortHandler)
		}
		select {
		case <-thawed:
		case <-r.Context().Done():
			return
		case <-b.machine.sim.ctx.Done():
			return
		}
		w.Header().Set("OData-Version", "4.0")
		public := r.URL.Path == "/redfish" || r.URL.Path == "/redfish/v1" || r.URL.Path == "/redfish/v1/" ||
			r.Method == http.MethodPost && r.URL.Path == sessionsPath
		if !public && !b.authorized(r) {
			w.Header().Set("WWW-Authenticate", `Basic realm="bmcsim"`)
			fail(w, http.StatusUnauthorized, "Base.1.0.GeneralError", "The user name or the password is wrong.")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		next.ServeHTTP(w, r)
	})
}

func (b *bmc) authorized(r *http.Request) bool {
	if token := r.Header.Get("X-Auth-Token"); token != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.sessions[token]
	}
	user, password, ok := r.BasicAuth()
	return ok && b.accepts(user, password)
}

func (b *bmc) accepts(user, password string) bool {
	_, locked := b.machine.fault(WrongPassword)
	return !locked && user == b.machine.Username() && subtle.ConstantTimeCompare([]byte(password), []byte(b.machine.Password())) == 1
}

const sessionsPath = "/redfish/v1/SessionService/Sessions"

func (b *bmc) createSession(w http.ResponseWriter, r *http.Request) {
	var login struct{ UserName, Password string }
	if err := json.NewDecoder(r.Body).Decode(&login); err != nil || !b.accepts(login.UserName, login.Password) {
		fail(w, http.StatusUnauthorized, "Base.1.0.GeneralError", "The user name or the password is wrong.")
		return
	}
	token := rand.Text()
	b.mu.Lock()
	b.sessions[token] = true
	b.mu.Unlock()
	// The token also serves as the ID of the session.
	path := sessionsPath + "/" + token
	w.Header().Set("X-Auth-Token", token)
	w.Header().Set("Location", path)
	respond(w, http.StatusCreated, object{"@odata.id": path, "Id": token, "Name": "Session", "UserName": login.UserName})
}

func (b *bmc) deleteSession(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	delete(b.sessions, r.PathValue("id"))
	b.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

// respond writes a resource with an ETag, which sushy returns in a PATCH.
func respond(w http.ResponseWriter, code int, body any) {
	content, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("ETag", etag(content))
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.WriteHeader(code)
	_, _ = w.Write(content)
}

func etag(content []byte) string {
	h := fnv.New64a()
	_, _ = h.Write(content)
	return fmt.Sprintf(`"%x"`, h.Sum64())
}

// fail writes an error in the format of Redfish, which sushy includes in its exceptions.
func fail(w http.ResponseWriter, code int, id, message string) {
	respond(w, code, object{"error": object{
		"code": id, "message": message,
		"@Message.ExtendedInfo": []object{{"MessageId": id, "Message": message, "Severity": "Warning"}},
	}})
}

// body decodes the JSON object of a request. A missing body counts as an empty object, because sushy
// sends none to eject a medium.
func body(w http.ResponseWriter, r *http.Request, into any) bool {
	content, err := io.ReadAll(r.Body)
	if err == nil && len(content) > 0 {
		err = json.Unmarshal(content, into)
	}
	if err != nil {
		fail(w, http.StatusBadRequest, "Base.1.0.MalformedJSON", err.Error())
	}
	return err == nil
}
