// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/ironic"
)

// Store gives access to the objects that metal3-apiserver keeps in etcd. It bypasses the
// API, where a POST would give an object a new UID and remove its status.
type Store struct {
	scheme  *runtime.Scheme
	kinds   map[string]*Kind
	onClose func()
	// instances is the kind of IronicInstances, which no other operator has.
	instances *Kind
}

// NewStore returns the store of all kinds. The options must not put a watch cache in front
// of etcd, because reads could then miss this Store's own writes.
func NewStore(scheme *runtime.Scheme, options generic.RESTOptionsGetter) (*Store, error) {
	kinds, err := kindsOf(scheme, options)
	if err != nil {
		return nil, err
	}
	instances, err := ironic.NewInstances(scheme, options, "")
	if err != nil {
		return nil, err
	}
	s := &Store{scheme: scheme, kinds: map[string]*Kind{}, onClose: func() {}}
	if s.instances, err = kindOf(scheme, "ironicinstances", true, instances.Store); err != nil {
		return nil, err
	}
	for _, kind := range append(kinds, s.instances) {
		s.kinds[kind.Resource] = kind
	}
	return s, nil
}

// OnClose sets a function that Close calls at its end, for example to stop an etcd.
func (s *Store) OnClose(then func()) { s.onClose = then }

// Close ends the connection to etcd.
func (s *Store) Close() {
	for _, kind := range s.kinds {
		kind.store.Destroy()
	}
	s.onClose()
}

// Objects are the objects of one kind.
type Objects map[types.NamespacedName]*Object

// List returns all objects of a kind. It fails if a later version of the server has recorded one of them.
func (s *Store) List(ctx context.Context, kind *Kind) (Objects, error) {
	list, err := s.kinds[kind.Resource].store.List(ctx, &metainternalversion.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading %s from the store: %w", kind.Resource, err)
	}
	objects := Objects{}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		obj, err := newObject(kind, item)
		if err != nil {
			return err
		}
		if host, is := item.(*v1alpha1.BareMetalHost); is && host.Status.Record.IsLater() {
			return fmt.Errorf("%s: %s, and a part of it would be lost: use this command of that version", obj, host.Status.Record.WhyLeftAlone())
		}
		objects[obj.Key] = obj
		return nil
	})
	return objects, err
}

// placeOf returns the store of an object, and its key in etcd.
func (s *Store) placeOf(ctx context.Context, obj *Object) (store *genericregistry.Store, key string, err error) {
	store = s.kinds[obj.Kind.Resource].store
	if key, err = store.KeyFunc(genericapirequest.WithNamespace(ctx, obj.Key.Namespace), obj.Key.Name); err != nil {
		return nil, "", fmt.Errorf("%s: %w", obj, err)
	}
	return store, key, nil
}

// Put stores an object as it is. It overwrites any object with the same name.
func (s *Store) Put(ctx context.Context, obj *Object) error {
	return s.put(ctx, obj, func(runtime.Object) error { return nil })
}

// errStoredChanged is returned for a stored object that was changed.
var errStoredChanged = errors.New("the stored object was changed")

// PutOver is Put, if clients have left what is stored under the name as it was; nil is nothing. Otherwise, the error is errStoredChanged.
func (s *Store) PutOver(ctx context.Context, obj, was *Object) error {
	return s.put(ctx, obj, func(is runtime.Object) error { return requireLeft(obj.Kind, is, was) })
}

// requireLeft returns errStoredChanged if clients have changed a stored object. The server changes the status on each read.
func requireLeft(kind *Kind, is runtime.Object, was *Object) error {
	now, err := newObject(kind, is)
	switch {
	case err != nil:
		return err
	case now.UID == "" && was == nil: // nothing is stored
		return nil
	case now.UID == "" || was == nil || firstDifference(was.withoutServerFields(), now.withoutServerFields()) != "":
		return errStoredChanged
	}
	return nil
}

func (s *Store) put(ctx context.Context, obj *Object, check func(is runtime.Object) error) error {
	store, key, err := s.placeOf(ctx, obj)
	if err != nil {
		return err
	}
	wanted := obj.typed.DeepCopyObject()
	accessor, err := meta.Accessor(wanted)
	if err != nil {
		return err
	}
	accessor.SetResourceVersion("") // it belongs to another etcd
	err = store.Storage.GuaranteedUpdate(ctx, key, store.NewFunc(), true, nil, func(is runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		return wanted, nil, check(is)
	}, false, nil)
	if err != nil {
		return fmt.Errorf("writing %s to the store: %w", obj, err)
	}
	return nil
}

// Remove deletes an object regardless of its finalizers.
func (s *Store) Remove(ctx context.Context, obj *Object) error {
	return s.remove(ctx, obj, func(runtime.Object) error { return nil })
}

// RemoveLeft is Remove, if clients have left the stored object as it was. Otherwise, the error is errStoredChanged.
func (s *Store) RemoveLeft(ctx context.Context, was *Object) error {
	return s.remove(ctx, was, func(is runtime.Object) error { return requireLeft(was.Kind, is, was) })
}

func (s *Store) remove(ctx context.Context, obj *Object, check func(is runtime.Object) error) error {
	store, key, err := s.placeOf(ctx, obj)
	if err != nil {
		return err
	}
	uid := obj.UID
	err = store.Storage.Delete(ctx, key, store.NewFunc(), &storage.Preconditions{UID: &uid}, func(_ context.Context, is runtime.Object) error { return check(is) }, false, nil, storage.DeleteOptions{})
	if err != nil && !storage.IsNotFound(err) {
		return fmt.Errorf("removing %s from the store: %w", obj, err)
	}
	return nil
}

// ValidationErrors returns the reasons for which the API would not accept an object. An
// object can be older than a validation rule.
func (s *Store) ValidationErrors(ctx context.Context, obj *Object) []string {
	var found []string
	ctx = genericapirequest.WithNamespace(ctx, obj.Key.Namespace)
	for _, err := range s.kinds[obj.Kind.Resource].store.CreateStrategy.Validate(ctx, obj.typed.DeepCopyObject()) {
		found = append(found, err.Error())
	}
	return found
}
