// SPDX-License-Identifier: Apache-2.0

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
	"github.com/metal3-io/metal3-apiserver/pkg/bmo"
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
	// notTakenPause is when, at the latest, another Ironic is asked again whether it can take a host that is to be
	// moved to it.
	notTakenPause = 20 * time.Second
	// maxSteps bounds the steps taken for a host in a row; no sequence has as many.
	maxSteps = 10
)

// Ironic is all of Ironic that hosts are driven with, reads of nodes apart.
type Ironic interface {
	registrar.Ironic
	registrar.Destination
	executor.Ironic
}

// Refresher observes nodes in Ironic, and records what has changed.
type Refresher interface {
	registrar.Nodes
	executor.Observer
	allNodes
	// LastObserved returns when the latest complete observation of all nodes began.
	LastObserved() time.Time
	// Guard returns a context for requests about a host, in whose errors there is no password of its BMC.
	Guard(ctx context.Context, host *metal3.BareMetalHost) context.Context
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
	Hosts    live.Hosts
	Ironics  Ironics
	Secrets  *secrets.Secrets
	Hardware HardwareStore
	Firmware firmware.Deps
	Events   EventSink
	// Planner has hosts planned again on behalf of others.
	Planner *Planner
	// Hold can keep all machines from being touched.
	Hold *Hold
	// Operator looks for signs of the Bare Metal Operator in hosts.
	Operator *bmo.Watch
	// Leading reports whether no other replica can lead at this moment. Nil means that there
	// is no other one.
	Leading func() bool
	// MayAct reports whether machines may be touched at this moment, which is not so as soon as something holds all of them. Nil means
	// whenever Leading does.
	MayAct func() bool
	// RestoredAt returns the count in etcd at its last restore from a backup; 0 if there was none.
	RestoredAt func() int64
	// Confirm returns an error if etcd may have been restored, so that a step may have been decided on by what was recorded long ago. It is
	// called before each step that MustBeConfirmed. Nil means that etcd cannot be restored.
	Confirm func(context.Context) error
	// DataImages can be nil.
	DataImages executor.DataImages
	// HostImages can be nil.
	HostImages registrar.HostImages
	Clock      clock.WithTicker
}

// Reconciler makes Ironics follow the specs of hosts. Run it on one replica at a time; a
// second one would do no harm, but all work twice.
//
// What all Ironics share is here; a driver has what is done with one of them.
type Reconciler struct {
	deps     Deps
	settings Settings
	clock    clock.WithTicker
	index    *hostindex.Index
	firmware *firmware.Watch
	hardware *givenHardware
	recorder *recorder.Recorder
	began    time.Time // set by Run

	mu sync.Mutex
	// drivers are those that run, by the names of their Ironics.
	drivers map[string]*driver
}

// New returns a Reconciler.
func New(deps Deps, settings Settings) *Reconciler {
	registerMetrics()
	return &Reconciler{
		deps: deps, settings: settings, clock: deps.Clock,
		index:    newIndex(deps.Hosts, settings),
		firmware: firmware.NewWatch(deps.Firmware, deps.Events, deps.Planner.add),
		hardware: newGivenHardware(deps.Hardware, deps.Hosts, deps.Planner.add),
		recorder: recorder.New(deps.Hosts, deps.Clock),
		drivers:  map[string]*driver{},
	}
}

// OnHostChange calls changed with the versions of a host before and after each change; the first is nil
// when the host appears, and the second when it is gone. It must be called before Run, and changed must
// not block. hasSynced reports whether changed was called for all hosts that existed when Run was called.
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
	if cache.WaitForCacheSync(waiting.Done(), c.index.HasSynced, c.firmware.HasSynced, c.hardware.informer.HasSynced, c.deps.Ironics.HasSynced) && c.deps.Secrets.WaitForSync(waiting) || ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("the hosts, their settings, the Secrets and the IronicInstances could not all be listed within %s (the log has the reasons)", syncTimeout)
}

// Run works until ctx ends, and returns when everything it started has ended. An error means that it has not begun.
func (c *Reconciler) Run(ctx context.Context) error {
	log := klog.FromContext(ctx).WithName("ironicsync")
	ctx = klog.NewContext(ctx, log)
	if _, err := c.index.OnChange(c.hostChanged); err != nil {
		return err
	}
	if err := c.deps.Secrets.Notify(c.secretChanged); err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for _, run := range []func(context.Context){c.index.Run, c.deps.Secrets.Run, c.firmware.Run, c.hardware.run} {
		running.Go(func() { run(ctx) })
	}
	if err := c.waitForSync(ctx); err != nil {
		return err
	}
	c.deps.Operator.Recall(c.index.All())
	log.Info("Driving Ironic from the specs", "hosts", len(c.index.All()))
	running.Go(func() { c.deps.Hold.onChange(ctx, c.requeueAll) })
	c.began = c.clock.Now()
	c.runDrivers(ctx)
	return nil
}
