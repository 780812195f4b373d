// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"sync"

	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/executor"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/firmware"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/hostindex"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/recorder"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/registrar"
)

// driver makes one Ironic follow the specs of the hosts that are its own. It shares neither its queue nor its workers, its
// polls or its limits with others, so that an Ironic that hangs holds up no host of another.
type driver struct {
	member    *Member
	ironics   Ironics
	hosts     live.Hosts
	refresher Refresher
	index     *hostindex.Index
	planner   *Planner
	queue     *Queue
	term      ironic.Term // of leadership
	mayAct    ironic.Term
	confirm   func(context.Context) error
	settings  Settings
	clock     clock.WithTicker

	firmware *firmware.Watch
	inputs   *inputs
	recorder *recorder.Recorder
	executor *executor.Executor
	gates    *gates
	watcher  *watcher
	poller   *poller
	workers  sync.WaitGroup
}

func newDriver(c *Reconciler, m *Member) *driver {
	deps, settings := c.deps, m.Settings
	queue := newQueue(deps.Clock)
	claims := registrar.NewClaims(c.index, m.Refresher, func(key bmc.Key) lifecycle.Elsewhere { return c.nodesElsewhere(m.Name, key) })
	registrations := registrar.New(registrar.Deps{
		Name: m.Name, Hosts: deps.Hosts, Ironic: m.Ironic, Secrets: deps.Secrets, Recorder: c.recorder, Claims: claims, HostImages: deps.HostImages, Clock: deps.Clock,
	}, settings.registrar())
	d := &driver{
		member: m, ironics: deps.Ironics, hosts: deps.Hosts, refresher: m.Refresher, index: c.index, planner: deps.Planner, queue: queue, term: ironic.TermOf(deps.Leading), mayAct: ironic.TermOf(deps.MayAct), confirm: deps.Confirm, settings: settings, clock: deps.Clock,
		firmware: c.firmware,
		recorder: c.recorder,
		executor: executor.New(executor.Deps{
			Name: m.Name, Ironic: m.Ironic, Hosts: deps.Hosts, Observer: m.Refresher, Recorder: c.recorder, Registrar: registrations, Claims: claims, Destinations: destinations{c}, Secrets: deps.Secrets,
			Hardware: deps.Hardware, DataImages: deps.DataImages, Policy: c.firmware.PolicyFor, StoredPolicy: c.firmware.StoredPolicyFor, Images: settings.Images, Ramdisk: settings.Ramdisk, Clock: deps.Clock,
		}),
		gates: newGates(m.Name, c.index, queue, settings.ProvisioningLimit, deps.Clock),
	}
	d.inputs = &inputs{
		secrets: deps.Secrets, hardware: c.hardware, firmware: c.firmware, registrations: registrations, claims: claims,
		queue: queue, hold: deps.Hold, restoredAt: deps.RestoredAt, strange: &strangeness{name: m.Name, cluster: settings.Cluster, nodes: m.Refresher, hosts: c.index}, settings: settings, clock: deps.Clock,
	}
	d.watcher = &watcher{d.isMine, queue, c.index, claims, d.gates}
	d.poller = &poller{
		ironic: m.Name, nodes: m.Refresher, hosts: deps.Hosts, index: c.index, gates: d.gates, queue: queue, watcher: d.watcher,
		interval: settings.PollInterval, clock: deps.Clock, stepped: make(chan struct{}, 1),
	}
	countSteps(m.Name, d.executor.Actions())
	return d
}

// isMine reports whether this driver works on a host. The driver of the Ironic of the server's flags also has the hosts that are no
// Ironic's, to tell their users why.
func (c *driver) isMine(host *metal3.BareMetalHost) bool {
	owner, _ := c.ironics.OwnerOf(host)
	return owner == c.member.Name
}

// run works until ctx ends, and returns when everything it started has ended.
func (c *driver) run(ctx context.Context) {
	defer c.planner.register(c.queue)()
	var running sync.WaitGroup
	defer running.Wait()
	defer c.workers.Wait()
	running.Go(func() { c.poller.run(ctx) })
	for range max(c.settings.Workers, 1) {
		c.startWorker(ctx)
	}
	<-ctx.Done()
	c.queue.ShutDown() // wakes the workers up
}
