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
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]
	// namespaces is nil if no right depends on a namespace.
	namespaces cache.SharedIndexInformer
}

// Secrets that cannot be let go are tried again after a time between these.
const letGoDelay, letGoMaxDelay = 200 * time.Millisecond, 30 * time.Second

func newLetGo() letGo {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](letGoDelay, letGoMaxDelay)
	return letGo{queue: workqueue.NewTypedRateLimitingQueue(limiter)}
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
			s.letGoAllIn(m.Name)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, obj any) { changed(obj) }}); err != nil {
		return err
	}
	return s.Notify(s.letGoIfDue)
}

// isLettingGo reports whether a namespace is being deleted, and with it the rights to its Secrets.
func (s *Secrets) isLettingGo(namespace string) bool {
	if s.letGo.namespaces == nil {
		return false
	}
	obj, exists, err := s.letGo.namespaces.GetStore().GetByKey(namespace)
	return err == nil && exists && !obj.(*metav1.PartialObjectMetadata).DeletionTimestamp.IsZero()
}

// isGone reports whether a namespace, and with it the rights to its Secrets, is not there any more.
func (s *Secrets) isGone(namespace string) bool {
	if s.letGo.namespaces == nil || !s.letGo.namespaces.HasSynced() {
		return false
	}
	_, exists, err := s.letGo.namespaces.GetStore().GetByKey(namespace)
	return err == nil && !exists
}

func (s *Secrets) letGoAllIn(namespace string) {
	informer, watched := s.informers[namespace]
	if !watched || !s.isLettingGo(namespace) {
		return
	}
	for _, obj := range informer.GetStore().List() {
		s.letGoIfDue(namespace, obj.(*metav1.PartialObjectMetadata).Name)
	}
}

func (s *Secrets) letGoIfDue(namespace, name string) {
	if s.isLettingGo(namespace) && s.isHeld(namespace, name) {
		s.letGo.queue.Add(types.NamespacedName{Namespace: namespace, Name: name})
	}
}

// runLetGo works until the queue is shut down.
func (s *Secrets) runLetGo(ctx context.Context) {
	for {
		key, shutdown := s.letGo.queue.Get()
		if shutdown {
			return
		}
		s.letGoOf(ctx, key)
		s.letGo.queue.Done(key)
	}
}

func (s *Secrets) letGoOf(ctx context.Context, key types.NamespacedName) {
	if !s.isHeld(key.Namespace, key.Name) {
		s.letGo.queue.Forget(key)
		return
	}
	defer s.lock(key.String())()
	switch err := s.removeFinalizer(ctx, key.Namespace, key.Name); {
	case ctx.Err() != nil:
	case err == nil:
		s.letGo.queue.Forget(key)
	default:
		if s.letGo.queue.NumRequeues(key) == 0 {
			klog.FromContext(ctx).Error(err, "A Secret of a namespace that is being deleted cannot be released, and keeps the namespace", "secret", key)
		}
		s.letGo.queue.AddRateLimited(key)
	}
}
