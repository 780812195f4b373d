// SPDX-License-Identifier: Apache-2.0

package client

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout limits for how long data may be on its way without being acknowledged.
func setUserTimeout(conn *net.TCPConn, limit time.Duration) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
