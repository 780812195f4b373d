// Package reconcile is the leader's work: it makes Ironic follow the specs of hosts, and
// makes changes in Ironic visible to those who watch hosts.
package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/events"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/executor"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/firmware"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/hostindex"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/recorder"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/registrar"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
)

const (
	// stepTimeout bounds one step, all its requests to Ironic and the cluster.
	stepTimeout = 60 * time.Second
	// retryDelay is how long, and up to a quarter more, a BMC that did not answer is
	// left alone.
	// With the time that the try itself takes it stays under half a minute.
	retryDelay = 16 * time.Second
	// stepPause is when the next step is planned if the last one recorded nothing
	// new, and so caused no event.
	stepPause = time.Second
	// maxSteps bounds the steps taken for a host in a row; no sequence has as many.
	maxSteps = 10
)

// Ironic is all of Ironic that hosts are driven with, reads of nodes apart.
type Ironic interface {
	registrar.Ironic
	executor.Ironic
}

// Refresher observes nodes in Ironic, and records what has changed.
type Refresher interface {
	registrar.Nodes
	executor.Observer
	// DiscardObservations invalidates the observations of a host that have begun before now.
	DiscardObservations(host types.UID)
}

// EventSink takes what is to be told about hosts, and about other objects, as Kubernetes events. It
// does not block.
type EventSink interface {
	Record(host *metal3.BareMetalHost, event events.Event)
	RecordObject(regarding *corev1.ObjectReference, event events.Event)
}

// Deps are what a Reconciler works with.
type Deps struct {
	Hosts     live.Hosts
	Ironic    Ironic
	Refresher Refresher
	Secrets   *secrets.Secrets
	Hardware  executor.HardwareStore
	Firmware  firmware.Deps
	Events    EventSink
	// Queue has the hosts that are to be worked on; see NewQueue.
	Queue *Queue
	// Hold can keep all machines from being touched.
	Hold *Hold
	// Leading tells whether no other replica can lead at this moment. Nil means that there
	// is no other one.
	Leading func() bool
	// DataImages can be nil.
	DataImages executor.DataImages
	// HostImages can be nil.
	HostImages registrar.HostImages
	Clock      clock.WithTicker
}

// Reconciler makes Ironic follow the specs of hosts. Run it on one replica at a time; a
// second one would do no harm, but all work twice.
type Reconciler struct {
	hosts     live.Hosts
	refresher Refresher
	secrets   *secrets.Secrets
	index     *hostindex.Index
	queue     *Queue
	hold      *Hold
	term      ironic.Term
	settings  Settings
	clock     clock.WithTicker

	firmware *firmware.Watch
	inputs   *inputs
	recorder *recorder.Recorder
	executor *executor.Executor
	gates    *gates
	watcher  *watcher
	poller   *poller
}

// New returns a Reconciler.
func New(deps Deps, settings Settings) *Reconciler {
	index := newIndex(deps.Hosts, settings)
	queue := deps.Queue
	claims := registrar.NewClaims(index, deps.Refresher)
	statuses := recorder.New(deps.Hosts, deps.Clock)
	requeue := func(key types.NamespacedName) { queue.Add(key) }
	settingsWatch := firmware.NewWatch(deps.Firmware, deps.Ironic, deps.Events, requeue)
	registrations := registrar.New(registrar.Deps{
		Hosts: deps.Hosts, Ironic: deps.Ironic, Secrets: deps.Secrets, Recorder: statuses, Claims: claims, HostImages: deps.HostImages, Clock: deps.Clock,
	}, settings.registrar())
	c := &Reconciler{
		hosts: deps.Hosts, refresher: deps.Refresher, secrets: deps.Secrets, index: index, queue: queue, hold: deps.Hold, term: ironic.TermOf(deps.Leading), settings: settings, clock: deps.Clock,
		firmware: settingsWatch,
		recorder: statuses,
		executor: executor.New(executor.Deps{
			Ironic: deps.Ironic, Hosts: deps.Hosts, Observer: deps.Refresher, Recorder: statuses, Registrar: registrations, Claims: claims, Secrets: deps.Secrets,
			Hardware: deps.Hardware, DataImages: deps.DataImages, Policy: settingsWatch.PolicyFor, Images: settings.Images, Ramdisk: settings.Ramdisk, Clock: deps.Clock,
		}),
		gates: newGates(index, queue, settings.ProvisioningLimit, deps.Clock),
	}
	c.inputs = &inputs{
		secrets: deps.Secrets, hardware: deps.Hardware, firmware: settingsWatch, images: registrations, claims: claims,
		queue: queue, hold: deps.Hold, settings: settings, settingsDigest: registrar.Digest(settings.Ramdisk), clock: deps.Clock,
	}
	c.watcher = &watcher{queue, index, claims, c.gates, deps.Events, deps.Clock}
	c.poller = &poller{
		nodes: deps.Refresher, hosts: deps.Hosts, index: index, gates: c.gates, queue: queue, watcher: c.watcher,
		interval: settings.PollInterval, clock: deps.Clock, stepped: make(chan struct{}, 1),
	}
	registerMetrics()
	countSteps(c.executor.Actions())
	return c
}

// OnHostChange calls changed with the versions of a host before and after each change; the first is nil
// when the host appears, and the second when it is gone. It must be called before Run, and changed must
// not block. hasSynced tells whether changed was called for all hosts that existed when Run was called.
func (c *Reconciler) OnHostChange(changed func(old, host *metal3.BareMetalHost)) (hasSynced func() bool, err error) {
	return c.index.OnChange(changed)
}

// syncTimeout is how long the first lists of hosts, Secrets and settings may take: many times as long as they do with
// 100,000 hosts.
const syncTimeout = time.Minute

// waitForSync waits for the first lists. If they cannot be had, another replica may do better.
func (c *Reconciler) waitForSync(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if cache.WaitForCacheSync(waiting.Done(), c.index.HasSynced, c.firmware.HasSynced) && c.secrets.WaitForSync(waiting) || ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("the hosts, their settings and the Secrets could not all be listed within %s (the log has the reasons)", syncTimeout)
}

// Run works until ctx ends, and returns when everything it started has ended. An error means that it has not begun.
func (c *Reconciler) Run(ctx context.Context) error {
	log := klog.FromContext(ctx).WithName("ironicsync")
	ctx = klog.NewContext(ctx, log)
	defer c.queue.ShutDown()
	if _, err := c.index.OnChange(c.watcher.hostChanged); err != nil {
		return err
	}
	if err := c.secrets.Notify(c.watcher.secretChanged); err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for _, run := range []func(context.Context){c.index.Run, c.secrets.Run, c.firmware.Run} {
		running.Go(func() { run(ctx) })
	}
	if err := c.waitForSync(ctx); err != nil {
		return err
	}
	log.Info("Driving Ironic from the specs", "hosts", len(c.index.All()))
	running.Go(func() { c.poller.run(ctx) })
	running.Go(func() { c.hold.onChange(ctx, c.watcher.requeueAll) })
	for range max(c.settings.Workers, 1) {
		running.Go(func() {
			for c.work(ctx) {
			}
		})
	}
	<-ctx.Done()
	c.queue.ShutDown() // wakes the workers up
	return nil
}
