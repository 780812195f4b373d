// Package drive is the leader's work: it makes Ironic follow the specs of hosts, and
// makes changes in Ironic visible to those who watch hosts.
package drive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/drive/capacity"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/drive/events"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
)

// Ironic is all of Ironic that the controller uses.
type Ironic interface {
	live.Nodes
	Supports(ctx context.Context, minor int) (bool, error)
	GetRegistration(ctx context.Context, uuid string) (*ironic.Registration, error)
	Validate(ctx context.Context, uuid string, interfaces ...string) ([]string, error)
	CreateNode(ctx context.Context, create ironic.NodeCreate) (*ironic.Node, error)
	UpdateNode(ctx context.Context, idOrName string, patches []ironic.Patch) (*ironic.Node, error)
	DeleteNode(ctx context.Context, idOrName string) error
	SetMaintenance(ctx context.Context, idOrName, reason string) error
	ClearMaintenance(ctx context.Context, idOrName string) error
	SwitchPower(ctx context.Context, idOrName string, target ironic.PowerTarget) (used ironic.PowerTarget, softRefusal string, err error)
	SetProvisionState(ctx context.Context, idOrName string, target ironic.ProvisionTarget, options ironic.ProvisionOptions) error
	SetTargetRAID(ctx context.Context, idOrName string, disks []ironic.LogicalDisk) error
	ListPorts(ctx context.Context, filter ironic.PortFilter) ([]ironic.Port, error)
	CreatePort(ctx context.Context, nodeUUID, mac string, pxeEnabled bool) (*ironic.Port, error)
}

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
	// maxRetrying bounds the tries to reach BMCs that were silent before. Each keeps a
	// worker of Ironic's busy until the BMC's time-out, a minute or more, and these are
	// half of the workers that Ironic 21.4 has ([conductor]workers_pool_size, 100).
	maxRetrying = 50
	// retryLimit is when a try counts no more, longer than any BMC's time-out: Ironic
	// 21.4 waits for ever for a Redfish BMC that takes a connection and says nothing.
	retryLimit = 6 * time.Minute
	// retriesPerSecond bounds how fast such tries follow each other where they fail at
	// once: a single process of Ironic verifies some 37 BMCs per second and does
	// nothing else then.
	retriesPerSecond = 10
)

// The indexes of the informer.
const (
	byNodeUUID = "nodeUUID"
	bySecret   = "secret"
	byUID      = "uid"
	// byBMC has the hosts by their BMC; see bmcIndex.
	byBMC = "bmc"
	// byBusy and byWorker have the hosts that a gate counts, by namespace.
	byBusy   = "busy"
	byWorker = "worker"
)

// Controller makes Ironic follow the specs of hosts. Run it on one replica at a time; a
// second one would do no harm, but all work twice.
type Controller struct {
	hosts     live.Hosts
	ironic    Ironic
	refresher *live.Refresher
	secrets   *secrets.Secrets
	hardware  HardwareStore
	firmware  *firmwareWatch
	policies  *policyWatch
	events    EventSink
	leading   func() bool
	images    DataImages
	// hostImages is nil if all hosts boot the images of the settings.
	hostImages HostImages
	settings   Settings
	// settingsDigest tells the settings apart that nodes are registered with.
	settingsDigest string
	gate           *capacity.Gate
	poller         *poller

	informer cache.SharedIndexInformer
	queue    workqueue.TypedRateLimitingInterface[types.NamespacedName]
	waiting  *hostQueue // the storage of queue
	// retries bounds the tries of BMCs that were silent before; those that have waited
	// longest begin first.
	retries *capacity.Gate

	// restoredFrom says that etcd was restored from a backup, until somebody lets the
	// server go on; see SetRestored.
	restoredFrom atomic.Pointer[string]

	mu       sync.Mutex
	backoffs map[types.NamespacedName]*backoff
}

// EventSink takes what is to be told about hosts, and about other objects, as Kubernetes events. It
// does not block.
type EventSink interface {
	Record(host *metal3.BareMetalHost, event events.Event)
	RecordObject(regarding *corev1.ObjectReference, event events.Event)
}

// Parts are what a Controller works with.
type Parts struct {
	Hosts      live.Hosts
	Ironic     Ironic
	Refresher  *live.Refresher
	Secrets    *secrets.Secrets
	Hardware   HardwareStore
	Firmware   FirmwareKeeper
	Components ComponentKeeper
	Policies   PolicyStore
	Events     EventSink
	// Leading tells whether no other replica can lead at this moment. Nil means that there
	// is no other one.
	Leading func() bool
	// DataImages can be nil.
	DataImages DataImages
	// HostImages can be nil.
	HostImages HostImages
}

// NewController returns a Controller.
func NewController(parts Parts, settings Settings) *Controller {
	registerMetrics()
	hosts := parts.Hosts
	waiting := &hostQueue{}
	c := &Controller{
		hosts: hosts, ironic: parts.Ironic, refresher: parts.Refresher, secrets: parts.Secrets,
		hardware: parts.Hardware, events: parts.Events, leading: parts.Leading, images: parts.DataImages, hostImages: parts.HostImages, settings: settings, settingsDigest: settings.digest(),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](200*time.Millisecond, 30*time.Second),
			workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{
				DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[types.NamespacedName]{
					Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[types.NamespacedName]{Name: "baremetalhosts", Queue: waiting}),
					Name:  "baremetalhosts",
				}),
			}),
		waiting:  waiting,
		backoffs: map[types.NamespacedName]*backoff{},
	}
	c.informer = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return hosts.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return hosts.Watch(ctx, options)
		},
	}, &metal3.BareMetalHost{}, 0, cache.Indexers{
		byNodeUUID: func(obj any) ([]string, error) {
			return []string{obj.(*metal3.BareMetalHost).Status.Provisioning.ID}, nil
		},
		bySecret: func(obj any) ([]string, error) {
			host := obj.(*metal3.BareMetalHost)
			names := append(secrets.DataSecretsOf(host), host.Spec.BMC.CredentialsName)
			for i := range names {
				names[i] = host.Namespace + "/" + names[i]
			}
			return names, nil
		},
		byUID:    func(obj any) ([]string, error) { return []string{string(obj.(*metal3.BareMetalHost).UID)}, nil },
		byBMC:    bmcIndex,
		byBusy:   namespaceIf(func(host *metal3.BareMetalHost) bool { return settings.manages(host) && isBusy(host) }),
		byWorker: namespaceIf(func(host *metal3.BareMetalHost) bool { return settings.manages(host) && hasWorker(host) }),
	})
	c.firmware = newFirmwareWatch(parts.Firmware, parts.Components, parts.Events, func(key types.NamespacedName) { c.queue.Add(key) })
	c.policies = newPolicyWatch(parts.Policies, func(key types.NamespacedName) { c.queue.Add(key) })
	c.gate = capacity.New(settings.ProvisioningLimit, c.busy)
	c.retries = capacity.NewPaced(maxRetrying, retriesPerSecond, c.retrying)
	c.poller = newPoller(c, settings.PollInterval)
	return c
}

// Run works until ctx ends, and returns when everything it started has ended.
func (c *Controller) Run(ctx context.Context) error {
	log := klog.FromContext(ctx).WithName("ironicsync")
	ctx = klog.NewContext(ctx, log)
	defer c.queue.ShutDown()
	_, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.enqueue,
		UpdateFunc: c.changed,
		DeleteFunc: c.forget,
	})
	if err != nil {
		return err
	}
	if err := c.secrets.Notify(c.secretChanged); err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	start := func(f func()) {
		running.Add(1)
		go func() { defer running.Done(); f() }()
	}
	start(func() { c.informer.RunWithContext(ctx) })
	start(func() { c.secrets.Run(ctx) })
	start(func() { c.firmware.run(ctx) })
	start(func() { c.policies.informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), c.informer.HasSynced, c.firmware.informer.HasSynced, c.firmware.components.informer.HasSynced, c.policies.informer.HasSynced) || !c.secrets.WaitForSync(ctx) {
		return ctx.Err()
	}
	log.Info("Driving Ironic from the specs", "hosts", len(c.informer.GetStore().ListKeys()))
	start(func() { c.poller.run(ctx) })
	for range max(c.settings.Workers, 1) {
		start(func() {
			for c.work(ctx) {
			}
		})
	}
	<-ctx.Done()
	c.queue.ShutDown() // wakes the workers up
	return nil
}

func (c *Controller) enqueue(obj any) {
	if host, ok := obj.(*metal3.BareMetalHost); ok {
		c.queue.Add(types.NamespacedName{Namespace: host.Namespace, Name: host.Name})
	}
}

// changed sends the events that follow from a change of a host, has the host planned
// anew, and wakes those that waited for it to finish.
func (c *Controller) changed(previous, current any) {
	before, _ := previous.(*metal3.BareMetalHost)
	host, ok := current.(*metal3.BareMetalHost)
	if !ok {
		return
	}
	for _, event := range events.Changes(before, host) {
		c.events.Record(host, event)
		if event.Failure {
			hostErrors.WithLabelValues(event.Reason).Inc()
		}
	}
	measure(before, host, time.Now())
	c.enqueue(host)
	if before.Spec.BMC.Address != host.Spec.BMC.Address {
		c.planSharers(before)
	}
	for gate, isIn := range map[*capacity.Gate]func(*metal3.BareMetalHost) bool{c.gate: isBusy, c.retries: isRetrying} {
		switch {
		case isIn(host) && !isIn(before):
			gate.Seen(host.Namespace, host.Name)
			c.wake(gate) // until now it was counted as started, too
		case isIn(before) && !isIn(host):
			c.wake(gate)
		}
	}
}

func (c *Controller) forget(obj any) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return
	}
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	if host, ok := obj.(*metal3.BareMetalHost); ok {
		c.planSharers(host)
	}
	for _, gate := range []*capacity.Gate{c.gate, c.retries} {
		gate.Forget(namespace, name)
		c.wake(gate)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.backoffs, types.NamespacedName{Namespace: namespace, Name: name})
}

func (c *Controller) secretChanged(namespace, name string) {
	hosts, err := c.informer.GetIndexer().ByIndex(bySecret, namespace+"/"+name)
	if err != nil {
		return // there is such an index
	}
	for _, host := range hosts {
		c.enqueue(host)
	}
}

// planAllAgain has every host planned anew now that Ironic is back. A BMC that was silent
// before may be back, too: it was not tried in the meantime.
func (c *Controller) planAllAgain() {
	c.mu.Lock()
	for _, b := range c.backoffs {
		b.ironicIsBack()
	}
	c.mu.Unlock()
	for _, host := range c.informer.GetStore().List() {
		c.enqueue(host)
	}
}

func (c *Controller) work(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)
	log := klog.FromContext(ctx).WithValues("host", key)
	stepCtx, cancel := context.WithTimeout(klog.NewContext(ctx, log), stepTimeout)
	defer cancel()
	began := time.Now()
	after, err := c.advance(stepCtx, key)
	switch {
	case ctx.Err() != nil:
		return false
	case err == nil:
		c.queue.Forget(key)
		c.backoffOf(key, func(b *backoff) { b.failingSince = time.Time{} })
	case apierrors.IsConflict(err):
		c.queue.Add(key) // somebody wrote meanwhile: plan again
		return true
	case errors.Is(err, errLookedTooLongAgo), errors.Is(err, errNotLeading):
		log.Info("The step is planned anew", "err", err)
		after = jittered(time.Second)
	case ironic.IsLocked(err), errors.Is(err, errDriveNotReady):
		log.V(2).Info("Ironic has the node locked, trying again", "err", err)
		after = jittered(2 * time.Second)
	default:
		log.Error(err, "Step failed, trying again")
		c.queue.AddRateLimited(key)
		c.tellFailing(klog.NewContext(ctx, log), key, began, err)
		return true
	}
	if after > 0 {
		c.queue.AddAfter(key, after)
	}
	return true
}

// advance takes steps for a host until there is something to wait for, and returns after
// what time to plan it again; 0 is when something changes.
//
// It plans twice: first with what is recorded, which costs no request and in a quiet
// cluster is enough; then, if there is something to do, with what etcd and Ironic say now.
func (c *Controller) advance(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	obj, exists, err := c.informer.GetStore().GetByKey(key.String())
	if err != nil || !exists {
		return 0, err
	}
	recorded := obj.(*metal3.BareMetalHost)
	if !c.settings.manages(recorded) {
		return 0, c.reportNotManaged(ctx, recorded)
	}
	if err := c.refreshSecrets(ctx, recorded); err != nil {
		return 0, &stepError{err: err}
	}
	hasHardware, err := c.hasHardwareData(ctx, recorded)
	if err != nil {
		return 0, &stepError{err: err}
	}
	bios, err := c.settingsOf(ctx, recorded)
	if err != nil {
		return 0, &stepError{err: err}
	}
	situation, retryNow := c.situation(recorded, lifecycle.RecordedNode(recorded), hasHardware, bios)
	step := lifecycle.Next(situation)
	if !c.mayTry(recorded, step, retryNow) {
		return 0, nil
	}
	mustObserve := !recorded.DeletionTimestamp.IsZero() || recorded.Status.OperationalStatus == metal3.OperationalStatusDelayed
	if step.Do == lifecycle.Wait && !mustObserve {
		c.firmware.refresh(ctx, recorded)
		return step.After, nil
	}
	var left time.Duration
	c.backoffOf(key, func(b *backoff) { left = b.untilShown(step) })
	if left > 0 {
		return left, nil
	}
	var host *metal3.BareMetalHost
	var node *ironic.Node
	looked := wallClock()
	if step.Do == lifecycle.Begin || step.Do == lifecycle.Report { // say what we know, also while Ironic is away
		host, err = c.hosts.Get(ctx, key.Namespace, key.Name)
		if err == nil {
			node = lifecycle.RecordedNode(host)
		}
	} else {
		host, node, err = c.look(ctx, key, !mustObserve)
	}
	if err != nil {
		return 0, live.IgnoreNotFound(err)
	}
	for range maxSteps {
		if bios, err = c.settingsOf(ctx, host); err != nil {
			return 0, &stepError{err: err}
		}
		situation, retryNow = c.situation(host, node, hasHardware, bios)
		step = lifecycle.Next(situation)
		switch {
		case !c.mayTry(host, step, retryNow):
			return 0, nil
		case step.Do == lifecycle.Wait:
			err := c.undelay(ctx, host, node)
			c.firmware.refresh(ctx, host)
			return step.After, err
		case situation.Hold > 0 && c.hasFailed(key, step):
			return situation.Hold, nil // whatever state of the node has it planned again
		case step.Limited && !isExempt(host) && !c.gate.TryStart(key.Namespace, key.Name):
			return 0, c.delay(ctx, host, node)
		}
		stillDecided := func() error { return c.stillDecided(step, looked) }
		if err := stillDecided(); err != nil {
			return 0, err
		}
		klog.FromContext(ctx).V(1).Info("Next step", "do", step.Do, "target", step.Target, "power", step.Power, "state", step.State, "reason", step.Reason)
		c.backoffOf(key, func(b *backoff) { b.begin(step) })
		c.refresher.DiscardObservations(host.UID)
		next, err := c.execute(ironic.WithPrecondition(ctx, stillDecided), host, node, step)
		steps.WithLabelValues(string(step.Do), stepResult(err)).Inc()
		if err != nil {
			c.refresher.DiscardObservations(host.UID) // a poll may have seen the node before the request
			return 0, live.IgnoreNotFound(stepErrorOf(step, err))
		}
		if !next.planAgain {
			break
		}
		host, node = next.host, next.node
	}
	return stepPause, nil
}

// maxLookAge is how long ago the node may have been looked at for a step that interrupts
// what a machine runs. It is counted in wall time: a machine that was suspended in between
// goes on as if no time had passed, and somebody else leads by then.
const maxLookAge = 20 * time.Second

var (
	errLookedTooLongAgo = errors.New("the node may have changed since it was looked at")
	errNotLeading       = errors.New("another replica may lead by now")
)

// stillDecided returns an error if a step must not be taken any more that was decided on
// when the node was looked at. It is asked once more before each request that changes
// something in Ironic: this process may have been suspended in between.
func (c *Controller) stillDecided(step lifecycle.Step, looked time.Time) error {
	if c.leading != nil && !c.leading() {
		return errNotLeading
	}
	if age := wallClock().Sub(looked); step.Interrupts() && (age > maxLookAge || age < 0) {
		return fmt.Errorf("%w (%s)", errLookedTooLongAgo, age)
	}
	return nil
}

// wallClock is the time without Go's monotonic reading, which stands still while the
// machine is suspended.
func wallClock() time.Time { return time.Now().Round(0) }

// SetRestored has nothing done to any machine as long as reason is not empty: etcd was
// restored from a backup, and what it says of hosts may be of another day.
func (c *Controller) SetRestored(reason string) {
	if was := c.restoredFrom.Swap(&reason); was == nil && reason == "" || was != nil && *was == reason {
		return
	}
	for _, host := range c.informer.GetStore().List() {
		c.enqueue(host)
	}
}

func (c *Controller) restored() string {
	if reason := c.restoredFrom.Load(); reason != nil {
		return *reason
	}
	return ""
}

// look returns a host and its node as Ironic has it now. What has just been observed, by the
// poll or after the previous step, serves as well, if recent allows that.
func (c *Controller) look(ctx context.Context, key types.NamespacedName, recent bool) (*metal3.BareMetalHost, *ironic.Node, error) {
	if recent {
		host, node, err := c.refresher.JustObserved(ctx, key.Namespace, key.Name)
		if host != nil || err != nil {
			return host, node, err
		}
	}
	return c.refresher.ObserveAndGet(ctx, key.Namespace, key.Name)
}

func jittered(d time.Duration) time.Duration {
	return d/2 + time.Duration(rand.Int64N(int64(d)))
}
