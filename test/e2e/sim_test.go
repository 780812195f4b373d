// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// simulated is the simulator, in this process.
type simulated struct{ *testbed.SimulatedIronic }

func startSimulated(options ironicsim.Options) (*simulated, error) {
	options.AutoInspect, options.AutoDeploy = true, true
	sim, err := testbed.StartSimulatedIronic(options)
	return &simulated{sim}, err
}

func (i *simulated) Name() string                { return "simulated" }
func (i *simulated) Operator() *testbed.Operator { return &testbed.Operator{Endpoint: i.URL()} }
func (i *simulated) Start(context.Context) error { return i.AcceptConnections() }
func (i *simulated) Stop() error                 { i.RefuseConnections(); return nil }
func (i *simulated) Pause() error                { i.SetFaults(ironicsim.Faults{Hang: true}); return nil }
func (i *simulated) Resume() error               { i.SetFaults(ironicsim.Faults{}); return nil }
func (i *simulated) Close() error                { i.Sim.Close(); return nil }

func (i *simulated) StartBMC(_ context.Context, user, password string) (bmc, error) {
	address := i.NewBMC(user, password)
	return simulatedBMC{i.BMC(address), address}, nil
}

type simulatedBMC struct {
	*ironicsim.BMC
	address string
}

func (b simulatedBMC) Address() string             { return b.address }
func (b simulatedBMC) Stop() error                 { b.SetDead(true); return nil }
func (b simulatedBMC) Start(context.Context) error { b.SetDead(false); return nil }
func (b simulatedBMC) Power() (bool, error)        { return b.BMC.Power() == "power on", nil }
func (b simulatedBMC) SetPower(on bool) error {
	b.BMC.SetPower(map[bool]string{true: "power on", false: "power off"}[on])
	return nil
}
