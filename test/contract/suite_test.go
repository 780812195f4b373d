// Package contract uses metal3.io/v1alpha1 as the clients of its CRDs do, without
// a change to them: kubectl, client-go, controller-runtime, Cluster API Provider
// Metal3, and the admission policies and webhooks of users. They go through a real
// kube-apiserver; the Ironic is the simulator, which the tests of other packages
// hold to the real one.
package contract

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// suite is what all tests share. A test keeps to a namespace of its own.
type suite struct {
	kube   *testbed.Kube
	server *testbed.Server
	ironic *ironicsim.Sim
	// config is an administrator's, through kube-apiserver; so are the clients.
	config  *rest.Config
	metal3  versioned.Interface
	core    kubernetes.Interface
	dynamic dynamic.Interface
}

var s suite

var watchCache = flag.Bool("watch-cache", true, "the server's --watch-cache: true as it is shipped; all has to pass with false too")

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("the contract tests are left out: -short")
		return
	}
	os.Exit(testbed.RunSuite(m, "contract", s.start))
}

func (s *suite) start(ctx context.Context, bed *testbed.Suite) (err error) {
	if s.kube, err = bed.StartKube(ctx); err != nil {
		return err
	}
	s.ironic = ironicsim.New(ironicsim.Options{AutoInspect: true, AutoDeploy: true})
	bed.OnStop(func() error { s.ironic.Close(); return nil })
	if err := s.ironic.Start(0); err != nil {
		return err
	}
	s.server, err = bed.StartServer(ctx, testbed.ServerOptions{
		Kube: s.kube, IronicEndpoint: s.ironic.URL(),
		Args: []string{"--v=2", fmt.Sprintf("--watch-cache=%t", *watchCache), "--deploy-kernel-url=http://192.0.2.1/ramdisk.kernel", "--deploy-ramdisk-url=http://192.0.2.1/ramdisk.initramfs"},
	})
	if err != nil {
		return err
	}
	s.config = s.kube.UnlimitedConfig()
	if s.metal3, err = versioned.NewForConfig(s.config); err != nil {
		return err
	}
	if s.core, err = kubernetes.NewForConfig(s.config); err != nil {
		return err
	}
	s.dynamic, err = dynamic.NewForConfig(s.config)
	return err
}

// begin gives a test a namespace and a time limit.
func begin(t *testing.T) (ctx context.Context, namespace string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx, testbed.NewNamespace(t, ctx, s.core)
}

var bmcs atomic.Int32

// newBMC makes a machine that the Ironic can reach at the returned address.
func newBMC(user, password string) (address string) {
	address = fmt.Sprintf("ipmi://127.0.0.1:%d", 6230+bmcs.Add(1))
	s.ironic.AddBMC(address, user, password)
	return address
}
