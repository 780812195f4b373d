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
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// demoIronic is the Ironic of the demo.
type demoIronic interface {
	// begins says what start does, for the screen.
	begins() string
	endpoint() string
	// start leaves nothing behind when it fails.
	start(ctx context.Context, dir string) error
	stop() error
	// hosts are those to enrol.
	hosts() []host
	// plug makes the BMC of the unreachable host answer, or silences it. It is
	// called only if there are hosts.
	plug(ctx context.Context, in bool) error
	// serverArgs are what metal3-apiserver needs to be told of it.
	serverArgs() []string
	// image is one that hosts can be provisioned with.
	image() (url, checksum string)
}

// chooseIronic reads the environment.
func chooseIronic(getenv func(string) string) (demoIronic, error) {
	kind, own := getenv("IRONIC"), getenv("IRONIC_ENDPOINT")
	if own != "" {
		if kind != "" {
			return nil, fmt.Errorf("IRONIC=%s and IRONIC_ENDPOINT exclude each other: the one is started here, the other is your own", kind)
		}
		if u, err := url.Parse(own); err != nil || u.Host == "" {
			return nil, fmt.Errorf("IRONIC_ENDPOINT=%s is not a URL such as https://ironic.example:6385", own)
		}
		return ownIronic{url: own}, nil
	}
	switch kind {
	case "", "sim":
		return &simulated{}, nil
	case "debian":
		kind = "trixie"
	case "bookworm", "trixie", "sid":
	default:
		return nil, fmt.Errorf("IRONIC=%s: there are sim, debian, bookworm, trixie and sid; or set IRONIC_ENDPOINT to the URL of your own", kind)
	}
	if err := testbed.DebianIronicMissing(); err != nil {
		return nil, fmt.Errorf("IRONIC=%s: %w. The simulated one does not: leave IRONIC out", getenv("IRONIC"), err)
	}
	return &debian{release: kind}, nil
}

// simulated is the simulator, in this process. Its BMCs are no sockets: any address will do.
type simulated struct {
	sim *ironicsim.Sim
	bmc *ironicsim.BMC
}

func (*simulated) begins() string     { return "starting a simulated Ironic" }
func (i *simulated) endpoint() string { return i.sim.URL() }

// serverArgs name a ramdisk that nobody fetches either.
func (*simulated) serverArgs() []string {
	return []string{"--deploy-kernel-url=http://192.168.111.1/ipa.kernel", "--deploy-ramdisk-url=http://192.168.111.1/ipa.initramfs"}
}

// image is never fetched.
func (*simulated) image() (url, checksum string) {
	return "http://192.168.111.1/images/rhcos.qcow2", "http://192.168.111.1/images/rhcos.qcow2.sha256sum"
}

func (i *simulated) start(context.Context, string) error {
	i.sim = ironicsim.New(ironicsim.Options{
		AutoInspect: true, AutoDeploy: true, RamdiskDelay: 2 * time.Second,
		WithoutDefects: true,
	})
	for n := range workers {
		i.sim.AddBMC(transcriptAddress(n), user, password)
	}
	i.bmc = i.sim.AddBMC(unreachableAddress, user, password)
	i.bmc.SetDead(true)
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

func (i *simulated) hosts() []host {
	all := []host{unpluggedHost(unreachableAddress)}
	for n := range workers {
		all = append(all, worker(n, transcriptAddress(n)))
	}
	return all
}

func (i *simulated) plug(_ context.Context, in bool) error {
	i.bmc.SetDead(!in)
	return nil
}

// debian is a real Ironic from Debian packages. Its machines are simulated, from
// their Redfish BMCs to the ramdisks that they boot.
type debian struct {
	release string
	ironic  *testbed.DebianIronic
	sim     *bmcsim.Sim // the workers, and one that is unplugged
}

func (i *debian) begins() string {
	return "starting the Ironic of Debian " + i.release + ", and machines"
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

// ownIronic is the user's. No hosts are enrolled there unasked.
type ownIronic struct{ url string }

func (i ownIronic) begins() string                 { return "looking for your Ironic at " + i.url }
func (i ownIronic) endpoint() string               { return i.url }
func (ownIronic) serverArgs() []string             { return nil }
func (ownIronic) image() (url, checksum string)    { return "", "" }
func (ownIronic) stop() error                      { return nil }
func (ownIronic) hosts() []host                    { return nil }
func (ownIronic) plug(context.Context, bool) error { return nil }

// start only tells at once when nobody is there. Certificates and credentials are
// the business of metal3-apiserver, which has flags for them.
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

// transcriptAddress is the BMC address of a worker in many a lab.
func transcriptAddress(n int) string {
	return "ipmi://" + net.JoinHostPort("192.168.111.1", strconv.Itoa(6233+n))
}
