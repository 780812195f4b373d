// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"fmt"
	"sync/atomic"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// UnusedKernelURL and UnusedRamdiskURL are URLs of a ramdisk for an Ironic whose machines do not boot
// anything. Ironic requires the URLs, but does not check that anything is served there.
const (
	UnusedKernelURL  = "http://192.0.2.1/ramdisk.kernel"
	UnusedRamdiskURL = "http://192.0.2.1/ramdisk.initramfs"
)

// UnusedRamdiskArgs are the flags of metal3-apiserver that set these URLs.
var UnusedRamdiskArgs = []string{"--deploy-kernel-url=" + UnusedKernelURL, "--deploy-ramdisk-url=" + UnusedRamdiskURL}

// SimulatedIronic is an ironicsim that runs in the process of the tests.
type SimulatedIronic struct {
	*ironicsim.Sim
	bmcs atomic.Int32
}

// StartSimulatedIronic starts a simulated Ironic without nodes. The caller must stop it with Close.
func StartSimulatedIronic(options ironicsim.Options) (*SimulatedIronic, error) {
	sim := ironicsim.New(options)
	if err := sim.Start(0); err != nil {
		sim.Close()
		return nil, err
	}
	return &SimulatedIronic{Sim: sim}, nil
}

// NewBMC adds the BMC of a machine that is switched off. It returns the value for spec.bmc.address,
// which is also the argument with which Sim.BMC finds the BMC.
func (i *SimulatedIronic) NewBMC(user, password string) (address string) {
	address = fmt.Sprintf("ipmi://127.0.0.1:%d", 10000+i.bmcs.Add(1))
	i.AddBMC(address, user, password)
	return address
}

var macs atomic.Uint32

// NewMAC returns a MAC address for spec.bootMACAddress that it has not returned before in this process.
func NewMAC() string {
	n := macs.Add(1)
	return fmt.Sprintf("52:54:00:%02x:%02x:%02x", n>>16&0xff, n>>8&0xff, n&0xff)
}
