// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/limit"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/panics"
)

const (
	// reconcileTimeout bounds one reconciliation, with all its requests.
	reconcileTimeout = time.Minute
	// defaultPlaces is how many objects of an Ironic are reconciled at a time of a kind without Config.Places.
	defaultPlaces = 2
	// The back-off of an object whose reconciliation fails.
	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
	// lockedRetry is after how long, on average, a request is repeated that Ironic has refused because
	// it is working on the node.
	lockedRetry = 2 * time.Second
	// maxFencedBackoff limits the back-off of an object for which no request may be made: for a moment, or for days, as long as etcd
	// counts as restored. When that ends, it is to go on soon.
	maxFencedBackoff = 30 * time.Second
)

// Reconcile does what an object asks for. It returns after which time the object is to be
// reconciled again; 0 means when something changes. After an error, it is called again after a
// back-off.
type Reconcile func(ctx context.Context, key types.NamespacedName) (after time.Duration, err error)

// Config says which objects a Controller reconciles, and how.
type Config[T Object] struct {
	// Name is the plural of the kind in lower case, and the label name of the queue's metrics.
	Name string
	// Objects are those of the kind, and Example is an empty one.
	Objects Objects
	Example T
	// Indexers are those of ByIndex.
	Indexers cache.Indexers
	// Namespaces are those that are managed; none means all.
	Namespaces []string
	// ReconcilePaused is set if paused objects are reconciled, too.
	ReconcilePaused bool
	// IgnoreStatus is set if a change of the status alone reconciles nothing. It is for kinds whose status Reconcile writes before it
	// makes a request, and after each failure: there would be no back-off.
	IgnoreStatus bool
	// KeysOf returns what is to be reconciled after a change of an object. Nil means the object itself.
	KeysOf func(obj T) []types.NamespacedName
	// Changed is called with each object that was created, changed or deleted; old or obj is nil if the
	// object did not exist. It must not block, and can be nil.
	Changed func(old, obj T)
	// RunAfter has what must return true before the first object is reconciled.
	RunAfter []cache.InformerSynced
	// IronicOf returns the name of the Ironic that the reconciliation of an object asks. Each Ironic has places of its own, so that
	// one that does not answer delays only what asks it. It must not block: it is called for one object after the other. Nil if
	// Ironic is not asked.
	IronicOf func(ctx context.Context, key types.NamespacedName) string
	// Places is how many objects of an Ironic are reconciled at a time if they wait for something of a tenant's, such as a BMC or an
	// admission webhook. Each namespace has a share of them (see limit.Places). 0 is for objects that do not wait for that: two of an
	// Ironic, of any namespace.
	Places int
	// Reconcile reconciles one object.
	Reconcile Reconcile
}

// Controller reconciles the objects of a kind.
type Controller[T Object] struct {
	config   Config[T]
	informer cache.SharedIndexInformer
	queue    workqueue.TypedRateLimitingInterface[types.NamespacedName]
	limiter  jitter // of the queue
	// places are those of the objects that are being reconciled.
	places *limit.IronicPlaces
	// handled reports whether all objects that existed when Run was called were passed to Changed.
	handled cache.InformerSynced
}

// New returns a Controller.
func New[T Object](config Config[T]) *Controller[T] {
	registerMetrics()
	for _, result := range []string{succeeded, failed} {
		reconciliations.WithLabelValues(config.Name, result) // there from the beginning with 0, for rate()
	}
	limiter := jitter{workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](minBackoff, maxBackoff)}
	c := &Controller[T]{
		config: config, limiter: limiter,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{Name: config.Name}),
		informer: cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc:  config.Objects.List,
			WatchFuncWithContext: config.Objects.Watch,
		}, config.Objects), config.Example, 0, config.Indexers),
		handled: func() bool { return false },
	}
	if config.Places > 0 {
		c.places = limit.NewIronicPlaces(config.Places, 1, c.Enqueue)
	} else {
		c.places = limit.NewIronicPlaces(defaultPlaces, 0, c.Enqueue)
	}
	// The informer refuses handlers only after it has stopped.
	if handler, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.changed(nil, obj) },
		UpdateFunc: c.changed,
		DeleteFunc: func(obj any) { c.changed(obj, nil) },
	}); err == nil {
		c.handled = handler.HasSynced
	}
	return c
}

// changed handles a change of an object. old or obj is nil if it did not exist.
func (c *Controller[T]) changed(old, obj any) {
	if tombstone, ok := old.(cache.DeletedFinalStateUnknown); ok {
		old = tombstone.Obj
	}
	before, existed := old.(T)
	object, exists := obj.(T)
	if !existed && !exists {
		return // a tombstone without an object
	}
	if c.config.Changed != nil {
		c.tell(before, object)
	}
	if !exists {
		object = before
	}
	if c.config.IgnoreStatus && existed && exists && isSameButStatus(before, object) {
		return
	}
	defer panics.Catch(context.Background(), nil, "controller", c.config.Name, "object", KeyOf(object))
	if c.config.KeysOf == nil {
		c.queue.Add(KeyOf(object))
		return
	}
	for _, key := range c.config.KeysOf(object) {
		c.queue.Add(key)
	}
}

// isSameButStatus reports whether two versions of an object differ in nothing but the status, which has no generation.
func isSameButStatus(a, b metav1.Object) bool {
	return a.GetUID() == b.GetUID() && a.GetGeneration() == b.GetGeneration() && a.GetDeletionTimestamp().Equal(b.GetDeletionTimestamp()) &&
		maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations()) &&
		slices.Equal(a.GetFinalizers(), b.GetFinalizers()) && equality.Semantic.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences())
}

// tell passes a change to Changed. If that panics, the object is reconciled all the same.
func (c *Controller[T]) tell(before, object T) {
	defer panics.Catch(context.Background(), nil, "controller", c.config.Name)
	c.config.Changed(before, object)
}

// HasSynced reports whether all objects that existed when Run was called are in the cache, and were
// passed to Changed.
func (c *Controller[T]) HasSynced() bool { return c.informer.HasSynced() && c.handled() }

// Enqueue requests the reconciliation of an object, which need not exist.
func (c *Controller[T]) Enqueue(namespace, name string) {
	c.queue.Add(types.NamespacedName{Namespace: namespace, Name: name})
}

// Manages reports whether the objects of a namespace are managed.
func (c *Controller[T]) Manages(namespace string) bool {
	return len(c.config.Namespaces) == 0 || slices.Contains(c.config.Namespaces, namespace)
}

// Cached returns the object as the informer has it, which must not be changed; nil if it does not
// exist.
func (c *Controller[T]) Cached(key types.NamespacedName) (object T, exists bool) {
	obj, exists, err := c.informer.GetStore().GetByKey(key.String())
	if err != nil || !exists {
		return object, false
	}
	object, exists = obj.(T)
	return object, exists
}

// ByIndex returns the objects that an indexer has under a value. They must not be changed.
func (c *Controller[T]) ByIndex(index, value string) []T {
	found, err := c.informer.GetIndexer().ByIndex(index, value)
	if err != nil {
		return nil // there is no such index, which tests would show
	}
	objects := make([]T, len(found))
	for i := range found {
		objects[i] = found[i].(T)
	}
	return objects
}

// EnqueueByIndex requests the reconciliation of the objects that an indexer has under a value.
func (c *Controller[T]) EnqueueByIndex(index, value string) {
	for _, obj := range c.ByIndex(index, value) {
		c.Enqueue(obj.GetNamespace(), obj.GetName())
	}
}

// Run reconciles objects until ctx ends, and returns when everything that it has started has ended.
func (c *Controller[T]) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithName(c.config.Name))
	var running sync.WaitGroup
	defer running.Wait()
	defer c.queue.ShutDown() // wakes dispatch up
	running.Go(func() { c.informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), append(slices.Clone(c.config.RunAfter), c.HasSynced)...) {
		return ctx.Err()
	}
	running.Go(func() {
		for c.dispatch(ctx, &running) {
		}
	})
	<-ctx.Done()
	return nil
}

// dispatch has one object reconciled, if it has a place. It does not wait for that, and returns false if there will be no other
// object.
func (c *Controller[T]) dispatch(ctx context.Context, running *sync.WaitGroup) bool {
	key, shutdown := c.queue.Get()
	if shutdown || ctx.Err() != nil {
		return false
	}
	asked, admitted := c.admit(ctx, key)
	if !admitted {
		c.queue.Done(key)
		return true
	}
	running.Go(func() {
		defer c.queue.Done(key)
		defer c.places.Leave(asked, key.Namespace)
		c.work(ctx, key)
	})
	return true
}

// admit takes a place for the reconciliation of an object, of those of the Ironic that it asks, whose name it returns. It returns
// false if the object is not to be reconciled now; it is requeued when it is.
func (c *Controller[T]) admit(ctx context.Context, key types.NamespacedName) (asked string, admitted bool) {
	if !c.Manages(key.Namespace) || !c.config.ReconcilePaused && c.isPaused(key) {
		c.queue.Forget(key)
		c.places.Forget(key.Namespace, key.Name)
		return "", false // a paused object is reconciled again when the annotation is removed
	}
	if c.config.IronicOf != nil {
		asked = c.config.IronicOf(ctx, key)
	}
	return asked, c.places.TryEnter(asked, key.Namespace, key.Name)
}

// work reconciles one object.
func (c *Controller[T]) work(ctx context.Context, key types.NamespacedName) {
	log := klog.FromContext(ctx).WithValues("object", key)
	limited, cancel := context.WithTimeout(ironic.WithTenant(klog.NewContext(ctx, log), key.Namespace), reconcileTimeout)
	defer cancel()
	after, err := c.reconcileOrPanic(limited, key)
	c.requeue(ctx, key, after, err)
}

// requeue requeues an object as the outcome of its reconciliation asks for.
func (c *Controller[T]) requeue(ctx context.Context, key types.NamespacedName, after time.Duration, err error) {
	log := klog.FromContext(ctx).WithValues("object", key)
	var silent *SilentError
	switch {
	case ctx.Err() != nil:
		return
	case err == nil:
		reconciliations.WithLabelValues(c.config.Name, succeeded).Inc()
		c.queue.Forget(key)
	case apierrors.IsConflict(err):
		c.queue.Add(key) // somebody has written the object in the meantime
	case errors.Is(err, ironic.ErrNotLeading):
		log.Info("The request is not sent", "err", err)
		after = min(c.limiter.When(key), maxFencedBackoff)
	case errors.As(err, &silent):
		log.V(2).Info("What has not answered is left alone", "for", silent.Left)
		after = silent.Left
	case ironic.IsLocked(err):
		log.V(2).Info("Ironic has locked the node, trying again", "err", err)
		after = lockedRetry/2 + rand.N(lockedRetry)
	default:
		reconciliations.WithLabelValues(c.config.Name, failed).Inc()
		log.Error(err, "Reconciliation failed, trying again")
		c.queue.AddRateLimited(key)
	}
	if after > 0 {
		c.queue.AddAfter(key, after)
	}
}

// reconcileOrPanic reconciles an object. A panic is an error of that object, and leaves the others and the process alone.
func (c *Controller[T]) reconcileOrPanic(ctx context.Context, key types.NamespacedName) (after time.Duration, err error) {
	defer panics.Catch(ctx, func(bug error) { err = bug })
	return c.config.Reconcile(ctx, key)
}

// isPaused reports whether the object itself has the annotation that pauses hosts.
func (c *Controller[T]) isPaused(key types.NamespacedName) bool {
	if c.config.KeysOf != nil {
		return false // it is the key of something else
	}
	obj, exists := c.Cached(key)
	return exists && metal3.IsPaused(obj)
}

// jitter spreads the delays of a rate limiter from 75 % to 125 %: objects that fail together, as
// when Ironic is away, must not be tried together again.
type jitter struct {
	workqueue.TypedRateLimiter[types.NamespacedName]
}

func (j jitter) When(key types.NamespacedName) time.Duration {
	return wait.Jitter(j.TypedRateLimiter.When(key)*3/4, 2.0/3)
}

// RunAll runs controllers until ctx ends or one of them fails, and returns when all have ended.
func RunAll(ctx context.Context, controllers ...func(context.Context) error) error {
	running, ctx := errgroup.WithContext(ctx)
	for _, run := range controllers {
		running.Go(func() error {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("controller: %w", err)
			}
			return nil // what fails after another one has failed, or when ctx ends, is a consequence of that
		})
	}
	return running.Wait()
}
