// SPDX-License-Identifier: Apache-2.0

package life

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// suite is what all tests share. A test keeps to a namespace and machines of its own.
type suite struct {
	testbed.Suite
	release  string
	ironic   *testbed.DebianIronic
	machines *bmcsim.Sim
}

var s suite

// needsInspection leaves out a test of inspections by the ramdisk.
func needsInspection(t *testing.T) {
	t.Helper()
	if !s.inspects() {
		t.Skip("Ironic 21.4 has no inspection by the ramdisk without another service, ironic-inspector")
	}
}

// needsTimeouts skips a test of what has to end by itself where requests to a BMC have
// no time limit: sushy 4.4 waits for the answer of a BMC that hangs for ever.
func needsTimeouts(t *testing.T, fault bmcsim.Fault) {
	t.Helper()
	if fault == bmcsim.HangConnections && s.release == "bookworm" {
		t.Skip("Ironic 21.4 waits for ever for the answer of a BMC that took the request")
	}
}

// inspects reports whether Ironic inspects with the ramdisk. 21.4 asks the BMC, and
// keeps nothing of what that says.
func (s *suite) inspects() bool { return s.release != "bookworm" }

func TestMain(m *testing.M) {
	s.release = os.Getenv("IRONIC")
	if s.release == "" || s.release == "sim" {
		fmt.Println("the lives of hosts on a real Ironic are left out: set IRONIC=trixie")
		return
	}
	// The tests mostly wait, for Ironic and for machines that boot: more of them
	// than there are processors can do that at a time.
	s.Parallel = 6
	if s.release != "trixie" {
		// 21.4 waits for the lock of its sqlite with everything else, and then gives up;
		// the one worker of 39.0 is soon busy.
		s.Parallel = 3
	}
	s.Main(m, "life", s.start)
}

func (s *suite) start(ctx context.Context) error {
	dir, err := s.Dir("ironic")
	if err != nil {
		return err
	}
	// What switches tell by LLDP is kept in readable form, as Metal3's Ironic does. The
	// registry of the images has a certificate of its own making.
	s.ironic, err = testbed.StartDebianIronic(ctx, testbed.IronicOptions{Release: s.release, Dir: dir, ExtraConf: "[DEFAULT]\nwebserver_verify_ca = false\n[inspector]\nhooks = $default_hooks,parse-lldp\n"})
	if err != nil {
		return err
	}
	if s.machines, err = bmcsim.Start(bmcsim.Options{
		IronicURL: s.ironic.Endpoint, DeploySteps: []string{"install_coreos"},
		BMCUpdate: 10 * time.Second, // a BMC that restarted before Ironic 29.0 has rebooted the machine would fail the update
	}); err != nil {
		return errors.Join(err, s.ironic.Close())
	}
	s.OnStop(s.machines.Close)
	s.OnStop(s.ironic.Close) // Ironic first: without BMCs it takes longer to end
	args := []string{"--v=2"}
	for _, arch := range []string{"x86_64", "aarch64"} { // and nothing for others
		args = append(args,
			"--deploy-kernel-url-by-arch="+arch+"="+s.machines.FileURL(bmcsim.KernelFile),
			"--deploy-ramdisk-url-by-arch="+arch+"="+s.machines.FileURL(bmcsim.RamdiskFile),
			"--deploy-iso-url-by-arch="+arch+"="+s.machines.FileURL(bmcsim.AgentISO))
	}
	return s.StartServer(ctx, testbed.ServerOptions{IronicEndpoint: s.ironic.Endpoint, ReadTimeout: 50 * time.Second, Args: args})
}
