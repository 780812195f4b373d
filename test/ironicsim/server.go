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
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				s.stats.connection(+1)
			case http.StateClosed, http.StateHijacked:
				s.stats.connection(-1)
			}
		},
	}
	s.server.addr, s.server.http = l.Addr().String(), srv
	s.spawn(func() {
		// It ends with ErrServerClosed, when close() has closed it.
		_ = srv.Serve(&listener{Listener: l, s: s})
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

// listener resets connections that come in too large a burst.
type listener struct {
	net.Listener
	s      *Sim
	recent []time.Time // of the connections within BurstWindow
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		limit := l.s.faults.get().MaxBurst
		if limit == 0 {
			return conn, nil
		}
		at := time.Now()
		for len(l.recent) > 0 && at.Sub(l.recent[0]) > BurstWindow {
			l.recent = l.recent[1:]
		}
		l.recent = append(l.recent, at)
		if len(l.recent) <= limit {
			return conn, nil
		}
		l.s.stats.countReset()
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // closing then sends a reset
		}
		_ = conn.Close()
	}
}
