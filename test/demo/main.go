// Command demo shows metal3-apiserver at work on one machine, as `make demo`
// starts it: a kube-apiserver, our server with its embedded etcd behind an
// APIService, an Ironic, and hosts to play with. It runs until Ctrl-C and leaves
// nothing.
//
//	IRONIC=sim              a simulated Ironic, the default
//	IRONIC=debian           a real one, of Debian trixie; as root, on Debian or Ubuntu
//	IRONIC=bookworm|sid     that of another release
//	IRONIC_ENDPOINT=URL     your own
//
// Arguments are passed on to metal3-apiserver: what it needs to be let in by an
// Ironic of yours.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

const namespace = "metal3"

func main() {
	// The terminal that is closed and the kill without a number end it as Ctrl-C does.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// In `make demo | tee log`, Ctrl-C ends tee as well: that must not end this before it has cleaned up.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, serverArgs []string) error {
	ironic, err := chooseIronic(os.Getenv)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "metal3-demo-")
	if err != nil {
		return err
	}
	d := &demo{dir: dir, serverArgs: serverArgs, ironic: ironic}
	err = d.start(ctx)
	if err == nil {
		d.sayWhatNext()
		d.serve(ctx)
	}
	interrupted := ctx.Err() != nil
	fmt.Println("\nstopping")
	stopErr := d.stop()
	if interrupted {
		err = nil // what failed, failed because of it
	}
	if err != nil {
		return fmt.Errorf("%w\nthe logs are in %s", errors.Join(err, stopErr), dir)
	}
	if err := errors.Join(stopErr, os.RemoveAll(dir)); err != nil {
		return err
	}
	fmt.Println("stopped, and", dir, "is removed")
	return nil
}

// demo is all that runs.
type demo struct {
	dir        string
	serverArgs []string
	kube       *testbed.Kube
	ironic     demoIronic
	server     *testbed.Server
	// stops end what was started, in this order.
	stops []func() error
}

func (d *demo) start(ctx context.Context) error {
	err := d.step("starting etcd, kube-apiserver and kube-controller-manager", func() error {
		var err error
		d.kube, err = testbed.StartKube(ctx, testbed.KubeOptions{Dir: d.sub("kube"), ControllerManager: true})
		return err
	}, func() error { return d.kube.Stop() })
	if err != nil {
		return err
	}
	err = d.step(d.ironic.begins(), func() error { return d.ironic.start(ctx, d.sub("ironic")) }, d.ironic.stop)
	if err != nil {
		return err
	}
	err = d.step("starting metal3-apiserver, behind an APIService", func() error {
		var err error
		d.server, err = testbed.StartServer(ctx, testbed.ServerOptions{
			Kube: d.kube, Dir: d.sub("server"), IronicEndpoint: d.ironic.endpoint(), Args: append(d.ironic.serverArgs(), d.serverArgs...),
		})
		return err
	}, func() error { _, err := d.server.Stop(); return err })
	if err != nil {
		return err
	}
	return d.enrol(ctx)
}

// step starts something with a line on the screen, and has it ended with the rest.
func (d *demo) step(what string, start, stop func() error) error {
	fmt.Println(what, "...")
	began := time.Now()
	if err := start(); err != nil {
		return err
	}
	d.stops = append([]func() error{stop}, d.stops...)
	fmt.Printf("  ready after %.1f s\n", time.Since(began).Seconds())
	return nil
}

// sub is a folder below the demo's.
func (d *demo) sub(name string) string {
	path := filepath.Join(d.dir, name)
	// A failure shows in whatever is written there.
	_ = os.MkdirAll(path, 0o700)
	return path
}

// enrol makes the namespace and the hosts, waits until they are available, or
// Ironic has found their BMC silent, and shows the list.
func (d *demo) enrol(ctx context.Context) error {
	if err := d.show(ctx, "create", "namespace", namespace); err != nil {
		return err
	}
	hosts := d.ironic.hosts()
	for _, h := range hosts {
		path := h.path(d.dir)
		if err := os.WriteFile(path, []byte(h.yaml()), 0o600); err != nil {
			return err
		}
		if err := d.show(ctx, "create", "-n", namespace, "-f", path); err != nil {
			return err
		}
	}
	fmt.Println("\nIronic verifies the BMCs and inspects the machines ...")
	for _, h := range hosts {
		condition := "condition=AvailableForProvisioning"
		if h.unplugged {
			condition = "jsonpath={.status.operationalStatus}=error"
		}
		if _, _, err := d.kube.Kubectl(ctx, "", "wait", "-n", namespace, "--for="+condition, "--timeout=120s", "baremetalhost/"+h.name); err != nil {
			return err
		}
	}
	return d.show(ctx, "get", "baremetalhosts", "-n", namespace)
}

// show runs kubectl as somebody at a terminal would see it.
func (d *demo) show(ctx context.Context, args ...string) error {
	fmt.Println("\n$ kubectl", strings.Join(args, " "))
	stdout, stderr, err := d.kube.Kubectl(ctx, "", args...)
	fmt.Print(stdout, stderr)
	return err
}

// serve waits for Ctrl-C. Enter plugs the BMC in that does not answer, and out again.
func (d *demo) serve(ctx context.Context) {
	enter := make(chan struct{})
	go func() { // ends with the input, or with this program
		for input := bufio.NewScanner(os.Stdin); input.Scan(); {
			select {
			case enter <- struct{}{}:
			case <-ctx.Done():
			}
		}
	}()
	plugged := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-enter:
			if len(d.ironic.hosts()) == 0 {
				continue
			}
			if err := d.ironic.plug(ctx, !plugged); err != nil {
				fmt.Fprintln(os.Stderr, "demo:", err)
				continue
			}
			plugged = !plugged
			fmt.Printf("the BMC of %s %s\n", unreachable, map[bool]string{true: "answers now", false: "does not answer any more"}[plugged])
		}
	}
}

func (d *demo) stop() error {
	var errs []error
	for _, stop := range d.stops {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}
