// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// bmc is a BMC and the power button of its machine.
type bmc interface {
	Address() string
	// Stop silences the BMC, Start has it answer again; the machine does not notice.
	Stop() error
	Start(ctx context.Context) error
	Power() (on bool, err error)
	// SetPower presses the button: Ironic learns of it when it looks next.
	SetPower(on bool) error
}

// ironicUnderTest is an Ironic, real or simulated.
type ironicUnderTest interface {
	Name() string
	Operator() *testbed.Operator
	StartBMC(ctx context.Context, user, password string) (bmc, error)
	// Stop and Start keep what Ironic knows; Pause has it accept connections and
	// not answer.
	Stop() error
	Start(ctx context.Context) error
	Pause() error
	Resume() error
	Close() error
}

func startIronic(ctx context.Context, dir string) (ironicUnderTest, error) {
	release := os.Getenv("IRONIC")
	if release == "" || release == "sim" {
		return startSimulated(ironicsim.Options{})
	}
	i, err := testbed.StartDebianIronic(ctx, testbed.IronicOptions{Release: release, Dir: dir})
	if err != nil {
		return nil, err
	}
	return debianIronic{i, release}, nil
}

type debianIronic struct {
	*testbed.DebianIronic
	release string
}

func (i debianIronic) Name() string { return "Debian " + i.release }

func (i debianIronic) StartBMC(ctx context.Context, user, password string) (bmc, error) {
	b, err := i.DebianIronic.StartBMC(ctx, user, password)
	return debianBMC{b}, err
}

type debianBMC struct{ *testbed.BMC }

func (b debianBMC) Address() string { return b.BMC.Address }
