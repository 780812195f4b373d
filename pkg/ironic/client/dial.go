// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net"
	"time"
)

// dial connects to Ironic. What is still in the buffers of the connection when it is closed, also because this process
// was killed, is discarded, and what was not acknowledged for as long as a request may take is not sent any more: a
// request must not be carried out after everybody has forgotten it.
func (t *transport) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: min(5*time.Second, t.cfg.Timeout), KeepAlive: 15 * time.Second}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		if err := forgetOnClose(tcp, t.cfg.Timeout); err != nil {
			_ = conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

func forgetOnClose(conn *net.TCPConn, limit time.Duration) error {
	if err := conn.SetLinger(0); err != nil {
		return err
	}
	return setUserTimeout(conn, limit)
}
