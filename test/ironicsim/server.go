// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// server is the listening half of a Sim.
type server struct {
	mu   sync.Mutex
	addr string // 127.0.0.1:port, once started
	http *http.Server
}

// Start listens on 127.0.0.1, on any free port when port is 0.
func (s *Sim) Start(port int) error {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if s.server.addr != "" {
		return errors.New("ironicsim: Start was called before")
	}
	return s.listen(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// URL is the endpoint, without /v1. It is empty before Start.
func (s *Sim) URL() string {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if s.server.addr == "" {
		return ""
	}
	return "http://" + s.server.addr
}

// RefuseConnections closes the port and all connections, as the death of the API
// process does. What the conductor does goes on.
func (s *Sim) RefuseConnections() { s.server.close() }

// AcceptConnections opens the port again, the same one.
func (s *Sim) AcceptConnections() error {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if s.server.addr == "" {
		return errors.New("ironicsim: AcceptConnections needs Start first")
	}
	if s.server.http != nil {
		return nil
	}
	return s.listen(s.server.addr)
}

// listen must be called with s.server.mu held.
func (s *Sim) listen(addr string) error {
	if s.ctx.Err() != nil {
		return errors.New("ironicsim: closed")
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("ironicsim: %w", err)
	}
	srv := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: time.Minute,
		// Connections that break are what the faults are for.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	s.server.addr, s.server.http = l.Addr().String(), srv
	s.spawn(func() {
		// It ends with ErrServerClosed, when close() has closed it.
		_ = srv.Serve(l)
	})
	return nil
}

func (v *server) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.http != nil {
		_ = v.http.Close()
		v.http = nil
	}
}
