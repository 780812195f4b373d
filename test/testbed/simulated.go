package testbed

import (
	"fmt"
	"sync/atomic"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// UnusedKernelURL and UnusedRamdiskURL are of a ramdisk for an Ironic whose machines
// boot nothing. Ironic wants to be told of one, and does not look whether it is there.
const (
	UnusedKernelURL  = "http://192.0.2.1/ramdisk.kernel"
	UnusedRamdiskURL = "http://192.0.2.1/ramdisk.initramfs"
)

// UnusedRamdiskArgs are the flags with which our server tells it.
var UnusedRamdiskArgs = []string{"--deploy-kernel-url=" + UnusedKernelURL, "--deploy-ramdisk-url=" + UnusedRamdiskURL}

// SimulatedIronic is an ironicsim in this process.
type SimulatedIronic struct {
	*ironicsim.Sim
	bmcs atomic.Int32
}

// StartSimulatedIronic starts an Ironic without nodes. End it with Close.
func StartSimulatedIronic(options ironicsim.Options) (*SimulatedIronic, error) {
	sim := ironicsim.New(options)
	if err := sim.Start(0); err != nil {
		sim.Close()
		return nil, err
	}
	return &SimulatedIronic{Sim: sim}, nil
}

// NewBMC adds a BMC of a machine that is switched off. The address is for
// spec.bmc.address, and finds the BMC (Sim.BMC).
func (i *SimulatedIronic) NewBMC(user, password string) (address string) {
	address = fmt.Sprintf("ipmi://127.0.0.1:%d", 10000+i.bmcs.Add(1))
	i.AddBMC(address, user, password)
	return address
}

var macs atomic.Uint32

// NewMAC is a MAC address for spec.bootMACAddress that no other host of this process has.
func NewMAC() string {
	n := macs.Add(1)
	return fmt.Sprintf("52:54:00:%02x:%02x:%02x", n>>16&0xff, n>>8&0xff, n&0xff)
}
