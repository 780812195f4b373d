// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// list has one object, and a watch in which nothing happens until it is used.
type list struct{ watcher *watch.FakeWatcher }

var listed = &metal3.DataImage{ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "worker-0", ResourceVersion: "1"}}

func (list) List(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return &metal3.DataImageList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []metal3.DataImage{*listed}}, nil
}

func (l list) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return l.watcher, nil
}

// IsWatchListSemanticsUnSupported has the informer list the objects before it watches them.
func (list) IsWatchListSemanticsUnSupported() bool { return true }

// An object is reconciled when it is listed, again after a back-off that grows while that fails or panics, at
// once when another client has written it, when it changes, and after the time that it asks for. That its changes cannot be noted
// is no reason not to reconcile it.
func TestWhenObjectsAreReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var mu sync.Mutex
		var reconciled []time.Duration
		seen := func() []time.Duration {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(reconciled)
		}
		objects := list{watch.NewFake()}
		bug := errors.New("a bug")
		answers := []error{errors.New("failed"), bug, apierrors.NewConflict(metal3.Resource("dataimages"), "worker-0", nil), nil}
		c := New(Config[*metal3.DataImage]{Name: "dataimages", Objects: objects, Example: &metal3.DataImage{}, Changed: func(_, _ *metal3.DataImage) { panic("a bug") }, Reconcile: func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
			if _, limited := ctx.Deadline(); !limited || key != (types.NamespacedName{Namespace: "metal3", Name: "worker-0"}) {
				t.Errorf("reconciled %s, limited %t", key, limited)
			}
			mu.Lock()
			defer mu.Unlock()
			reconciled = append(reconciled, time.Since(began))
			if len(answers) == 0 {
				return time.Hour, nil
			}
			err := answers[0]
			answers = answers[1:]
			if errors.Is(err, bug) {
				panic(err)
			}
			return 0, err
		}})
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		time.Sleep(time.Minute)
		at := seen()
		if len(at) != 4 {
			t.Fatalf("reconciled at %s, want a failure, a panic, a conflict and success", at)
		}
		for i, want := range []time.Duration{0, minBackoff, 2 * minBackoff, 0} {
			since := at[i] - at[max(i-1, 0)]
			if since < want*3/4 || since > want*5/4+100*time.Millisecond {
				t.Errorf("reconciliation %d came after %s, want about %s", i, since, want)
			}
		}
		changed := listed.DeepCopy()
		changed.ResourceVersion = "2"
		objects.watcher.Modify(changed)
		if at = seen(); len(at) != 5 {
			t.Fatalf("a change was not reconciled: %s", at)
		}
		paused := changed.DeepCopy()
		paused.ResourceVersion, paused.Annotations = "3", map[string]string{metal3.PausedAnnotation: ""}
		objects.watcher.Modify(paused)
		if at = seen(); len(at) != 5 {
			t.Fatalf("a paused object was reconciled: %s", at)
		}
		changed.ResourceVersion = "4"
		objects.watcher.Modify(changed)
		if at = seen(); len(at) != 6 {
			t.Fatalf("an object that is no longer paused was not reconciled: %s", at)
		}
		time.Sleep(time.Hour)
		if at = seen(); len(at) != 7 {
			t.Errorf("reconciled at %s, want once more an hour after the change", at)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
	})
}

// Only objects of the namespaces that are managed are reconciled, and what KeysOf returns instead of the
// objects themselves, whether or not they are paused.
func TestWhichObjectsAreReconciled(t *testing.T) {
	paused := listed.DeepCopy()
	paused.Annotations = map[string]string{metal3.PausedAnnotation: ""}
	for name, test := range map[string]struct {
		namespaces []string
		keysOf     func(*metal3.DataImage) []types.NamespacedName
		paused     bool
		want       []string
	}{
		"all namespaces":    {want: []string{"metal3/worker-0"}},
		"this namespace":    {namespaces: []string{"other", "metal3"}, want: []string{"metal3/worker-0"}},
		"another namespace": {namespaces: []string{"other"}},
		"paused":            {paused: true},
		"other keys": {
			keysOf: func(image *metal3.DataImage) []types.NamespacedName {
				return []types.NamespacedName{{Namespace: image.Namespace, Name: "a"}, {Namespace: image.Namespace, Name: image.Name}}
			},
			paused: true, want: []string{"metal3/a", "metal3/worker-0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				var mu sync.Mutex
				var reconciled []string
				objects := list{watch.NewFake()}
				var changed int
				c := New(Config[*metal3.DataImage]{
					Name: "dataimages", Objects: objects, Example: &metal3.DataImage{}, Namespaces: test.namespaces, KeysOf: test.keysOf,
					Changed: func(old, image *metal3.DataImage) {
						if changed++; image == nil || old != nil && old.Name != image.Name {
							t.Errorf("changed from %v to %v", old, image)
						}
					},
					Reconcile: func(_ context.Context, key types.NamespacedName) (time.Duration, error) {
						mu.Lock()
						defer mu.Unlock()
						reconciled = append(reconciled, key.String())
						return 0, nil
					},
				})
				ended := make(chan error)
				go func() { ended <- c.Run(ctx) }()
				time.Sleep(time.Second)
				synctest.Wait()
				if test.paused {
					mu.Lock()
					reconciled = nil
					mu.Unlock()
					objects.watcher.Modify(paused.DeepCopy())
					synctest.Wait()
				}
				mu.Lock()
				slices.Sort(reconciled)
				if !slices.Equal(reconciled, test.want) {
					t.Errorf("reconciled %q, want %q", reconciled, test.want)
				}
				mu.Unlock()
				if image, exists := c.Cached(KeyOf(listed)); !exists || image.Name != listed.Name || changed == 0 {
					t.Errorf("the cache has %v, and %d changes were seen", image, changed)
				}
				cancel()
				if err := <-ended; err != nil {
					t.Errorf("ended with %v", err)
				}
			})
		})
	}
}

// The objects of one namespace that wait in vain do not delay those of another, whichever comes first, and are all reconciled
// in turn.
func TestNamespacesShareThePlaces(t *testing.T) {
	const places, hanging = 6, 20
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		ended := map[string]time.Duration{}
		under, most := 0, 0
		began := time.Now()
		c := New(Config[*metal3.DataImage]{
			Name: "dataimages", Objects: list{watch.NewFake()}, Example: &metal3.DataImage{}, Places: places,
			Reconcile: func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
				if key.Namespace == "attacker" {
					mu.Lock()
					under++
					most = max(most, under)
					mu.Unlock()
					time.Sleep(30 * time.Second)
					mu.Lock()
					under--
					mu.Unlock()
				}
				if tenant := ironic.TenantOf(ctx); tenant != key.Namespace {
					t.Errorf("the requests for %s are made for namespace %q", key, tenant)
				}
				mu.Lock()
				defer mu.Unlock()
				ended[key.String()] = time.Since(began)
				return 0, nil
			},
		})
		for i := range hanging {
			c.Enqueue("attacker", fmt.Sprint(i))
		}
		c.Enqueue("victim", "0")
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took, reconciled := ended["victim/0"]; !reconciled || took > time.Second {
			t.Errorf("the object of another namespace is reconciled after %s (%t)", took, reconciled)
		}
		if most != places/2 || len(ended) != hanging+2 { // listed is one of them
			t.Errorf("%d objects of one namespace are reconciled at a time, and %d are reconciled of all: want %d and %d", most, len(ended), places/2, hanging+2)
		}
	})
}

// If one of several controllers fails, all end.
func TestRunAll(t *testing.T) {
	broken := errors.New("broken")
	err := RunAll(t.Context(),
		func(ctx context.Context) error { <-ctx.Done(); return nil },
		func(context.Context) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("ended with %v, want %v", err, broken)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := RunAll(ctx, func(ctx context.Context) error { return nil }); err != nil {
		t.Errorf("ended with %v when it was told to", err)
	}
}
