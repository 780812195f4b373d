// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

const (
	// writeTimeout bounds how long the console may take to accept what was typed.
	writeTimeout = 10 * time.Second
	// queued is how many pieces of output may wait for a user, of at most readSize bytes each. A
	// user who falls further behind is disconnected, so that the others are not held up.
	queued   = 64
	readSize = 16 << 10
)

// session is a console that is open, and its users.
type session struct {
	node   Node
	user   string // who has opened it
	since  time.Time
	shared bool
	claim  Claim
	conn   net.Conn
	closed chan struct{} // closed when the console is disabled

	writing chan struct{} // has an element while something that was typed is written

	mu     sync.Mutex
	reason error // why it has ended; nil before
	users  map[*Connection]bool
}

func newSession(node Node, options Options, claim Claim, conn net.Conn) *session {
	return &session{
		node: node, user: options.User, since: time.Now(), shared: options.Share, claim: claim, conn: conn,
		closed: make(chan struct{}), writing: make(chan struct{}, 1), users: map[*Connection]bool{},
	}
}

// Connection is the connection of one user to a console.
type Connection struct {
	session *session
	output  chan []byte
	ended   chan struct{}
	reason  error // why it has ended; must not be read before ended is closed
}

// join adds a user; nil if the session has ended.
func (s *session) join() *Connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason != nil {
		return nil
	}
	c := &Connection{session: s, output: make(chan []byte, queued), ended: make(chan struct{})}
	s.users[c] = true
	return c
}

// Output receives what the machine writes to its console.
func (c *Connection) Output() <-chan []byte { return c.output }

// Ended is closed when the connection has ended. Err then says why.
func (c *Connection) Ended() <-chan struct{} { return c.ended }

// Err returns why the connection has ended; nil if the user has closed it. It must not be called
// before Ended is closed.
func (c *Connection) Err() error { return c.reason }

// Write types into the console.
func (c *Connection) Write(p []byte) (int, error) {
	s := c.session
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
	case <-c.ended:
	}
	select {
	case <-c.ended:
		return 0, io.ErrClosedPipe
	default:
	}
	if err := s.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return s.conn.Write(p)
}

// Close ends the connection. The console is disabled when the last user has closed it.
func (c *Connection) Close() { c.session.leave(c, nil) }

func (s *session) leave(c *Connection, reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.users[c] {
		return
	}
	delete(s.users, c)
	c.reason = reason
	close(c.ended)
	if len(s.users) == 0 {
		s.endLocked(errors.New("all users have left"))
	}
}

// end disconnects all users.
func (s *session) end(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(errors.New(reason))
}

func (s *session) endLocked(reason error) {
	if s.reason != nil {
		return
	}
	s.reason = reason
	for c := range s.users {
		delete(s.users, c)
		c.reason = reason
		close(c.ended)
	}
	_ = s.conn.Close() // ends run
}

// run passes on what the machine writes, until the session ends.
func (s *session) run(ctx context.Context) {
	stopped := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-stopped:
		case <-ctx.Done():
			s.end("the server is being stopped; connect again")
		case <-s.claim.Lost():
			s.end("another user has taken over the console, or this server could not keep its claim on it")
		}
	})
	defer watching.Wait()
	defer close(stopped)
	buffer := make([]byte, readSize)
	received := 0
	for {
		n, err := s.conn.Read(buffer)
		received += n
		if n > 0 {
			s.broadcast(append([]byte(nil), buffer[:n]...))
		}
		if err != nil {
			s.end(s.explain(err, received))
			return
		}
	}
}

// explain says why Ironic has ended a console.
func (s *session) explain(err error, received int) string {
	switch {
	case received == 0 && time.Since(s.since) < tooSoon:
		return "Ironic's console program (ipmitool) ended before it had reached the machine. Ironic's conductor logs why; Ironic 29.0.5 calls it wrongly, and socat 1.8.1.3 crashes (docs/console.md)"
	case errors.Is(err, io.EOF):
		return "Ironic has ended the console: nothing was typed or shown for some time (by default ten minutes), or the BMC has ended it"
	}
	return "the connection to the console has broken: " + ironic.ReasonOf(err)
}

func (s *session) broadcast(output []byte) {
	s.mu.Lock()
	var slow []*Connection
	for c := range s.users {
		select {
		case c.output <- output:
		default:
			slow = append(slow, c)
		}
	}
	s.mu.Unlock()
	for _, c := range slow {
		s.leave(c, errors.New("the console shows more than you have received; connect again"))
	}
}
