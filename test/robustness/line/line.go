// SPDX-License-Identifier: Apache-2.0

package line

import (
	"context"
	"net"
	"sync"
	"time"
)

// Trouble is what a Line does to what is said in one direction. The zero Trouble lets it pass.
type Trouble struct {
	// Hold keeps all bytes until the Trouble ends. They are then delivered, late.
	Hold bool
	// Lose drops all bytes, and breaks the connections that have lost some when the Trouble ends: in a TCP connection,
	// nothing can be missing in the middle.
	Lose bool
	// Delay is for all bytes.
	Delay time.Duration
}

// Line is a TCP proxy between two programs.
type Line struct {
	target    string
	listener  net.Listener
	connected func(peer string)
	ctx       context.Context
	cancel    context.CancelFunc
	work      sync.WaitGroup

	mu       sync.Mutex
	troubles [2]Trouble        // there and back
	changed  chan struct{}     // closed when the troubles change
	open     map[net.Conn]bool // both ends of all connections
	refuses  bool
	waiting  int // deliveries that a trouble holds up at this moment
}

// The directions of a Line.
const (
	there = iota // from the client to the server
	back
)

// New returns a Line to the target, which is HOST:PORT. If connected is not nil, it is told the local address of each connection to
// the target, before anything is sent. The caller must Close the Line.
func New(target string, connected func(peer string)) (*Line, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Line{target: target, listener: listener, connected: connected, changed: make(chan struct{}), open: map[net.Conn]bool{}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.work.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			l.work.Go(func() { l.connect(client) })
		}
	})
	return l, nil
}

// Address is HOST:PORT of the Line, for clients.
func (l *Line) Address() string { return l.listener.Addr().String() }

// Close breaks all connections and ends the Line.
func (l *Line) Close() {
	l.cancel()
	_ = l.listener.Close()
	l.Break()
	l.work.Wait()
}

// Set replaces the troubles from the client to the server, and back.
func (l *Line) Set(thereTrouble, backTrouble Trouble) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.troubles = [2]Trouble{thereTrouble, backTrouble}
	close(l.changed)
	l.changed = make(chan struct{})
}

// Refuse breaks all connections, and new ones too, until it is called with false.
func (l *Line) Refuse(refuses bool) {
	l.mu.Lock()
	l.refuses = refuses
	l.mu.Unlock()
	if refuses {
		l.Break()
	}
}

// Break breaks all connections. What was held is lost.
func (l *Line) Break() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		_ = c.Close()
	}
}

func (l *Line) connect(client net.Conn) {
	defer client.Close()
	if l.isRefusing() {
		return
	}
	server, err := (&net.Dialer{}).DialContext(l.ctx, "tcp", l.target)
	if err != nil {
		return
	}
	defer server.Close()
	defer l.remove(client, server)
	if !l.add(client, server) {
		return
	}
	if l.connected != nil {
		l.connected(server.LocalAddr().String())
	}
	var both sync.WaitGroup
	both.Go(func() { l.pump(server, client, there) })
	both.Go(func() { l.pump(client, server, back) })
	both.Wait()
}

func (l *Line) isRefusing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refuses
}

// add returns false if the connection must not be made: since it began, the Line has begun to refuse, or was closed.
func (l *Line) add(ends ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range ends {
		l.open[c] = true
	}
	return !l.refuses && l.ctx.Err() == nil
}

func (l *Line) remove(ends ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range ends {
		delete(l.open, c)
	}
}

// pump carries bytes in one direction until the connection ends, and ends it.
func (l *Line) pump(to, from net.Conn, direction int) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !l.deliver(to, buffer[:n], direction) || err != nil {
			return
		}
	}
}

// deliver passes bytes on when the trouble lets it. It returns false if they are lost.
func (l *Line) deliver(to net.Conn, bytes []byte, direction int) bool {
	lost := false
	for {
		l.mu.Lock()
		now, changed := l.troubles[direction], l.changed
		l.mu.Unlock()
		lost = lost || now.Lose
		switch {
		case now.Hold, now.Lose:
			if !l.wait(changed) {
				return false
			}
			continue
		case lost:
			return false
		case now.Delay > 0:
			timer := time.NewTimer(now.Delay)
			select {
			case <-timer.C:
			case <-l.ctx.Done():
				timer.Stop()
				return false
			}
		}
		_, err := to.Write(bytes)
		return err == nil
	}
}

// wait waits until the troubles have changed. It returns false if the Line is closed before.
func (l *Line) wait(changed <-chan struct{}) bool {
	count := func(n int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.waiting += n
	}
	count(1)
	defer count(-1)
	select {
	case <-changed:
		return true
	case <-l.ctx.Done():
		return false
	}
}
