// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// FlakyLine is the way of TCP connections to kube-apiserver, and can be cut. TLS goes through it
// untouched.
type FlakyLine struct {
	address, to string

	mu       sync.Mutex
	listener net.Listener // nil while the line is cut
	open     map[net.Conn]bool
}

// NewFlakyLine returns a line, and a config whose clients go through it. It is cut when the test ends.
func NewFlakyLine(t *testing.T, config *rest.Config) (*FlakyLine, *rest.Config) {
	t.Helper()
	host, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	l := &FlakyLine{address: "127.0.0.1:0", to: host.Host, open: map[net.Conn]bool{}}
	if err := l.listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Cut)
	config = rest.CopyConfig(config)
	config.Host = "https://" + l.address
	return l, config
}

func (l *FlakyLine) listen() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	listener, err := net.Listen("tcp", l.address)
	if err != nil {
		return err
	}
	l.listener, l.address = listener, listener.Addr().String()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go l.connect(listener, client)
		}
	}()
	return nil
}

func (l *FlakyLine) connect(through net.Listener, client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer server.Close()
	l.mu.Lock()
	if l.listener != through { // cut meanwhile
		l.mu.Unlock()
		return
	}
	l.open[client], l.open[server] = true, true
	l.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_ = way[0].Close() // ends the other direction
		})
	}
	both.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, client)
	delete(l.open, server)
}

// Cut breaks all connections and has new ones refused.
func (l *FlakyLine) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != nil {
		_ = l.listener.Close()
		l.listener = nil
	}
	for connection := range l.open {
		_ = connection.Close()
	}
}

// Mend lets connections through again.
func (l *FlakyLine) Mend(t *testing.T, ctx context.Context) {
	t.Helper()
	Eventually(t, ctx, func() string { // another program may have had the port for a moment
		if err := l.listen(); err != nil {
			return err.Error()
		}
		return ""
	})
}
