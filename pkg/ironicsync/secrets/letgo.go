// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// A server that manages certain namespaces has its rights to Secrets from a RoleBinding in each of them. The namespace
// controller deletes the contents of a namespace in any order, and that RoleBinding can go before the Secrets, after which
// their finalizers could not be removed any more: nothing can be created in such a namespace. But the controller begins only
// five seconds after the namespace was deleted. So the Secrets of such a namespace are let go as soon as that is seen, and
// not when their hosts are gone. Ironic has the credentials by then, and what is undeployed or cleaned goes on with these.
//
// If the server was not there in these seconds, it tries again, in case somebody gives it the right by a ClusterRoleBinding.

// letGo has the Secrets that are let go because of their namespaces.
type letGo struct {
	*access
	*watcher
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]
	// namespaces is nil if no right depends on a namespace.
	namespaces cache.SharedIndexInformer
}

// Secrets that cannot be let go are tried again after a time between these.
const letGoDelay, letGoMaxDelay = 200 * time.Millisecond, 30 * time.Second

func newLetGo(a *access, w *watcher) *letGo {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](letGoDelay, letGoMaxDelay)
	return &letGo{access: a, watcher: w, queue: workqueue.NewTypedRateLimitingQueue(limiter)}
}

// WatchNamespaces has Secrets be let go when their namespaces are deleted, if the rights to them may go with the namespaces:
// if only certain ones are managed. It must be called before Run. The caller runs the informer.
func (s *Secrets) WatchNamespaces(informer cache.SharedIndexInformer) error {
	if _, all := s.informers[metav1.NamespaceAll]; all {
		return nil
	}
	s.letGo.namespaces = informer
	changed := func(obj any) {
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			s.letGo.allIn(m.Name)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, obj any) { changed(obj) }}); err != nil {
		return err
	}
	return s.Notify(s.letGo.ifDue)
}

// isGoing reports whether a namespace is being deleted, and with it the rights to its Secrets.
func (l *letGo) isGoing(namespace string) bool {
	if l.namespaces == nil {
		return false
	}
	obj, exists, err := l.namespaces.GetStore().GetByKey(namespace)
	return err == nil && exists && !obj.(*metav1.PartialObjectMetadata).DeletionTimestamp.IsZero()
}

// isGone reports whether a namespace, and with it the rights to its Secrets, is not there any more.
func (l *letGo) isGone(namespace string) bool {
	if l.namespaces == nil || !l.namespaces.HasSynced() {
		return false
	}
	_, exists, err := l.namespaces.GetStore().GetByKey(namespace)
	return err == nil && !exists
}

func (l *letGo) allIn(namespace string) {
	informer, watched := l.informers[namespace]
	if !watched || !l.isGoing(namespace) {
		return
	}
	for _, obj := range informer.GetStore().List() {
		l.ifDue(namespace, obj.(*metav1.PartialObjectMetadata).Name)
	}
}

func (l *letGo) ifDue(namespace, name string) {
	if l.isGoing(namespace) && l.isHeld(namespace, name) {
		l.queue.Add(types.NamespacedName{Namespace: namespace, Name: name})
	}
}

// run works until the queue is shut down.
func (l *letGo) run(ctx context.Context) {
	for {
		key, shutdown := l.queue.Get()
		if shutdown {
			return
		}
		l.release(ctx, key)
		l.queue.Done(key)
	}
}

func (l *letGo) release(ctx context.Context, key types.NamespacedName) {
	if !l.isHeld(key.Namespace, key.Name) {
		l.queue.Forget(key)
		return
	}
	defer l.lock(key.String())()
	switch err := l.removeFinalizer(ctx, key.Namespace, key.Name); {
	case ctx.Err() != nil:
	case err == nil:
		l.queue.Forget(key)
	default:
		if l.queue.NumRequeues(key) == 0 {
			klog.FromContext(ctx).Error(err, "A Secret of a namespace that is being deleted cannot be released, and keeps the namespace", "secret", key)
		}
		l.queue.AddRateLimited(key)
	}
}
