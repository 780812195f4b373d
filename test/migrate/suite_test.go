// Package migrate moves a cluster from the CustomResourceDefinitions to our server,
// and back: on a real kube-apiserver with CRDs of all kinds, with the garbage
// collector of a real kube-controller-manager, and a simulated Ironic that has the
// hosts' nodes.
//
// There is one APIService of the group in a cluster, so the tests run one after the
// other, and each leaves the group to the CRDs.
package migrate

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/metal3-io/metal3-apiserver/pkg/apiserver"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/pkg/migrate"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

type suite struct {
	kube   *testbed.Kube
	ironic *ironicsim.Sim
	kinds  []*migrate.Kind
	config *rest.Config
	// hosts, core and anything are an administrator's clients, through kube-apiserver.
	hosts    versioned.Interface
	core     kubernetes.Interface
	anything dynamic.Interface
}

var s suite

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("migration tests left out: -short")
		return
	}
	os.Exit(testbed.RunSuite(m, "migrate", s.start))
}

func (s *suite) start(ctx context.Context, bed *testbed.Suite) (err error) {
	dir, err := bed.Dir("kube")
	if err != nil {
		return err
	}
	if s.kube, err = testbed.StartKube(ctx, testbed.KubeOptions{Dir: dir}); err != nil {
		return err
	}
	bed.OnStop(s.kube.Stop)
	s.ironic = ironicsim.New(ironicsim.Options{AutoInspect: true, AutoDeploy: true, PowerSyncInterval: -1, PowerRecoveryInterval: -1})
	if err := s.ironic.Start(0); err != nil {
		return err
	}
	bed.OnStop(func() error { s.ironic.Close(); return nil })
	s.config = s.kube.UnlimitedConfig()
	s.config.WarningHandler = rest.NoWarnings{} // of finalizers that are called otherwise than is the fashion now
	if s.hosts, err = versioned.NewForConfig(s.config); err != nil {
		return err
	}
	if s.core, err = kubernetes.NewForConfig(s.config); err != nil {
		return err
	}
	if s.anything, err = dynamic.NewForConfig(s.config); err != nil {
		return err
	}
	if s.kinds, err = migrate.Kinds(apiserver.Scheme); err != nil {
		return err
	}
	if err := s.applyCRDs(ctx); err != nil {
		return err
	}
	// Now it knows them, as that of a cluster in use does.
	return s.kube.StartControllers(ctx)
}

// eventually waits until done finds nothing to complain about.
func eventually(t *testing.T, limit time.Duration, done func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		err := done(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %v", limit, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
