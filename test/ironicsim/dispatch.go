// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	headerVersion = "X-OpenStack-Ironic-API-Version"
	headerMin     = "X-OpenStack-Ironic-API-Minimum-Version"
	headerMax     = "X-OpenStack-Ironic-API-Maximum-Version"
)

// minimum is the version of the oldest supported Ironic (ironic.OldestAPIVersion). In older ones, only the root is answered.
const minimum = 82

func (s *Sim) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/_sim/") {
		s.admin.ServeHTTP(w, r)
		return
	}
	arrived := time.Now()
	w = datedResponse{w, s}
	to := match(r)
	kind := kindOf(r, to)
	s.stats.count(kind)
	if !s.faults.pass(s.ctx, r) {
		// A hanging request that is let go gets no answer but a closed connection.
		panic(http.ErrAbortHandler)
	}
	if code := s.faults.get().FailWrites; code != 0 && r.Method != http.MethodGet && r.Method != http.MethodHead {
		failWrite(w, code)
		return
	}
	if s.opts.Username != "" && !(to.root || to.route != nil && to.public) && !s.authorized(w, r) {
		return
	}

	verdict := s.faults.verdict(kind, r)
	if verdict.Refusal != nil {
		write(w, verdict.Refusal.Status, fault(verdict.Refusal.Status, "%s", verdict.Refusal.Text).body())
		return
	}

	if verdict.Late > 0 {
		s.executeLate(r, arrived, verdict.Late)
		select {
		case <-r.Context().Done():
		case <-s.ctx.Done():
		}
		panic(http.ErrAbortHandler)
	}
	if verdict.Queued > 0 {
		body, err := io.ReadAll(r.Body) // net/http does not notice before that the client has left
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !holdUp(s.ctx, r, verdict.Queued) {
			s.executeLate(r, arrived, verdict.Orphaned())
			panic(http.ErrAbortHandler)
		}
	}
	select {
	case s.threads <- struct{}{}:
	case <-s.ctx.Done():
		panic(http.ErrAbortHandler)
	}
	defer func() { <-s.threads }()
	s.execute(w, r, arrived, to, verdict.Lost)
}

// executeLate executes a request after a while, without an answer.
func (s *Sim) executeLate(r *http.Request, arrived time.Time, late time.Duration) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // it has not arrived
	}
	r = r.Clone(s.ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.spawn(func() {
		if sleep(s.ctx, late) {
			s.execute(nobody{http.Header{}}, r, arrived, match(r), false)
		}
	})
}

// nobody is a client that has left.
type nobody struct{ header http.Header }

func (n nobody) Header() http.Header       { return n.header }
func (nobody) Write(b []byte) (int, error) { return len(b), nil }
func (nobody) WriteHeader(int)             {}

// execute executes a request and answers it, unless the answer is lost.
func (s *Sim) execute(w http.ResponseWriter, r *http.Request, arrived time.Time, to target, lost bool) {
	c := &call{s: s, r: r, path: to.vars, base: "http://" + r.Host, header: w.Header(), status: http.StatusOK}
	if r.TLS != nil {
		c.base = "https://" + r.Host
	}
	began := time.Now()
	err := s.answer(c, to)
	status := c.status
	if err != nil {
		status = asAPIError(err, http.StatusInternalServerError).code
	}
	s.tellRequest(c, r, arrived, began, status)
	if lost {
		panic(http.ErrAbortHandler)
	}
	if err == nil {
		if !s.faults.passList(s.ctx, r, c.listed) {
			panic(http.ErrAbortHandler)
		}
		write(w, c.status, c.reply)
		return
	}
	apiErr := asAPIError(err, http.StatusInternalServerError)
	if apiErr.framework && apiErr.code != http.StatusNotAcceptable {
		// These replace the response that the version headers were set on.
		c.header.Del(headerMin)
		c.header.Del(headerMax)
		c.header.Del(headerVersion)
		c.header.Del("OpenStack-Request-Id")
	}
	body := apiErr.body()
	if r.Method == http.MethodHead {
		body = nil
	}
	write(w, apiErr.code, body)
}

// answer does what comes before a handler, in Ironic's order: version, URL,
// arguments.
func (s *Sim) answer(c *call, to target) error {
	if err := s.negotiate(c); err != nil {
		return err
	}
	c.header.Set("OpenStack-Request-Id", "req-"+newUUID())
	switch {
	case to.root && c.r.Method == http.MethodGet:
		return s.getRoot(c)
	case to.route == nil && to.known:
		return abort(http.StatusMethodNotAllowed, "")
	case to.route == nil || c.minor < to.minor && c.minor >= minimum:
		return abort(http.StatusNotFound, "")
	case to.pattern != "" && !to.public && c.minor < minimum:
		return abort(http.StatusNotAcceptable, fmt.Sprintf("ironicsim imitates no requests below version 1.%d", minimum))
	}
	if ident, ok := c.path["node"]; ok {
		// Below these names, the API has other resources.
		switch {
		case ident == "management" || ident == "maintenance":
			return abort(http.StatusMethodNotAllowed, "")
		case ident == "detail" || ident == "validate":
			return badRequest("Unexpected arguments: fields")
		}
		if !validName(ident) && !isUUID(ident) {
			return abort(http.StatusBadRequest, "Expected UUID or name for node: "+ident)
		}
	}
	if err := c.parseArgs(to.route); err != nil {
		return err
	}
	return to.handle(s, c)
}

var versionPattern = regexp.MustCompile(`^(\d+)\.(\d+)$`)

// negotiate finds the API version of the request and sets the version headers.
func (s *Sim) negotiate(c *call) error {
	asked := c.r.Header.Get(headerVersion)
	if service, v, ok := strings.Cut(c.r.Header.Get("OpenStack-API-Version"), " "); ok && service == "baremetal" {
		asked = v
	}
	switch {
	case asked == "":
		asked = "1.1"
	case strings.EqualFold(asked, "latest"):
		asked = s.opts.MaxVersion
	}
	m := versionPattern.FindStringSubmatch(strings.TrimSpace(asked))
	if m == nil {
		return abort(http.StatusNotAcceptable, "Invalid value for "+headerVersion+" header")
	}
	c.header.Set(headerMin, "1.1")
	c.header.Set(headerMax, s.opts.MaxVersion)
	version := strings.TrimSpace(asked)
	if m[1] != "1" {
		return abort(http.StatusNotAcceptable, fmt.Sprintf("Mutually exclusive versions requested. Version %s requested but not supported by this service. The supported version range is: [1.1, %s].", version, s.opts.MaxVersion))
	}
	minor, err := strconv.Atoi(m[2])
	if err != nil || minor < 1 || minor > s.minor {
		return abort(http.StatusNotAcceptable, fmt.Sprintf("Version %s was requested but the minor version is not supported by this service. The supported version range is: [1.1, %s].", version, s.opts.MaxVersion))
	}
	c.minor = minor
	c.header.Set(headerVersion, version)
	return nil
}

// authorized checks http_basic credentials and answers 401 itself.
func (s *Sim) authorized(w http.ResponseWriter, r *http.Request) bool {
	user, password, ok := r.BasicAuth()
	switch {
	case !ok:
		writeAuthError(w, http.StatusUnauthorized, "Authorization required")
	case user != s.opts.Username || password != s.opts.Password:
		writeAuthError(w, http.StatusUnauthorized, "Incorrect username or password")
	default:
		return true
	}
	return false
}

// writeAuthError is an answer of the layer before Ironic's API.
func writeAuthError(w http.ResponseWriter, code int, message string) {
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="Baremetal API"`)
	}
	write(w, code, mustJSON(map[string]any{"error": map[string]any{"message": message, "code": code}}))
}

// failWrite answers a write with the error that goes with a status.
func failWrite(w http.ResponseWriter, code int) {
	switch code {
	case http.StatusUnauthorized:
		writeAuthError(w, code, "Incorrect username or password")
	case http.StatusForbidden:
		write(w, code, fault(code, "Access was denied to the following resource: baremetal:node:update").body())
	default:
		write(w, code, fault(code, "Unexpected error raised by RPC").body())
	}
}

func write(w http.ResponseWriter, status int, body []byte) {
	if body != nil {
		w.Header().Set("Content-Type", "application/json")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	// The client may be gone; there is nobody left to tell.
	_, _ = w.Write(body)
}
