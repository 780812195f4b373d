// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
)

// objects keeps objects of a kind in memory.
type objects[T kinds.Object] struct {
	mu      sync.Mutex
	version int
	stored  map[string]T
	gets    int
	// race is called once before a write.
	race func()
}

func (o *objects[T]) Get(_ context.Context, namespace, name string) (obj T, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gets++
	return o.get(namespace, name)
}

// get is called with the lock.
func (o *objects[T]) get(namespace, name string) (obj T, err error) {
	if stored, ok := o.stored[namespace+"/"+name]; ok {
		return stored.DeepCopyObject().(T), nil
	}
	return obj, apierrors.NewNotFound(metal3.Resource("tests"), name)
}

func (o *objects[T]) Create(_ context.Context, obj T) (T, error) {
	if race := o.race; race != nil {
		o.race = nil
		race()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if stored, err := o.get(obj.GetNamespace(), obj.GetName()); err == nil {
		return stored, apierrors.NewAlreadyExists(metal3.Resource("tests"), obj.GetName())
	}
	if err := invalid(obj); err != nil {
		return obj, err
	}
	obj = obj.DeepCopyObject().(T)
	obj.SetUID(types.UID("uid-" + obj.GetName()))
	obj.SetGeneration(1)
	return o.put(obj), nil
}

func (o *objects[T]) Update(ctx context.Context, obj T) (T, error) { return o.UpdateStatus(ctx, obj) }

func (o *objects[T]) UpdateStatus(_ context.Context, obj T) (T, error) {
	if race := o.race; race != nil {
		o.race = nil
		race()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	stored, err := o.get(obj.GetNamespace(), obj.GetName())
	if err != nil || stored.GetResourceVersion() != obj.GetResourceVersion() {
		return stored, apierrors.NewConflict(metal3.Resource("tests"), obj.GetName(), errors.New("it was written"))
	}
	if err := invalid(obj); err != nil {
		return obj, err
	}
	return o.put(obj.DeepCopyObject().(T)), nil
}

func (o *objects[T]) Delete(_ context.Context, obj T) error {
	if race := o.race; race != nil {
		o.race = nil
		race()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	stored, err := o.get(obj.GetNamespace(), obj.GetName())
	if err == nil && stored.GetResourceVersion() != obj.GetResourceVersion() {
		return apierrors.NewConflict(metal3.Resource("tests"), obj.GetName(), errors.New("it was written"))
	}
	delete(o.stored, obj.GetNamespace()+"/"+obj.GetName())
	return err
}

// put is called with the lock.
func (o *objects[T]) put(obj T) T {
	if o.stored == nil {
		o.stored = map[string]T{}
	}
	o.version++
	obj.SetResourceVersion(strconv.Itoa(o.version))
	o.stored[obj.GetNamespace()+"/"+obj.GetName()] = obj
	return obj.DeepCopyObject().(T)
}

// invalid returns why the API would refuse an object.
func invalid(obj interface {
	metav1.Object
	runtime.Object
}) error {
	var all field.ErrorList
	switch obj := obj.(type) {
	case *metal3.HostFirmwareSettings:
		all = append(validation.ValidateHostFirmwareSettings(obj, nil), validation.Limits{Spec: 256 << 10, Status: 512 << 10}.Validate(obj, nil)...)
	case *metal3.HostFirmwareComponents:
		all = validation.ValidateHostFirmwareComponents(obj, nil)
	case *metal3.FirmwareSchema:
		all = append(validation.ValidateFirmwareSchema(obj, nil), validation.Limits{Spec: 768 << 10}.Validate(obj, nil)...)
	}
	if len(all) == 0 {
		return nil
	}
	return apierrors.NewInvalid(obj.GetObjectKind().GroupVersionKind().GroupKind(), obj.GetName(), all)
}

// List returns all objects of the kind.
func (o *objects[T]) List(context.Context, metav1.ListOptions) (runtime.Object, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := &metav1.List{}
	for _, stored := range o.stored {
		list.Items = append(list.Items, runtime.RawExtension{Object: stored.DeepCopyObject()})
	}
	return list, nil
}

// Watch is for informers, which these tests do not run.
func (o *objects[T]) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return nil, errors.New("not used")
}

// countingIronic is an Ironic that counts the requests for each node.
type countingIronic struct {
	Ironic
	mu    sync.Mutex
	asked map[string]int
	value ironic.Text
	more  []ironic.BIOSSetting
	err   error
	takes time.Duration
}

func (l *countingIronic) ListBIOSSettings(ctx context.Context, uuid string) ([]ironic.BIOSSetting, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked == nil {
		l.asked = map[string]int{}
	}
	l.asked[uuid]++
	if l.takes > 0 {
		l.mu.Unlock()
		select {
		case <-time.After(l.takes):
		case <-ctx.Done():
		}
		l.mu.Lock()
	}
	return append([]ironic.BIOSSetting{{Name: "Turbo", Value: l.value, AttributeType: "String"}}, l.more...), l.err
}

// fleet is a Reader with some hosts.
type fleet struct {
	*Reader
	settings *objects[*metal3.HostFirmwareSettings]
	schemas  *objects[*metal3.FirmwareSchema]
	policies *objects[*metal3.HostUpdatePolicy]
	ironic   *countingIronic
	hosts    map[string]*metal3.BareMetalHost
	away     error
	// others are the Ironics beside the one of the server's flags, by name.
	others map[string]Ironic
}

// ironicOf returns the Ironic of a host.
func (f *fleet) ironicOf(host *metal3.BareMetalHost) (Ironic, error) {
	name := host.Status.Record.Ironic
	if name == "" {
		return f.ironic, nil
	}
	if client, known := f.others[name]; known {
		return client, nil
	}
	return nil, &ironic.UnavailableError{Op: "find the Ironic", Reason: "IronicInstance " + name + " does not exist"}
}

func newFleet(names ...string) *fleet {
	f := &fleet{settings: &objects[*metal3.HostFirmwareSettings]{}, schemas: &objects[*metal3.FirmwareSchema]{}, policies: &objects[*metal3.HostUpdatePolicy]{}, ironic: &countingIronic{value: "on"}, hosts: map[string]*metal3.BareMetalHost{}}
	for _, name := range names {
		host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID("host-" + name)}}
		host.Status.Ironic = &metal3.IronicStatus{NodeUUID: "node-" + name, ProvisionState: "manageable"}
		f.hosts[name] = host
		f.moved(name)
	}
	f.Reader = &Reader{
		Settings: NewSettingsKeeper(f.settings, f.schemas, f.ironicOf, clock.RealClock{}),
		Hosts:    f, Refresher: f, Policies: f.policies, Timeout: func(string) time.Duration { return time.Second },
	}
	return f
}

// moved has the node of a host come into another state.
func (f *fleet) moved(name string) {
	status := f.hosts[name].Status.Ironic
	changed := metav1.NewMicroTime(time.Unix(1000, 0))
	if status.StateChangedAt != nil {
		changed = metav1.NewMicroTime(status.StateChangedAt.Add(time.Minute))
	}
	status.StateChangedAt = &changed
}

func (f *fleet) Get(_ context.Context, _, name string) (*metal3.BareMetalHost, error) {
	if host, ok := f.hosts[name]; ok {
		return host.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(metal3.Resource("baremetalhosts"), name)
}

func (f *fleet) ListIn(_ context.Context, namespace string) (*metal3.BareMetalHostList, error) {
	list := &metal3.BareMetalHostList{}
	for _, host := range f.hosts {
		if namespace == "" || host.Namespace == namespace {
			list.Items = append(list.Items, *host.DeepCopy())
		}
	}
	return list, nil
}

func (f *fleet) RefreshHost(context.Context, string, string) error { return f.away }
func (f *fleet) RefreshAll(context.Context, string) error          { return f.away }

func (f *fleet) ensure(t *testing.T, name string) *metal3.HostFirmwareSettings {
	t.Helper()
	settings, err := f.Settings.Ensure(t.Context(), f.hosts[name])
	if err != nil {
		t.Fatal(err)
	}
	schema, err := f.Settings.SchemaOf(t.Context(), settings)
	if err != nil || schema == nil {
		t.Fatal(schema, err)
	}
	return settings
}

func (f *fleet) value(t *testing.T, name string) string {
	t.Helper()
	settings, err := f.settings.Get(t.Context(), "n", name)
	if err != nil {
		t.Fatal(err)
	}
	return settings.Status.Settings["Turbo"]
}
