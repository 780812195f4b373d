// SPDX-License-Identifier: Apache-2.0

package security

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
)

// silentServer accepts connections, and never answers.
type silentServer struct {
	listener net.Listener

	mu    sync.Mutex
	conns map[net.Conn]bool
	// accepted is how many connections there were.
	accepted int
}

func newSilentServer(t *testing.T) *silentServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v := &silentServer{listener: listener, conns: map[net.Conn]bool{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // it is closed
			}
			v.hold(conn, true)
			serving.Go(func() {
				for buffer := make([]byte, 4096); ; {
					if _, err := conn.Read(buffer); err != nil {
						v.hold(conn, false)
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		v.mu.Lock()
		for conn := range v.conns {
			_ = conn.Close()
		}
		v.mu.Unlock()
		serving.Wait()
	})
	return v
}

func (v *silentServer) url() string { return "http://" + v.listener.Addr().String() }

func (v *silentServer) hold(conn net.Conn, held bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if held {
		v.conns[conn] = true
		v.accepted++
		return
	}
	delete(v.conns, conn)
	_ = conn.Close()
}

func (v *silentServer) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.conns)
}

func (v *silentServer) acceptedSoFar() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.accepted
}

// expectHeld reports how many connections hang, if they are fewer than wanted.
func (v *silentServer) expectHeld(want int) string {
	if n := v.count(); n < want {
		return fmt.Sprintf("%d connections to %s hang, want %d", n, strings.TrimPrefix(v.url(), "http://"), want)
	}
	return ""
}
