// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	metal3api "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/bmo"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/events"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/firmware"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/fleet"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds/dataimage"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds/hostclaim"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds/hostnetwork"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds/networkswitch"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds/preprovisioning"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds/subscription"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/manager"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
)

// engine is what the leader's work is made of that lasts longer than it leads.
type engine struct {
	ExtraConfig
	cluster  *clusterClients
	stores   *metal3.Stores
	hosts    *store.Hosts
	fleet    *fleet.Fleet
	firmware firmware.Deps
	leader   *reconcile.LeaderStatus
	events   *events.Recorder
	// hostless is set if etcd had no hosts when the server started, and they may be lost.
	hostless atomic.Bool
}

// newManager returns what runs the leader's work whenever this replica leads.
func (e *engine) newManager() *manager.Manager {
	return manager.New(manager.Config{
		Election: e.LeaderElection, Leases: e.cluster.leases.CoordinationV1(),
		Count: newEtcdCounter(e.Etcd.client, e.Etcd.storage.Prefix, "count"), RestoredAt: newEtcdCounter(e.Etcd.client, e.Etcd.storage.Prefix, "restored-at"),
		Setup: e.setUp, Clock: clock.RealClock{},
	})
}

// setUp adds the leader's work to a term.
func (e *engine) setUp(ctx context.Context, t *manager.Term) error {
	settings := e.Settings
	var err error
	if settings.Cluster, err = e.cluster.identity.Read(ctx); err != nil {
		return err
	}
	term := &leaderTerm{engine: e, Term: t, settings: settings, secrets: secrets.New(e.cluster.kubernetes, e.cluster.metadata, settings.Namespaces), hold: reconcile.NewHold()}
	term.hold.Set(metal3api.RestoredReason, t.Restored())
	t.OnRestored(func() { term.hold.Set(metal3api.RestoredReason, t.Restored()) })
	term.operator = bmo.NewWatch(e.cluster.kubernetes.CoordinationV1(), e.OperatorNamespaces, clock.RealClock{}, func(reason string) { term.hold.Set(metal3api.OperatorRunningReason, reason) })
	term.fence = ironic.Fence{Term: func() bool { return t.MayAct() && term.operator.Reason() == "" }}
	if err := term.operator.Learn(ctx); err != nil {
		return err // and tried again: nothing is done to machines before it is known
	}
	return term.addControllers()
}

// leaderTerm is a period as the leader, to which controllers are added.
type leaderTerm struct {
	*engine
	*manager.Term
	settings reconcile.Settings
	// fence is that of what the other kinds do, to Ironic, to hosts and to switches: only during this term, and not while
	// etcd may be one that was restored from a backup, or the Bare Metal Operator runs. (The reconciler of hosts is held in its
	// plans.)
	fence   ironic.Fence
	secrets *secrets.Secrets
	// hold keeps all machines from being touched, and operator is one of those that set it.
	hold     *reconcile.Hold
	operator *bmo.Watch
}

// addControllers adds all controllers.
func (t *leaderTerm) addControllers() error {
	records, namespaces := t.stores.Kinds, t.settings.Namespaces
	planner := reconcile.NewPlanner()
	clusterNamespaces := secrets.MetadataInformer(t.cluster.metadata, "namespaces", metav1.NamespaceAll) // which the controller of HostClaims runs
	if err := t.secrets.WatchNamespaces(clusterNamespaces); err != nil {
		return err
	}
	ironics, err := newLedIronics(t.fleet, t.settings, clusterNamespaces)
	if err != nil {
		return err
	}
	t.Add(ironics.Run)
	t.Add(newCRDLook(t.cluster.dynamic, records).run)
	images := dataimage.New(dataimage.Deps{
		Nodes:  nodesFor(t, func(host *metal3api.BareMetalHost) (dataimage.Ironic, error) { return t.fleet.ClientOf(host) }),
		Images: metal3.Objects[*metal3api.DataImage](records), Hosts: t.hosts, Events: t.events, Clock: clock.RealClock{},
		CheckURL: t.settings.Images.CheckURL, PlanHost: planner.PlanHost, Namespaces: namespaces,
	})
	t.Add(images.Run)
	ramdisks := preprovisioning.New(preprovisioning.Deps{
		Images: metal3.Objects[*metal3api.PreprovisioningImage](records), Hosts: t.hosts, Secret: t.secrets.Data,
		Enabled: t.settings.BuildImages, Ramdisk: t.settings.Ramdisk, PlanHost: planner.PlanHost, Namespaces: namespaces,
	})
	t.Add(ramdisks.Run)
	t.Add(t.operator.Run)
	controller := reconcile.New(reconcile.Deps{
		Hosts: t.hosts, Ironics: ironics, Secrets: t.secrets, Hardware: records.HardwareData(),
		Firmware: t.firmware, Events: t.events, DataImages: images, HostImages: ramdisks, Leading: t.Leading, MayAct: t.fence.Term, RestoredAt: t.RestoredAt, Confirm: t.Confirm,
		Planner: planner, Hold: t.hold, Operator: t.operator, Clock: clock.RealClock{},
	}, t.settings)
	t.Add(func(ctx context.Context) error { return t.leader.Run(ctx, controller) })
	subscriptions := subscription.New(subscription.Deps{
		Nodes:         nodesFor(t, func(host *metal3api.BareMetalHost) (subscription.Ironic, error) { return t.fleet.ClientOf(host) }),
		Subscriptions: metal3.Objects[*metal3api.BMCEventSubscription](records), Hosts: t.hosts, Events: t.events, Clock: clock.RealClock{},
		CheckURL: t.settings.Events.CheckURL, Secret: t.secrets.Read, Namespaces: namespaces,
	})
	t.Add(subscriptions.Run)
	for _, changed := range []func(namespace, name string){subscriptions.SecretChanged, ramdisks.SecretChanged} {
		if err := t.secrets.Notify(changed); err != nil {
			return err
		}
	}
	if err := t.addClaims(controller, clusterNamespaces); err != nil {
		return err
	}
	for _, changed := range []func(old, host *metal3api.BareMetalHost){images.HostChanged, subscriptions.HostChanged, ramdisks.HostChanged} {
		if _, err := controller.OnHostChange(changed); err != nil {
			return err
		}
	}
	if t.Switches.Enabled {
		if err := t.addNetworks(controller); err != nil {
			return err
		}
	}
	return t.yieldToLater(controller)
}

// nodesFor gives a controller access to the nodes of hosts.
func nodesFor[I kinds.NodeGetter](t *leaderTerm, ironicOf func(host *metal3api.BareMetalHost) (I, error)) kinds.Nodes[I] {
	return kinds.Nodes[I]{Ironic: ironicOf, Prove: t.fleet.WhyUnproven, Guard: t.fleet.Guard, Fence: t.fence}
}

// addClaims adds the controller that assigns hosts to HostClaims.
func (t *leaderTerm) addClaims(hosts *reconcile.Reconciler, namespaces cache.SharedIndexInformer) error {
	claims, err := hostclaim.New(hostclaim.Deps{
		Claims: metal3.Objects[*metal3api.HostClaim](t.stores.Kinds), Policies: metal3.Objects[*metal3api.HostDeployPolicy](t.stores.Kinds), Hosts: t.hosts, Hardware: t.stores.Kinds.HardwareData(),
		Secrets: t.secrets, Fence: t.fence, Events: t.events, Clock: clock.RealClock{}, OnHostChange: hosts.OnHostChange, ClaimNamespaces: namespaces, Namespaces: t.settings.Namespaces,
	})
	if err != nil {
		return err
	}
	if err := t.secrets.Notify(claims.SecretChanged); err != nil {
		return err
	}
	t.Add(claims.Run)
	return nil
}

// addNetworks adds the controllers of switches and of the attachments of hosts to them.
func (t *leaderTerm) addNetworks(hosts *reconcile.Reconciler) error {
	switches := networkswitch.New(networkswitch.Deps{
		Switches: metal3.Objects[*metal3api.BareMetalSwitch](t.stores.Kinds), Secrets: t.secrets, Fence: t.fence, Settings: t.Switches, Namespaces: t.settings.Namespaces,
	})
	if err := t.secrets.Notify(switches.SecretChanged); err != nil {
		return err
	}
	t.Add(switches.Run)
	networks := hostnetwork.New(hostnetwork.Deps{
		Nodes:       nodesFor(t, func(host *metal3api.BareMetalHost) (hostnetwork.Ironic, error) { return t.fleet.ClientOf(host) }),
		Attachments: metal3.Objects[*metal3api.HostNetworkAttachment](t.stores.Kinds), Hosts: t.hosts, Clock: clock.RealClock{}, Namespaces: t.settings.Namespaces,
	})
	t.Add(networks.Run)
	_, err := hosts.OnHostChange(networks.HostChanged)
	return err
}
