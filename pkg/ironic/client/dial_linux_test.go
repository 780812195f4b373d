// SPDX-License-Identifier: Apache-2.0

package client

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestConnectionsForget: the kernel sends nothing on for a process that was killed.
func TestConnectionsForget(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	conn, err := (&transport{cfg: Config{Timeout: 30 * time.Second}}).dial(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		if linger, err := unix.GetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER); err != nil || linger.Onoff == 0 || linger.Linger != 0 {
			t.Errorf("SO_LINGER is %+v (%v)", linger, err)
		}
		if limit, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT); err != nil || limit != 30_000 {
			t.Errorf("TCP_USER_TIMEOUT is %d (%v)", limit, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
