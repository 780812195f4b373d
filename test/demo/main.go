// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

const namespace = "metal3"

func main() {
	// Closing the terminal (SIGHUP) and kill (SIGTERM) stop the demo like Ctrl-C.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// In `make demo | tee log`, Ctrl-C also ends tee. The resulting SIGPIPE must not end the demo before
	// it has cleaned up.
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
	bin, err := programs()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "metal3-demo-")
	if err != nil {
		return err
	}
	d := &demo{dir: dir, bin: bin, serverArgs: serverArgs, ironic: ironic}
	err = d.start(ctx)
	if err == nil {
		d.printNextSteps()
		d.serve(ctx)
	}
	interrupted := ctx.Err() != nil
	fmt.Println("\nstopping")
	stopErr := d.stop()
	if interrupted {
		err = nil // the failure is due to the interruption
	}
	if err != nil {
		return fmt.Errorf("%w\nthe logs are in %s", errors.Join(err, stopErr), dir)
	}
	if err := errors.Join(stopErr, os.RemoveAll(dir)); err != nil {
		return err
	}
	fmt.Println("stopped, and removed", dir)
	return nil
}

// programs returns the folder of kubectl and its plugin, and puts it into PATH, where kubectl looks for plugins.
func programs() (string, error) {
	root, err := testbed.RepoRoot()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(root, "bin")
	return bin, os.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// demo has the programs that run.
type demo struct {
	dir        string
	bin        string // the folder of kubectl and its plugin
	serverArgs []string
	kube       *testbed.Kube
	ironic     demoIronic
	server     *testbed.Server
	tenant     *testbed.Client // nil unless there are hosts in racks
	// stops are the functions that stop what was started, in the order in which they are called.
	stops []func() error
}

func (d *demo) start(ctx context.Context) error {
	err := d.step("starting etcd and kube-apiserver", func() error {
		var err error
		d.kube, err = testbed.StartKube(ctx, testbed.KubeOptions{Dir: d.sub("kube")})
		return err
	}, func() error { return d.kube.Stop() })
	if err != nil {
		return err
	}
	err = d.step(d.ironic.progress(), func() error { return d.ironic.start(ctx, d.sub("ironic")) }, d.ironic.stop)
	if err != nil {
		return err
	}
	err = d.step("starting metal3-apiserver behind an APIService", func() error {
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

// step prints a line and starts a part of the demo, which is then stopped with the others.
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

// sub creates a folder below the folder of the demo, and returns its path.
func (d *demo) sub(name string) string {
	path := filepath.Join(d.dir, name)
	// If this fails, writing to the folder fails, too.
	_ = os.MkdirAll(path, 0o700)
	return path
}

// enrol creates the namespace and, if there are any, the hosts, with a tenant if they are in racks. It waits for the hosts and shows
// the list.
func (d *demo) enrol(ctx context.Context) error {
	if err := d.show(ctx, "create", "namespace", namespace); err != nil {
		return err
	}
	hosts := d.ironic.hosts()
	if len(hosts) == 0 {
		return nil
	}
	manifests := d.sub("hosts")
	for _, h := range hosts {
		if err := os.WriteFile(h.path(manifests), []byte(h.yaml()), 0o600); err != nil {
			return err
		}
	}
	if err := d.show(ctx, "create", "-n", namespace, "-f", manifests); err != nil {
		return err
	}
	if hosts[0].rack != "" {
		if err := d.addTenant(ctx); err != nil {
			return err
		}
	}
	fmt.Println("\nIronic verifies the BMCs and inspects the machines ...")
	if err := d.wait(ctx, hosts); err != nil {
		return err
	}
	if err := d.show(ctx, "get", "baremetalhosts", "-n", namespace); err != nil {
		return err
	}
	return d.show(ctx, "bmh", "-n", namespace)
}

// wait waits until the hosts are available or Ironic has found that it gets no access to their BMC.
func (d *demo) wait(ctx context.Context, hosts []host) error {
	names := map[string][]string{}
	for _, h := range hosts {
		condition := "condition=AvailableForProvisioning"
		if h.fails() {
			condition = "jsonpath={.status.operationalStatus}=error"
		}
		names[condition] = append(names[condition], "baremetalhost/"+h.name)
	}
	for condition, these := range names {
		args := append([]string{"wait", "-n", namespace, "--for=" + condition, "--timeout=5m"}, these...)
		if _, _, err := d.kube.Kubectl(ctx, "", args...); err != nil {
			return err
		}
	}
	return nil
}

// show prints a kubectl command and runs it.
func (d *demo) show(ctx context.Context, args ...string) error {
	fmt.Println("\n$ kubectl", strings.Join(args, " "))
	cmd := d.kube.Admin.KubectlCommand(ctx, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr // the plugin uses colours on a terminal
	return cmd.Run()
}

// serve waits for Ctrl-C. Each time Enter is pressed, the BMC that does not answer is plugged in or
// unplugged.
func (d *demo) serve(ctx context.Context) {
	enter := make(chan struct{})
	go func() { // ends at the end of the input, or with this program
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
			if !d.hasUnreachable() {
				continue
			}
			if err := d.ironic.plug(ctx, !plugged); err != nil {
				fmt.Fprintln(os.Stderr, "demo:", err)
				continue
			}
			plugged = !plugged
			fmt.Printf("the BMC of %s %s\n", unreachable, map[bool]string{true: "answers now", false: "no longer answers"}[plugged])
		}
	}
}

// hasUnreachable reports whether there is a host whose BMC can be plugged in.
func (d *demo) hasUnreachable() bool {
	return slices.ContainsFunc(d.ironic.hosts(), func(h host) bool { return h.unplugged })
}

func (d *demo) stop() error {
	var errs []error
	for _, stop := range d.stops {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}
