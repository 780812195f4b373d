// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"net/http"
	"sync"

	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/utils/clock"

	ironicapi "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3api "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apiserver"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/events"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/firmware"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/fleet"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/manager"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
	ironicregistry "github.com/metal3-io/metal3-apiserver/pkg/registry/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost/console"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/kind"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
)

// Server serves the API and, while it leads, makes Ironic follow the specs of hosts.
type Server struct {
	generic *genericapiserver.GenericAPIServer
	fleet   *fleet.Fleet
	// stopReads ends the observations of the fleet.
	stopReads context.CancelFunc
	consoles  *console.Consoles
	manager   *manager.Manager
	engine    *engine
	events    *events.Recorder
	identity  *clusterIdentity
	// serving is closed when the server accepts connections.
	serving chan struct{}
	// frontProxy is the authority of kube-apiserver's front proxy; nil if the server is configured without one.
	frontProxy dynamiccertificates.CAContentProvider
}

// New returns a Server, whose Run must be called with the same context.
func (c *completedConfig) New(ctx context.Context) (_ *Server, err error) {
	generic, err := apiserver.New(c.generic)
	if err != nil {
		return nil, err
	}
	options := storeOptions(c.generic.RESTOptionsGetter)
	stores, err := metal3.NewStores(apiserver.Scheme, options, c.Settings.Namespaces)
	if err != nil {
		return nil, err
	}
	hosts := store.NewHosts(stores.Hosts)
	instances, err := ironicregistry.NewInstances(apiserver.Scheme, options, c.LeaderElection.ResourceNamespace)
	if err != nil {
		return nil, err
	}
	// Reads are still served while the server shuts down, so the observations must outlive it.
	readCtx, stopReads := context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			stopReads()
		}
	}()
	ironics := c.newFleet(readCtx, kind.Objects[*ironicapi.IronicInstance](instances), hosts, live.Deps{
		Secrets: c.cluster.readSecret, Clock: clock.RealClock{},
		Wait: c.ReadTimeout, CallbackTimeout: c.Settings.CallbackTimeout, Cluster: c.cluster.identity.UID,
	})
	settings, settingsReader := newFirmware(stores.Kinds, hosts, ironics)
	consoles := console.New(ctx, func(node console.Node) (console.Ironic, error) { return ironics.ClientOfInstance(node.Ironic) }, newEtcdClaims(c.Etcd.client, c.Etcd.storage.Prefix))
	recorder := events.NewRecorder(c.cluster.events)
	storage := stores.Storage(apiserver.Scheme, metal3.Deps{
		Live: liveReads{ironics, settingsReader}, IronicOf: func(host *metal3api.BareMetalHost) (baremetalhost.Ironic, error) { return ironics.ClientOf(host) },
		Admission: c.generic.AdmissionControl, Consoles: consoles, Authorizer: c.generic.Authorization.Authorizer,
		Events: recorder, CleanSteps: c.CleanSteps,
	})
	ironicStorage := ironicregistry.Storage(readCtx, nodesOf(ironics), hosts, instances, shownInstances{ironics}, c.LeaderElection.ResourceNamespace, c.generic.Authorization.Authorizer)
	if err := install(generic, storage, ironicStorage); err != nil {
		return nil, err
	}
	leader := &reconcile.LeaderStatus{}
	registerMetrics(ironics, leader, c.Etcd.space)
	leading := &engine{
		ExtraConfig: c.ExtraConfig, cluster: c.cluster, stores: stores, hosts: hosts, fleet: ironics,
		firmware: settings, leader: leader, events: recorder,
	}
	server := &Server{
		generic: generic, fleet: ironics, stopReads: stopReads, consoles: consoles,
		manager: leading.newManager(), engine: leading, events: recorder, identity: c.cluster.identity, serving: make(chan struct{}),
	}
	if err := server.addHealthChecks(c.Etcd.space); err != nil {
		return nil, err
	}
	err = generic.AddPostStartHook("metal3-start-leading", func(genericapiserver.PostStartHookContext) error { close(server.serving); return nil })
	if err != nil {
		return nil, err
	}
	if proxy := c.generic.Authentication.RequestHeaderConfig; proxy != nil {
		server.frontProxy = proxy.CAContentProvider
	}
	return server, nil
}

// install installs both API groups.
func install(generic *genericapiserver.GenericAPIServer, metal3Storage, ironicStorage map[string]rest.Storage) error {
	if err := apiserver.InstallAPIGroup(generic, metal3Storage, encodedMemory()); err != nil {
		return err
	}
	return apiserver.InstallIronicGroup(generic, ironicStorage)
}

// newFirmware returns what keeps the firmware kinds up to date for the leader, and for readers.
func newFirmware(kinds metal3.Kinds, hosts *store.Hosts, ironics *fleet.Fleet) (firmware.Deps, *firmware.Reader) {
	ironicOf := func(host *metal3api.BareMetalHost) (firmware.Ironic, error) { return ironics.ClientOf(host) }
	settings := firmware.NewSettingsKeeper(
		metal3.Objects[*metal3api.HostFirmwareSettings](kinds), metal3.Objects[*metal3api.FirmwareSchema](kinds), ironicOf, clock.RealClock{})
	components := firmware.NewComponentKeeper(metal3.Objects[*metal3api.HostFirmwareComponents](kinds), ironicOf, clock.RealClock{})
	policies := metal3.Objects[*metal3api.HostUpdatePolicy](kinds)
	return firmware.Deps{Settings: settings, Components: components, Policies: policies}, &firmware.Reader{
		Settings: settings, Components: components, Policies: policies,
		Hosts: hosts, Refresher: ironics, Timeout: ironics.ReadTimeout,
	}
}

func (s *Server) addHealthChecks(space *etcdSpace) error {
	err := s.generic.AddReadyzChecks(
		healthz.NamedCheck("etcd-space", func(*http.Request) error { return space.hasSpace() }),
		healthz.NamedCheck("etcd-hosts", func(request *http.Request) error { return s.engine.hasHosts(request.Context(), s.manager) }),
	)
	if err != nil {
		return err
	}
	return s.generic.AddLivezChecks(0, s.engine.leader)
}

// Run serves until ctx ends, and returns when everything has stopped. When ctx ends, the requests that are
// in progress are finished, while the leader's work and the consoles end: by the time Run returns, the
// Lease is released, so that another replica can take over at once. Observations of Ironic end last,
// because requests wait for them.
func (s *Server) Run(ctx context.Context) error {
	defer s.fleet.Wait()
	defer s.stopReads()
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel() // the server may have failed while ctx goes on
	runClientCA(ctx, s.generic.SecureServingInfo)
	if err := awaitClientCA(ctx, s.generic.SecureServingInfo, s.frontProxy); err != nil {
		return nil // it was stopped before it served
	}
	running.Go(func() { s.consoles.Run(ctx) })
	running.Go(func() { s.fleet.Run(ctx) })
	s.engine.keepSecrets(ctx, s.manager)
	running.Go(func() { s.identity.Run(ctx) })
	running.Go(func() { s.events.Run(ctx) })
	running.Go(func() {
		select {
		case <-s.serving:
			s.manager.Run(ctx)
		case <-ctx.Done():
		}
	})
	return s.generic.PrepareRun().RunWithContext(ctx)
}

// liveReads brings up to date what is read, hosts and their settings.
type liveReads struct {
	*fleet.Fleet
	*firmware.Reader
}
