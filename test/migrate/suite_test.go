// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/metal3-io/metal3-apiserver/pkg/apiserver"
	"github.com/metal3-io/metal3-apiserver/pkg/migrate"
	"github.com/metal3-io/metal3-apiserver/test/crds"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

type object = map[string]any

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

type suite struct {
	testbed.Suite
	ironic *testbed.SimulatedIronic
	kinds  []*migrate.Kind
}

var s suite

func TestMain(m *testing.M) {
	s.ControllersLater = true
	s.Main(m, "migrate", s.start)
}

// start leaves the server to the tests, each of which has one of its own.
func (s *suite) start(ctx context.Context) (err error) {
	s.ironic, err = s.StartSimulatedIronic(ironicsim.Options{
		AutoInspect: true, AutoDeploy: true, PowerSyncInterval: -1, PowerRecoveryInterval: -1,
		WithoutDefects: os.Getenv("BMO") != "", // a real operator cannot inspect a node that has become its own parent
	})
	if err != nil {
		return err
	}
	if s.kinds, err = migrate.Kinds(apiserver.Scheme); err != nil {
		return err
	}
	if err := crds.Create(ctx, s.Dynamic, s.kinds); err != nil {
		return err
	}
	// Now it knows them, as that of a cluster in use does.
	return s.Kube.StartControllers(ctx)
}

// eventually waits until done finds nothing to complain about.
func eventually(t *testing.T, done func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Patience)
	defer cancel()
	for {
		err := done(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %v", testbed.Patience, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
