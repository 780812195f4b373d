// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

type bedKey struct{}

// bed returns what a test with this context uses: the suite, or a copy of it that has a server, and perhaps an Ironic, of
// the test's own. So tests with either can run at the same time.
func bed(ctx context.Context) *suite {
	if own, ok := ctx.Value(bedKey{}).(*suite); ok {
		return own
	}
	return &s
}

// onSimulatorOfItsOwn gives the test a simulated Ironic with other options than the
// suite's, and a server of its own for it. They belong to the returned context.
func onSimulatorOfItsOwn(t *testing.T, ctx context.Context, ns string, options ironicsim.Options) (context.Context, *simulated) {
	t.Helper()
	needsSimulator(t)
	sim, err := startSimulated(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() }) // after the server
	own := s
	own.ironic = sim
	return onServerOfItsOwn(t, context.WithValue(ctx, bedKey{}, &own), ns), sim
}

// onServerOfItsOwn gives the test a server beside the suite's, with a store and a
// Lease of its own, and with these flags. It answers past the aggregation layer, and belongs to the returned context.
func onServerOfItsOwn(t *testing.T, ctx context.Context, ns string, args ...string) context.Context {
	t.Helper()
	own := *bed(ctx)
	options := own.serverOptions()
	options.Args = append(options.Args, args...)
	server, hosts := own.NewServer(t, ctx, ns, options)
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	own.Server, own.Metal3 = server, hosts
	return context.WithValue(ctx, bedKey{}, &own)
}
