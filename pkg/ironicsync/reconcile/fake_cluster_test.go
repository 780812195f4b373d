// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/events"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/firmware"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// secretStore has the Secrets of a cluster, for the client that reads them and
// for the one that watches their metadata.
type secretStore struct {
	client   *fake.Clientset
	metadata *metadatafake.FakeMetadataClient

	mu      sync.Mutex
	version int
	fuse    *fuse // of the process that runs
}

var secretsResource = corev1.SchemeGroupVersion.WithResource("secrets")

func newSecretStore(t *testing.T) *secretStore {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s := &secretStore{client: fake.NewClientset(), metadata: metadatafake.NewSimpleMetadataClient(scheme)}
	s.client.PrependReactor("patch", "secrets", func(a clienttesting.Action) (bool, runtime.Object, error) {
		secret, err := enginetest.PatchedSecret(s.client.Tracker(), a.(clienttesting.PatchAction))
		if err != nil {
			return true, nil, err
		}
		s.mu.Lock()
		fuse := s.fuse
		s.mu.Unlock()
		return true, secret, fuse.step(func() error { return s.put(secret) })
	})
	return s
}

// put writes a Secret at the next resourceVersion.
func (s *secretStore) put(secret *corev1.Secret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	secret.ResourceVersion = strconv.Itoa(s.version)
	m := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: secret.ObjectMeta}
	if _, err := s.client.Tracker().Get(secretsResource, secret.Namespace, secret.Name); err == nil {
		return errors.Join(s.client.Tracker().Update(secretsResource, secret, secret.Namespace),
			s.metadata.Tracker().Update(secretsResource, m, secret.Namespace))
	}
	return errors.Join(s.client.Tracker().Create(secretsResource, secret, secret.Namespace),
		s.metadata.Tracker().Create(secretsResource, m, secret.Namespace))
}

// memoryHardware keeps HardwareData.
type memoryHardware struct {
	*memoryObjects[*metal3.HardwareData]
}

func (m memoryHardware) Put(ctx context.Context, data *metal3.HardwareData) error {
	event := watch.Modified
	if _, err := m.Get(ctx, data.Namespace, data.Name); err != nil {
		event = watch.Added
	}
	m.put(data.DeepCopy(), event)
	return nil
}

// RemoveFinalizer lets a HardwareData go, which the garbage collector deletes.
func (m memoryHardware) RemoveFinalizer(_ context.Context, namespace, name, _ string) error {
	m.delete(namespace, name)
	return nil
}

// memoryObjects keeps objects of a kind.
type memoryObjects[T interface {
	runtime.Object
	metav1.Object
}] struct {
	mu       sync.Mutex
	resource string
	version  int
	objects  map[string]T
	watchers []*watch.RaceFreeFakeWatcher
	// silent is set if who watches is not told of changes.
	silent bool
	// getErr is why an object cannot be read; nil if it can.
	getErr error
}

func newMemoryObjects[T interface {
	runtime.Object
	metav1.Object
}](resource string) *memoryObjects[T] {
	return &memoryObjects[T]{resource: resource, objects: map[string]T{}}
}

func (m *memoryObjects[T]) Get(_ context.Context, namespace, name string) (obj T, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.getErr != nil {
		return obj, m.getErr
	}
	if stored, ok := m.objects[namespace+"/"+name]; ok {
		return stored.DeepCopyObject().(T), nil
	}
	return obj, apierrors.NewNotFound(metal3.Resource(m.resource), name)
}

func (m *memoryObjects[T]) Create(_ context.Context, obj T) (T, error) {
	obj = obj.DeepCopyObject().(T)
	obj.SetUID(types.UID("uid-of-" + obj.GetName()))
	obj.SetGeneration(1)
	return m.put(obj, watch.Added), nil
}

// Update completes a deletion if it removes the last finalizer.
func (m *memoryObjects[T]) Update(ctx context.Context, obj T) (T, error) {
	updated, err := m.UpdateStatus(ctx, obj)
	if err == nil && !updated.GetDeletionTimestamp().IsZero() && len(updated.GetFinalizers()) == 0 {
		m.delete(obj.GetNamespace(), obj.GetName())
	}
	return updated, err
}

func (m *memoryObjects[T]) UpdateStatus(ctx context.Context, obj T) (T, error) {
	stored, err := m.Get(ctx, obj.GetNamespace(), obj.GetName())
	if err == nil && stored.GetResourceVersion() != obj.GetResourceVersion() {
		err = apierrors.NewConflict(metal3.Resource(m.resource), obj.GetName(), errors.New("it was written"))
	}
	if err != nil {
		return stored, err
	}
	return m.put(obj.DeepCopyObject().(T), watch.Modified), nil
}

func (m *memoryObjects[T]) Delete(ctx context.Context, obj T) error {
	stored, err := m.Get(ctx, obj.GetNamespace(), obj.GetName())
	if err == nil && stored.GetResourceVersion() != obj.GetResourceVersion() {
		err = apierrors.NewConflict(metal3.Resource(m.resource), obj.GetName(), errors.New("it was written"))
	}
	if err != nil {
		return err
	}
	m.delete(obj.GetNamespace(), obj.GetName())
	return nil
}

func (m *memoryObjects[T]) put(obj T, event watch.EventType) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version++
	obj.SetResourceVersion(strconv.Itoa(m.version))
	m.objects[obj.GetNamespace()+"/"+obj.GetName()] = obj
	m.tell(event, obj)
	return obj.DeepCopyObject().(T)
}

func (m *memoryObjects[T]) delete(namespace, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	obj, ok := m.objects[namespace+"/"+name]
	if !ok {
		return
	}
	delete(m.objects, namespace+"/"+name)
	m.version++
	obj.SetResourceVersion(strconv.Itoa(m.version))
	m.tell(watch.Deleted, obj)
}

// fail sets why objects cannot be read, and hush whether who watches is told of changes.
func (m *memoryObjects[T]) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.getErr = err
}

func (m *memoryObjects[T]) hush(silent bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.silent = silent
}

// tell tells who watches. m.mu is held.
func (m *memoryObjects[T]) tell(event watch.EventType, obj T) {
	if m.silent {
		return
	}
	for _, w := range m.watchers {
		w.Action(event, obj.DeepCopyObject())
	}
}

// List is not used by an informer that can watch a list.
func (m *memoryObjects[T]) List(context.Context, metav1.ListOptions) (runtime.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := &metav1.List{}
	for _, stored := range m.objects {
		list.Items = append(list.Items, runtime.RawExtension{Object: stored.DeepCopyObject()})
	}
	return list, nil
}

// Watch sends what there is and then a bookmark, as for a WatchList client.
func (m *memoryObjects[T]) Watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if options.SendInitialEvents == nil || !*options.SendInitialEvents {
		return nil, apierrors.NewBadRequest("this fake only knows WatchList")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w := watch.NewRaceFreeFake()
	for _, obj := range m.objects {
		w.Add(obj.DeepCopyObject())
	}
	bookmark := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
	bookmark.SetResourceVersion(strconv.Itoa(m.version + 1))
	bookmark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	w.Action(watch.Bookmark, bookmark)
	m.watchers = append(m.watchers, w)
	return w, nil
}

// memoryFirmware keeps the BIOS settings of hosts in memory.
type memoryFirmware struct {
	keeper *firmware.SettingsKeeper
	*memoryObjects[*metal3.HostFirmwareSettings]
	schemas *memoryObjects[*metal3.FirmwareSchema]
}

// newMemoryFirmware returns a keeper that asks client for BIOS settings.
func newMemoryFirmware(client firmware.Ironic) *memoryFirmware {
	settings, schemas := newMemoryObjects[*metal3.HostFirmwareSettings]("hostfirmwaresettings"), newMemoryObjects[*metal3.FirmwareSchema]("firmwareschemas")
	return &memoryFirmware{firmware.NewSettingsKeeper(settings, schemas, func(*metal3.BareMetalHost) (firmware.Ironic, error) { return client, nil }, clock.RealClock{}), settings, schemas}
}

// memoryComponents keeps the firmware components of hosts in memory.
type memoryComponents struct {
	keeper *firmware.ComponentKeeper
	*memoryObjects[*metal3.HostFirmwareComponents]
}

// newMemoryComponents returns a keeper that asks client for firmware.
func newMemoryComponents(client firmware.Ironic) *memoryComponents {
	components := newMemoryObjects[*metal3.HostFirmwareComponents]("hostfirmwarecomponents")
	return &memoryComponents{firmware.NewComponentKeeper(components, func(*metal3.BareMetalHost) (firmware.Ironic, error) { return client, nil }, clock.RealClock{}), components}
}

// memoryEvents keeps the reasons of events of hosts, and those of other objects with their messages.
type memoryEvents struct {
	mu      sync.Mutex
	reasons []string
	// messages are those of the events of hosts.
	messages []string
	others   []string
	// before, if set, is called with the host of each event.
	before func(*metal3.BareMetalHost)
}

// told returns the reasons of the events so far.
func (m *memoryEvents) told() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.reasons)
}

func (m *memoryEvents) RecordObject(regarding *corev1.ObjectReference, event events.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.others = append(m.others, fmt.Sprintf("%s %s: %s", regarding.Kind, event.Reason, event.Message))
}

func (m *memoryEvents) Record(host *metal3.BareMetalHost, event events.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.before != nil {
		m.before(host)
	}
	m.reasons, m.messages = append(m.reasons, event.Reason), append(m.messages, event.Message)
}
