// Package e2e uses the whole thing as a user would: kubectl and client-go, a real
// kube-apiserver with the aggregation layer and RBAC, our server as the service
// account that the manifests name, etcd, and an Ironic.
//
// The Ironic is the simulator, or, with IRONIC=bookworm, trixie or sid, a real one
// from the packages of that Debian release. The tests are the same.
package e2e

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
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// suite is what all tests share. A test keeps to a namespace of its own.
type suite struct {
	kube   *testbed.Kube
	server *testbed.Server
	ironic ironicUnderTest
	// config is an administrator's, through kube-apiserver.
	config *rest.Config
	hosts  versioned.Interface
	core   kubernetes.Interface
}

var s suite

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("end-to-end tests left out: -short")
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "e2e-")
	if err != nil {
		return fail(err)
	}
	began := time.Now()
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
	fmt.Printf("control plane, server and Ironic (%s) are up after %s\n", s.ironic.Name(), time.Since(began).Round(time.Millisecond))
	return m.Run()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "e2e:", err)
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
	if s.ironic, err = startIronic(ctx, ironicDir); err != nil {
		return stop, err
	}
	stops = append(stops, s.ironic.Close)
	if s.server, err = testbed.StartServer(ctx, s.serverOptions(serverDir)); err != nil {
		return stop, err
	}
	stops = append(stops, func() error { _, err := s.server.Stop(); return err })
	s.config = rest.CopyConfig(s.kube.Admin.Config)
	s.config.QPS, s.config.Burst = -1, 0 // the tests' own rate is not the matter
	if s.hosts, err = versioned.NewForConfig(s.config); err != nil {
		return stop, err
	}
	s.core, err = kubernetes.NewForConfig(s.config)
	return stop, err
}

func (s *suite) serverOptions(dir string) testbed.ServerOptions {
	root, err := testbed.RepoRoot()
	if err != nil {
		root = "../.."
	}
	return testbed.ServerOptions{
		Kube: s.kube, Dir: dir, IronicEndpoint: s.ironic.Operator().Endpoint,
		RBAC: rbac(root),
		// Ironic takes these URLs for granted until something boots.
		Args: []string{"--v=2", "--deploy-kernel-url=http://192.0.2.1/ramdisk.kernel", "--deploy-ramdisk-url=http://192.0.2.1/ramdisk.initramfs"},
	}
}

// rbac are the manifests that say what our server may do. Those of the users'
// roles are among them; the workload is not, it runs beside the cluster here.
func rbac(root string) []string {
	var files []string
	for _, pattern := range []string{"serviceaccount.yaml", "*role*.yaml"} {
		found, err := filepath.Glob(filepath.Join(root, "artifacts/apiservice/base", pattern))
		if err == nil {
			files = append(files, found...)
		}
	}
	return files
}
