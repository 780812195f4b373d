// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// suite is what all tests share. A test keeps to a namespace of its own.
type suite struct {
	testbed.Suite
	ironic *testbed.SimulatedIronic
}

var s suite

func TestMain(m *testing.M) { s.Main(withAndWithoutCache{m}, "contract", s.start) }

func (s *suite) start(ctx context.Context) (err error) {
	if s.ironic, err = s.StartSimulatedIronic(ironicsim.Options{AutoInspect: true, AutoDeploy: true}); err != nil {
		return err
	}
	return s.StartServer(ctx, testbed.ServerOptions{
		IronicEndpoint: s.ironic.URL(),
		Args:           serverArgs(),
	})
}

// serverArgs are the server's flags.
func serverArgs() []string {
	return append([]string{"--v=2", fmt.Sprintf("--watch-cache=%t", watchCache)}, testbed.UnusedRamdiskArgs...)
}
