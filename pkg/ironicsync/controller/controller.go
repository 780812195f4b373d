// Package controller is what the small controllers of the kinds other than BareMetalHost share: an
// informer, a queue with a back-off, workers, metrics. Each kind has a package of its own that
// supplies the function to reconcile one object. They run on the leader only.
package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

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
)

const (
	// reconcileTimeout bounds one reconciliation, with all its requests.
	reconcileTimeout = time.Minute
	// workers is how many objects of a kind are reconciled at a time. Most of that time is spent on
	// waiting for a BMC, and Ironic has few connections for such requests.
	workers = 2
	// The back-off of an object whose reconciliation fails.
	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
	// lockedRetry is after how long, on average, a request is repeated that Ironic has refused because
	// it is working on the node.
	lockedRetry = 2 * time.Second
)

// Objects are the recorded objects of a kind.
type Objects interface {
	List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Reconcile does what an object asks for. It returns after which time the object is to be
// reconciled again; 0 means when something changes. After an error, it is called again after a
// back-off.
type Reconcile func(ctx context.Context, key types.NamespacedName) (after time.Duration, err error)

// Controller reconciles the objects of a kind.
type Controller struct {
	name      string
	reconcile Reconcile
	informer  cache.SharedIndexInformer
	queue     workqueue.TypedRateLimitingInterface[types.NamespacedName]
	// byNamespace is set if the objects of a namespace are reconciled together.
	byNamespace bool
	// withPaused is set if paused objects are reconciled, too.
	withPaused bool
	// handled tell whether the handlers of changes have been called for all objects that exist, and
	// before whether others are ready.
	handled, before []cache.InformerSynced
}

// New returns a Controller of objects like example. The name is the plural of the kind in lower
// case, and the label name of the queue's metrics.
func New(name string, objects Objects, example runtime.Object, indexers cache.Indexers, reconcile Reconcile) *Controller {
	registerMetrics()
	for _, result := range []string{succeeded, failed} {
		reconciliations.WithLabelValues(name, result) // there from the beginning with 0, for rate()
	}
	limiter := jitter{workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](minBackoff, maxBackoff)}
	return &Controller{
		name: name, reconcile: reconcile,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{Name: name}),
		informer: cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc:  objects.List,
			WatchFuncWithContext: objects.Watch,
		}, objects), example, 0, indexers),
	}
}

// ByNamespace has all objects of a namespace reconciled together: the name of each key is empty. It
// must be called before Run.
func (c *Controller) ByNamespace() { c.byNamespace = true }

// ReconcilePaused has paused objects reconciled like others. It must be called before Run.
func (c *Controller) ReconcilePaused() { c.withPaused = true }

// RunAfter has reconciliations begin when all of synced return true. It must be called before Run.
func (c *Controller) RunAfter(synced ...cache.InformerSynced) { c.before = append(c.before, synced...) }

// HasSynced tells whether all objects that existed when Run was called are in the cache, and were
// passed to the functions of OnChange.
func (c *Controller) HasSynced() bool {
	return c.informer.HasSynced() && !slices.ContainsFunc(c.handled, func(synced cache.InformerSynced) bool { return !synced() })
}

// Enqueue has an object reconciled. It need not exist.
func (c *Controller) Enqueue(namespace, name string) {
	if c.byNamespace {
		name = ""
	}
	c.queue.Add(types.NamespacedName{Namespace: namespace, Name: name})
}

// Cached returns the object as the informer has it, which must not be changed; nil if it does not
// exist.
func (c *Controller) Cached(key types.NamespacedName) runtime.Object {
	obj, exists, err := c.informer.GetStore().GetByKey(key.String())
	if err != nil || !exists {
		return nil
	}
	return obj.(runtime.Object)
}

// ByIndex returns the objects that an indexer has under a value. They must not be changed.
func (c *Controller) ByIndex(index, value string) []any {
	objects, err := c.informer.GetIndexer().ByIndex(index, value)
	if err != nil {
		return nil // there is no such index, which tests would show
	}
	return objects
}

// OnChange has changed called with each object that was created, changed or deleted, besides
// having it reconciled. old or obj is nil if the object did not exist. It must be called before Run, and
// changed must not block.
func (c *Controller) OnChange(changed func(old, obj any)) {
	// The informer refuses handlers only after it has stopped.
	handler, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { changed(nil, obj) },
		UpdateFunc: changed,
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			changed(obj, nil)
		},
	})
	if err == nil {
		c.handled = append(c.handled, handler.HasSynced)
	}
}

// Run reconciles objects until ctx ends, and returns when everything that it has started has ended.
func (c *Controller) Run(ctx context.Context) error {
	log := klog.FromContext(ctx).WithName(c.name)
	ctx = klog.NewContext(ctx, log)
	var running sync.WaitGroup
	defer running.Wait()
	defer c.queue.ShutDown() // wakes the workers up
	enqueue := func(obj any) {
		if key, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			c.Enqueue(key.Namespace, key.Name)
		}
	}
	_, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) }, DeleteFunc: enqueue,
	})
	if err != nil {
		return err
	}
	running.Go(func() { c.informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), append(c.before, c.HasSynced)...) {
		return ctx.Err()
	}
	for range workers {
		running.Go(func() {
			for c.work(ctx) {
			}
		})
	}
	<-ctx.Done()
	return nil
}

// work reconciles one object. It returns false if there will be no other.
func (c *Controller) work(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)
	if !c.withPaused && c.isPaused(key) {
		c.queue.Forget(key)
		return true // it is reconciled again when the annotation is removed
	}
	log := klog.FromContext(ctx).WithValues("object", key)
	limited, cancel := context.WithTimeout(klog.NewContext(ctx, log), reconcileTimeout)
	defer cancel()
	after, err := c.reconcile(limited, key)
	switch {
	case ctx.Err() != nil:
		return false
	case err == nil:
		reconciliations.WithLabelValues(c.name, succeeded).Inc()
		c.queue.Forget(key)
	case apierrors.IsConflict(err):
		c.queue.Add(key) // somebody has written the object in the meantime
	case IsNotLeading(err):
		log.Info("The request is not sent", "err", err)
		after = lockedRetry
	case ironic.IsLocked(err):
		log.V(2).Info("Ironic has locked the node, trying again", "err", err)
		after = lockedRetry/2 + rand.N(lockedRetry)
	default:
		reconciliations.WithLabelValues(c.name, failed).Inc()
		log.Error(err, "Reconciliation failed, trying again")
		c.queue.AddRateLimited(key)
	}
	if after > 0 {
		c.queue.AddAfter(key, after)
	}
	return true
}

// isPaused tells whether the object itself has the annotation that pauses hosts.
func (c *Controller) isPaused(key types.NamespacedName) bool {
	obj, ok := c.Cached(key).(metav1.Object)
	return ok && IsPaused(obj)
}

// IsPaused tells whether an object has the annotation because of which nothing is done for it.
func IsPaused(obj metav1.Object) bool {
	_, paused := obj.GetAnnotations()[metal3.PausedAnnotation]
	return paused
}

// jitter spreads the delays of a rate limiter from 75 % to 125 %: objects that fail together, as
// when Ironic is away, must not be tried together again.
type jitter struct {
	workqueue.TypedRateLimiter[types.NamespacedName]
}

func (j jitter) When(key types.NamespacedName) time.Duration {
	delay := j.TypedRateLimiter.When(key)
	return delay*3/4 + rand.N(delay/2)
}

// errNotLeading says that a request to Ironic was not sent.
var errNotLeading = errors.New("another replica may lead by now")

// IsNotLeading tells whether a request to Ironic was not sent, because another replica may lead by now.
func IsNotLeading(err error) bool { return errors.Is(err, errNotLeading) }

// WhileLeading returns run with a context whose requests to Ironic change something only while leading
// returns true: a leader that was suspended must not send what it has decided before. leading is nil
// if there is only one replica.
func WhileLeading(leading func() bool, run func(context.Context) error) func(context.Context) error {
	if leading == nil {
		return run
	}
	return func(ctx context.Context) error {
		return run(ironic.WithPrecondition(ctx, func() error {
			if !leading() {
				return errNotLeading
			}
			return nil
		}))
	}
}

// RunAll runs controllers until ctx ends or one of them fails, and returns when all have ended.
func RunAll(ctx context.Context, controllers ...func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for _, run := range controllers {
		running.Go(func() {
			if err := run(ctx); err != nil {
				cancel(fmt.Errorf("controller: %w", err))
			}
		})
	}
	running.Wait()
	if cause := context.Cause(ctx); ctx.Err() != nil && cause != ctx.Err() {
		return cause
	}
	return nil
}
