package app

import (
	"context"
	"net/http"
	"sync"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/utils/clock"

	metal3api "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apiserver"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/events"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/firmware"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/manager"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/request"
	ironicregistry "github.com/metal3-io/metal3-apiserver/pkg/registry/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost/console"
)

// Server serves the API and, while it leads, makes Ironic follow the specs of hosts.
type Server struct {
	generic   *genericapiserver.GenericAPIServer
	refresher *live.Refresher
	// stopReads ends the observations of the Refresher.
	stopReads context.CancelFunc
	consoles  *console.Consoles
	// manager and events are nil if the server runs without a cluster.
	manager *manager.Manager
	events  *events.Recorder
	// serving is closed when the server accepts connections.
	serving chan struct{}
}

// New returns a Server, whose Run must be called with the same context.
func (c *completedConfig) New(ctx context.Context) (_ *Server, err error) {
	generic, err := apiserver.New(c.generic)
	if err != nil {
		return nil, err
	}
	stores, err := metal3.NewStores(apiserver.Scheme, explainedOptions{c.generic.RESTOptionsGetter}, c.Settings.Namespaces)
	if err != nil {
		return nil, err
	}
	hosts := baremetalhost.NewHosts(stores.Hosts)
	// Reads are still served while the server shuts down, so the Refresher must outlive it.
	readCtx, stopReads := context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			stopReads()
		}
	}()
	refresher := live.NewRefresher(readCtx, live.Deps{
		Hosts: hosts, Nodes: c.Ironic, Secrets: c.readerSecrets(), Clock: clock.RealClock{},
		Wait: c.ReadTimeout, CallbackTimeout: c.Settings.CallbackTimeout,
	})
	settings := firmware.NewSettingsKeeper(metal3.Records[*metal3api.HostFirmwareSettings](stores.Kinds), metal3.Records[*metal3api.FirmwareSchema](stores.Kinds), c.Ironic, clock.RealClock{})
	components := firmware.NewComponentKeeper(metal3.Records[*metal3api.HostFirmwareComponents](stores.Kinds), c.Ironic, clock.RealClock{})
	policies := metal3.Records[*metal3api.HostUpdatePolicy](stores.Kinds)
	reads := liveReads{refresher, &firmware.Reader{
		Settings: settings, Components: components, Policies: policies, Hosts: hosts, Refresher: refresher, Timeout: c.ReadTimeout,
	}}
	consoles := console.New(ctx, c.Ironic, newEtcdClaims(c.Etcd.client, c.Etcd.storage.Prefix))

	var recorder *events.Recorder
	var requested baremetalhost.EventRecorder // nil: no typed nil pointer in it
	if c.cluster != nil {
		recorder = events.NewRecorder(c.cluster.kubernetes)
		requested = recorder
	}
	storage := stores.Storage(apiserver.Scheme, reads, request.NewRecorder(clock.RealClock{}), c.Ironic, c.generic.AdmissionControl, consoles, c.generic.Authorization.Authorizer, requested)
	if err := apiserver.InstallAPIGroup(generic, storage); err != nil {
		return nil, err
	}
	if err := apiserver.InstallIronicGroup(generic, ironicregistry.Storage(c.Ironic, hosts)); err != nil {
		return nil, err
	}
	leader := &reconcile.LeaderStatus{}
	if err := addHealthChecks(generic, c.Etcd.space, leader); err != nil {
		return nil, err
	}
	registerMetrics(refresher, leader, c.Etcd.space)
	server := &Server{generic: generic, refresher: refresher, stopReads: stopReads, consoles: consoles, events: recorder, serving: make(chan struct{})}
	err = generic.AddPostStartHook("metal3-start-leading", func(genericapiserver.PostStartHookContext) error { close(server.serving); return nil })
	if err != nil {
		return nil, err
	}
	if c.cluster != nil {
		e := &engine{
			ExtraConfig: c.ExtraConfig, cluster: c.cluster, stores: stores, hosts: hosts, refresher: refresher,
			firmware: firmware.Deps{Settings: settings, Components: components, Policies: policies}, leader: leader, events: recorder,
		}
		server.manager = e.newManager()
	}
	return server, nil
}

func addHealthChecks(generic *genericapiserver.GenericAPIServer, space *etcdSpace, leader *reconcile.LeaderStatus) error {
	if err := generic.AddReadyzChecks(healthz.NamedCheck("etcd-space", func(*http.Request) error { return space.hasSpace() })); err != nil {
		return err
	}
	return generic.AddLivezChecks(0, leader)
}

// Run serves until ctx ends, and returns when everything has stopped. When ctx ends, the requests that are
// in progress are finished, while the leader's work and the consoles end: by the time Run returns, the
// Lease is released, so that another replica can take over at once. Observations of Ironic end last,
// because requests wait for them.
func (s *Server) Run(ctx context.Context) error {
	defer s.refresher.Wait()
	defer s.stopReads()
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel() // the server may have failed while ctx goes on
	running.Go(func() { s.consoles.Run(ctx) })
	if s.manager != nil {
		running.Go(func() { s.events.Run(ctx) })
		running.Go(func() {
			select {
			case <-s.serving:
				s.manager.Run(ctx)
			case <-ctx.Done():
			}
		})
	}
	return s.generic.PrepareRun().RunWithContext(ctx)
}

// liveReads brings up to date what is read, hosts and their settings.
type liveReads struct {
	*live.Refresher
	*firmware.Reader
}
