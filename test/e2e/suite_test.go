// Package e2e uses the whole thing as a user would: kubectl and client-go, a real
// kube-apiserver with the aggregation layer and RBAC, our server as the service
// account that the manifests name, etcd, and an Ironic.
//
// The Ironic is the simulator, or, with IRONIC=bookworm, trixie or sid, a real one
// from the packages of that Debian release. The tests are the same.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

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
	os.Exit(testbed.RunSuite(m, "e2e", s.start))
}

func (s *suite) start(ctx context.Context, bed *testbed.Suite) (err error) {
	if s.kube, err = bed.StartKube(ctx); err != nil {
		return err
	}
	dir, err := bed.Dir("ironic")
	if err != nil {
		return err
	}
	if s.ironic, err = startIronic(ctx, dir); err != nil {
		return err
	}
	bed.OnStop(s.ironic.Close)
	if s.server, err = bed.StartServer(ctx, s.serverOptions("")); err != nil {
		return err
	}
	s.config = s.kube.UnlimitedConfig()
	if s.hosts, err = versioned.NewForConfig(s.config); err != nil {
		return err
	}
	s.core, err = kubernetes.NewForConfig(s.config)
	return err
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
