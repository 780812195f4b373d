// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package client

import (
	"net"
	"time"
)

// setUserTimeout does nothing: only Linux has the option.
func setUserTimeout(*net.TCPConn, time.Duration) error { return nil }
