// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// user and password are accepted by all BMCs.
const user, password = "admin", "password"

// startIronic starts the simulator or, with IRONIC=bookworm, trixie or sid, the Ironic of that Debian release with
// simulated machines that boot. It returns the options of the server.
func (s *suite) startIronic(ctx context.Context) (options testbed.ServerOptions, err error) {
	release := os.Getenv("IRONIC")
	if release == "" || release == "sim" {
		s.ironic, err = s.StartSimulatedIronic(ironicsim.Options{AutoInspect: true, AutoDeploy: true})
		if err != nil {
			return options, err
		}
		return testbed.ServerOptions{IronicEndpoint: s.ironic.URL(), Args: testbed.UnusedRamdiskArgs}, nil
	}
	dir, err := s.Dir("ironic")
	if err != nil {
		return options, err
	}
	ironic, err := testbed.StartDebianIronic(ctx, testbed.IronicOptions{Release: release, Dir: dir})
	if err != nil {
		return options, err
	}
	s.machines, err = bmcsim.Start(bmcsim.Options{IronicURL: ironic.Endpoint, Username: user, Password: password})
	if err != nil {
		return options, errors.Join(err, ironic.Close())
	}
	s.OnStop(s.machines.Close)
	s.OnStop(ironic.Close) // Ironic first: without BMCs it takes longer to end
	return testbed.ServerOptions{IronicEndpoint: ironic.Endpoint, Args: []string{
		"--deploy-kernel-url=" + s.machines.FileURL(bmcsim.KernelFile), "--deploy-ramdisk-url=" + s.machines.FileURL(bmcsim.RamdiskFile),
	}}, nil
}

// needsSimulator skips a test that changes what the simulator does, or to which Ironic makes no difference.
func needsSimulator(t *testing.T) {
	t.Helper()
	if s.ironic == nil {
		t.Skip("needs the simulated Ironic")
	}
}

// machine is what a user knows of a machine and of an image that it can run.
type machine struct{ address, mac, image, checksum string }

func newMachine(t *testing.T) machine {
	t.Helper()
	if s.ironic != nil {
		return machine{s.ironic.NewBMC(user, password), testbed.NewMAC(), "http://192.0.2.1/debian.qcow2", "http://192.0.2.1/SHA256SUMS"}
	}
	m, err := s.machines.AddMachine()
	if err != nil {
		t.Fatal(err)
	}
	return machine{m.Address(), m.MAC(), s.machines.FileURL(bmcsim.ImageFile), s.machines.FileChecksum(bmcsim.ImageFile)}
}
