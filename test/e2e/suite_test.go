// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// suite is what all tests share. A test keeps to a namespace of its own.
type suite struct {
	testbed.Suite
	ironic ironicUnderTest
}

var s suite

func TestMain(m *testing.M) {
	s.Parallel = 6
	if !testbed.IsSimulated() {
		// Ironic 29 does everything in one thread: with six of them, a host takes half a minute to be available that
		// takes three seconds alone.
		s.Parallel = 3
	}
	s.Main(m, "e2e", s.start)
}

func (s *suite) start(ctx context.Context) error {
	dir, err := s.Dir("ironic")
	if err != nil {
		return err
	}
	if s.ironic, err = startIronic(ctx, dir); err != nil {
		return err
	}
	s.OnStop(s.ironic.Close)
	return s.StartServer(ctx, s.serverOptions())
}

func (s *suite) serverOptions() testbed.ServerOptions {
	return testbed.ServerOptions{
		IronicEndpoint: s.ironic.Operator().Endpoint,
		Args: append([]string{"--v=2", "--configure-switches", "--switch-configs-secret=switch-configs",
			"--switch-credentials-secret=switch-keys", "--switch-credentials-path=/etc/switch-keys"}, testbed.UnusedRamdiskArgs...),
	}
}
