// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// The objects of an Ironic are reconciled at once while other Ironics, with many objects, answer nothing. Each of these holds up no
// more objects at a time than one alone.
func TestAnIronicThatHangsDelaysItsOwnObjectsOnly(t *testing.T) {
	const objects = 20
	for name, test := range map[string]struct{ places, most int }{
		"objects that wait for something of a tenant's": {6, 3},
		"other objects": {0, defaultPlaces},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				var mu sync.Mutex
				under, most := map[string]int{}, map[string]int{}
				count := func(room string, n int) {
					mu.Lock()
					defer mu.Unlock()
					under[room] += n
					most[room] = max(most[room], under[room])
				}
				ended := map[string]time.Duration{}
				began := time.Now()
				c := New(Config[*metal3.DataImage]{
					Name: "dataimages", Objects: list{watch.NewFake()}, Example: &metal3.DataImage{}, Places: test.places,
					IronicOf: func(_ context.Context, key types.NamespacedName) string {
						room, _, _ := strings.Cut(key.Name, "-")
						return room
					},
					Reconcile: func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
						room, _, _ := strings.Cut(key.Name, "-")
						count(room, 1)
						defer count(room, -1)
						if room != "answers" {
							<-ctx.Done()
							return 0, ctx.Err()
						}
						mu.Lock()
						defer mu.Unlock()
						ended[key.Name] = time.Since(began)
						return 0, nil
					},
				})
				for i := range objects {
					for _, room := range []string{"a", "b", "c"} {
						c.Enqueue("metal3", fmt.Sprintf("%s-%d", room, i))
					}
				}
				for i := range objects {
					c.Enqueue("metal3", fmt.Sprintf("answers-%d", i))
				}
				done := make(chan error)
				go func() { done <- c.Run(ctx) }()
				time.Sleep(20 * time.Second)
				synctest.Wait()
				mu.Lock()
				if len(ended) != objects {
					t.Errorf("of %d objects whose Ironic answers, %d were reconciled", objects, len(ended))
				}
				for object, took := range ended {
					if took > time.Second {
						t.Errorf("%s was reconciled after %s", object, took)
					}
				}
				for _, room := range []string{"a", "b", "c"} {
					if under[room] != test.most || most[room] != test.most {
						t.Errorf("%d objects wait for Ironic %s, and %d did at most; want %d", under[room], room, most[room], test.most)
					}
				}
				mu.Unlock()
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// An object whose host has come to another Ironic meanwhile does not wait for the one before.
func TestTheIronicOfAnObjectIsLookedUpEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		reconciled := map[string]int{}
		room := "hangs"
		c := New(Config[*metal3.DataImage]{
			Name: "dataimages", Objects: list{watch.NewFake()}, Example: &metal3.DataImage{},
			IronicOf: func(_ context.Context, key types.NamespacedName) string {
				mu.Lock()
				defer mu.Unlock()
				if key.Name != "moves" {
					return "hangs"
				}
				return room
			},
			Reconcile: func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
				mu.Lock()
				reconciled[key.Name]++
				mu.Unlock()
				if key.Name != "moves" {
					<-ctx.Done()
				}
				return 0, ctx.Err()
			},
		})
		for i := range defaultPlaces {
			c.Enqueue("metal3", fmt.Sprint(i))
		}
		c.Enqueue("metal3", "moves")
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		seen := func() int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return reconciled["moves"]
		}
		time.Sleep(time.Second) // the informer has synced
		if times := seen(); times > 0 {
			t.Errorf("the object was reconciled %d times while its Ironic has no place", times)
		}
		mu.Lock()
		room = "answers"
		mu.Unlock()
		c.Enqueue("metal3", "moves")
		if times := seen(); times != 1 {
			t.Errorf("the object was reconciled %d times, want once at its new Ironic", times)
		}
		time.Sleep(2 * reconcileTimeout)
		if times := seen(); times != 1 {
			t.Errorf("the object was reconciled %d times: it still waited for its old Ironic", times)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// cachedHost is the host in the watch cache; nil if there is none.
type cachedHost struct{ host *metal3.BareMetalHost }

func (c cachedHost) Get(context.Context, string, string) (*metal3.BareMetalHost, error) {
	panic("etcd is asked")
}

func (c cachedHost) Cached(context.Context, string, string) *metal3.BareMetalHost { return c.host }

func TestIronicOf(t *testing.T) {
	elsewhere := &metal3.BareMetalHost{}
	elsewhere.Status.Record.Ironic = "room-b"
	for name, test := range map[string]struct {
		hosts cachedHost
		want  string
	}{
		"the Ironic of the flags": {hosts: cachedHost{&metal3.BareMetalHost{}}},
		"another one":             {hosts: cachedHost{elsewhere}, want: "room-b"},
		"no host":                 {},
	} {
		t.Run(name, func(t *testing.T) {
			if got := IronicOf(test.hosts)(t.Context(), types.NamespacedName{}); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
