// Package life takes hosts through their lives on a real Ironic: kubectl's API,
// kube-apiserver, our server, Ironic from the packages of a Debian release, and
// simulated machines with Redfish BMCs whose ramdisks call Ironic back.
//
// IRONIC says which release: trixie, bookworm or sid. Without it, or with sim, the
// tests are left out.
package life

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// suite is what all tests share. A test keeps to a namespace and machines of its own.
type suite struct {
	release  string
	kube     *testbed.Kube
	server   *testbed.Server
	ironic   *testbed.DebianIronic
	machines *bmcsim.Sim
	// hosts and core are an administrator's, through kube-apiserver.
	hosts versioned.Interface
	core  kubernetes.Interface
}

var s suite

func TestMain(m *testing.M) {
	// The tests mostly wait, for Ironic and for machines that boot: more of them
	// than there are processors can do that at a time.
	_ = flag.Set("test.parallel", "6")
	flag.Parse() // what the command line says goes before
	s.release = os.Getenv("IRONIC")
	if testing.Short() || s.release == "" || s.release == "sim" {
		fmt.Println("the lives of hosts on a real Ironic are left out: set IRONIC=trixie")
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "life-")
	if err != nil {
		return fail(err)
	}
	stop, err := s.start(ctx, dir)
	defer func() {
		if err := stop(); err != nil {
			code = fail(err)
		}
		if code == 0 {
			_ = os.RemoveAll(dir)
		} else {
			fmt.Fprintln(os.Stderr, "logs are in", dir)
		}
	}()
	if err != nil {
		return fail(err)
	}
	return m.Run()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "life:", err)
	return 1
}

// start starts everything. stop stops what was started, also after an error.
func (s *suite) start(ctx context.Context, dir string) (stop func() error, err error) {
	var stops []func() error
	stop = func() error {
		var errs []error
		for i := len(stops) - 1; i >= 0; i-- {
			errs = append(errs, stops[i]())
		}
		return errors.Join(errs...)
	}
	sub := func(name string) string {
		path := filepath.Join(dir, name)
		err = errors.Join(err, os.MkdirAll(path, 0o700))
		return path
	}
	kubeDir, ironicDir, serverDir := sub("kube"), sub("ironic"), sub("server")
	if err != nil {
		return stop, err
	}
	if s.kube, err = testbed.StartKube(ctx, testbed.KubeOptions{Dir: kubeDir, ControllerManager: true}); err != nil {
		return stop, err
	}
	stops = append(stops, s.kube.Stop)
	// What switches tell by LLDP is kept in readable form, as Metal3's Ironic does.
	s.ironic, err = testbed.StartDebianIronic(ctx, testbed.IronicOptions{Release: s.release, Dir: ironicDir, ExtraConf: "[inspector]\nhooks = $default_hooks,parse-lldp\n"})
	if err != nil {
		return stop, err
	}
	if s.machines, err = bmcsim.Start(bmcsim.Options{IronicURL: s.ironic.Endpoint, DeploySteps: []string{"install_coreos"}}); err != nil {
		return stop, errors.Join(err, s.ironic.Close())
	}
	stops = append(stops, s.machines.Close, s.ironic.Close) // Ironic first: without BMCs it takes longer to end
	s.server, err = testbed.StartServer(ctx, testbed.ServerOptions{
		Kube: s.kube, Dir: serverDir, IronicEndpoint: s.ironic.Endpoint,
		Args: []string{
			"--v=2",
			"--deploy-kernel-url=" + s.machines.FileURL(bmcsim.KernelFile),
			"--deploy-ramdisk-url=" + s.machines.FileURL(bmcsim.RamdiskFile),
			"--deploy-iso-url=" + s.machines.FileURL(bmcsim.AgentISO),
		},
	})
	if err != nil {
		return stop, err
	}
	stops = append(stops, func() error { _, err := s.server.Stop(); return err })
	config := rest.CopyConfig(s.kube.Admin.Config)
	config.QPS = -1                           // the tests' own rate is not the matter
	config.WarningHandler = rest.NoWarnings{} // of a status that is not live while a test has stopped Ironic
	if s.hosts, err = versioned.NewForConfig(config); err != nil {
		return stop, err
	}
	s.core, err = kubernetes.NewForConfig(config)
	return stop, err
}
