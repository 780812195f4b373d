// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/docs"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// demoIronic is the Ironic of the demo.
type demoIronic interface {
	// progress describes what start does, to be printed before it.
	progress() string
	endpoint() string
	// start leaves nothing behind if it fails.
	start(ctx context.Context, dir string) error
	stop() error
	// hosts are the hosts to enrol.
	hosts() []host
	// plug makes the BMC of the unreachable host answer or, if in is false, stop answering. It is
	// called only if that is one of the hosts.
	plug(ctx context.Context, in bool) error
	// serverArgs are the flags that metal3-apiserver needs for this Ironic.
	serverArgs() []string
	// image is an image with which hosts can be provisioned.
	image() (url, checksum string)
}

// chooseIronic returns the Ironic that the environment specifies.
func chooseIronic(getenv func(string) string) (demoIronic, error) {
	kind, own, racks := getenv("IRONIC"), getenv("IRONIC_ENDPOINT"), getenv("HOSTS")
	if racks != "" && (own != "" || kind != "" && kind != "sim") {
		return nil, fmt.Errorf("HOSTS=%s: only the simulated Ironic has machines in racks: set neither IRONIC nor IRONIC_ENDPOINT", racks)
	}
	if own != "" {
		if kind != "" {
			return nil, fmt.Errorf("IRONIC=%s and IRONIC_ENDPOINT are mutually exclusive: the demo starts the former, the latter is your own", kind)
		}
		if u, err := url.Parse(own); err != nil || u.Host == "" {
			return nil, fmt.Errorf("IRONIC_ENDPOINT=%s is not a URL such as https://ironic.example:6385", own)
		}
		return ownIronic{url: own}, nil
	}
	switch kind {
	case "", "sim":
		return newSimulated(racks)
	case "debian":
		kind = "trixie"
	case "bookworm", "trixie", "sid":
	default:
		return nil, fmt.Errorf("IRONIC=%s: must be sim, debian, bookworm, trixie or sid; to use your own Ironic, set IRONIC_ENDPOINT to its URL", kind)
	}
	if err := testbed.DebianIronicMissing(); err != nil {
		return nil, fmt.Errorf("IRONIC=%s: %w. To use a simulated Ironic instead, do not set IRONIC", getenv("IRONIC"), err)
	}
	return &debian{release: kind}, nil
}

// simulated is the simulator, which runs in this process. Its BMCs have no sockets, so any address
// can be used.
type simulated struct {
	sim      *ironicsim.Sim
	enrolled []host
}

// newSimulated returns a simulator with the hosts of README.md or, if that is not empty, with a number of hosts in racks.
func newSimulated(racks string) (*simulated, error) {
	if racks != "" {
		all, err := inRacks(racks)
		return &simulated{enrolled: all}, err
	}
	all := []host{unpluggedHost(unreachableAddress)}
	for n := range workers {
		all = append(all, worker(n, exampleAddress(n)))
	}
	return &simulated{enrolled: all}, nil
}

func (*simulated) progress() string   { return "starting a simulated Ironic" }
func (i *simulated) endpoint() string { return i.sim.URL() }

// serverArgs name a ramdisk that is never fetched, and have all hosts inspected at a time.
func (*simulated) serverArgs() []string {
	return []string{"--deploy-kernel-url=http://192.168.111.1/ipa.kernel", "--deploy-ramdisk-url=http://192.168.111.1/ipa.initramfs", "--provisioning-limit=0"}
}

// image returns an image that is never fetched.
func (*simulated) image() (url, checksum string) {
	return "http://192.168.111.1/images/rhcos.qcow2", "http://192.168.111.1/images/rhcos.qcow2.sha256sum"
}

func (i *simulated) start(context.Context, string) error {
	i.sim = ironicsim.New(ironicsim.Options{
		AutoInspect: true, AutoDeploy: true, RamdiskDelay: 2 * time.Second,
		WithoutDefects: true,
	})
	for _, h := range i.enrolled {
		i.sim.AddBMC(h.address, user, password).SetDead(h.unplugged)
	}
	for _, machines := range docs.UsersPages {
		for _, address := range machines {
			i.sim.AddBMC(address, docs.User, docs.Password)
		}
	}
	if err := i.sim.Start(0); err != nil {
		i.sim.Close()
		return err
	}
	return nil
}

func (i *simulated) stop() error {
	i.sim.Close()
	return nil
}

func (i *simulated) hosts() []host { return i.enrolled }

func (i *simulated) plug(_ context.Context, in bool) error {
	i.sim.BMC(unreachableAddress).SetDead(!in)
	return nil
}

// debian is a real Ironic from Debian packages. Its machines are simulated, from their Redfish BMCs to
// the ramdisks that they boot.
type debian struct {
	release string
	ironic  *testbed.DebianIronic
	sim     *bmcsim.Sim // the workers, and the machine that is unplugged
}

func (i *debian) progress() string {
	return "starting the Ironic of Debian " + i.release + " and simulated machines"
}
func (i *debian) endpoint() string { return i.ironic.Endpoint }

func (i *debian) start(ctx context.Context, dir string) error {
	var err error
	if i.ironic, err = testbed.StartDebianIronic(ctx, testbed.IronicOptions{Release: i.release, Dir: dir}); err != nil {
		return err
	}
	i.sim, err = bmcsim.Start(bmcsim.Options{
		Machines: workers + 1, IronicURL: i.ironic.Endpoint, Username: user, Password: password,
		PowerDelay: time.Second, BootDelay: 2 * time.Second, StepDelay: time.Second,
	})
	if err != nil {
		return errors.Join(err, i.ironic.Close())
	}
	if err := i.plug(ctx, false); err != nil {
		return errors.Join(err, i.stop())
	}
	return nil
}

func (i *debian) stop() error { return errors.Join(i.ironic.Close(), i.sim.Close()) }

func (i *debian) serverArgs() []string {
	return []string{
		"--deploy-kernel-url=" + i.sim.FileURL(bmcsim.KernelFile),
		"--deploy-ramdisk-url=" + i.sim.FileURL(bmcsim.RamdiskFile),
	}
}

func (i *debian) image() (url, checksum string) {
	return i.sim.FileURL(bmcsim.ImageFile), i.sim.FileChecksum(bmcsim.ImageFile)
}

func (i *debian) hosts() []host {
	machine := func(n int, h host) host {
		h.address, h.mac = i.sim.Machine(n).Address(), i.sim.Machine(n).MAC()
		return h
	}
	all := []host{machine(workers, unpluggedHost(""))}
	for n := range workers {
		all = append(all, machine(n, worker(n, "")))
	}
	return all
}

func (i *debian) plug(_ context.Context, in bool) error {
	if in {
		return i.sim.Machine(workers).ClearFault(bmcsim.RefuseConnections)
	}
	return i.sim.Machine(workers).SetFault(bmcsim.RefuseConnections, "")
}

// ownIronic is the user's Ironic. The demo does not enrol any hosts in it.
type ownIronic struct{ url string }

func (i ownIronic) progress() string               { return "looking for your Ironic at " + i.url }
func (i ownIronic) endpoint() string               { return i.url }
func (ownIronic) serverArgs() []string             { return nil }
func (ownIronic) image() (url, checksum string)    { return "", "" }
func (ownIronic) stop() error                      { return nil }
func (ownIronic) hosts() []host                    { return nil }
func (ownIronic) plug(context.Context, bool) error { return nil }

// start only checks that something answers at the URL. It ignores errors about certificates and
// credentials, for which metal3-apiserver has flags.
func (i ownIronic) start(ctx context.Context, _ string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, i.url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if dial := new(net.OpError); errors.As(err, &dial) && dial.Op == "dial" || ctx.Err() != nil {
		return fmt.Errorf("IRONIC_ENDPOINT: %w", err)
	}
	if err != nil {
		return nil
	}
	return answer.Body.Close()
}

// exampleAddress returns the BMC address of a worker, as it is common in Metal3's examples.
func exampleAddress(n int) string {
	return "ipmi://" + net.JoinHostPort("192.168.111.1", strconv.Itoa(6233+n))
}
