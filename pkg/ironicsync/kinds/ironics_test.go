package kinds

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
					IronicOf: func(_ context.Context, key types.NamespacedName) (string, error) {
						room, _, _ := strings.Cut(key.Name, "-")
						return room, nil
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

// An object whose host cannot be read is tried again after a back-off. One whose host has come to another Ironic meanwhile does not
// wait for the one before.
func TestTheIronicOfAnObjectIsLookedUpEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		reconciled := map[string]int{}
		room, failures := "hangs", 1
		c := New(Config[*metal3.DataImage]{
			Name: "dataimages", Objects: list{watch.NewFake()}, Example: &metal3.DataImage{},
			IronicOf: func(_ context.Context, key types.NamespacedName) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case key.Name != "moves":
					return "hangs", nil
				case failures > 0:
					failures--
					return "", errors.New("etcd is away")
				}
				return room, nil
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
		seen := func() (int, int) {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return failures, reconciled["moves"]
		}
		time.Sleep(2 * minBackoff)
		if failures, times := seen(); failures > 0 || times > 0 {
			t.Errorf("%d failures are left, and the object was reconciled %d times while its Ironic has no place", failures, times)
		}
		mu.Lock()
		room = "answers"
		mu.Unlock()
		c.Enqueue("metal3", "moves")
		if _, times := seen(); times != 1 {
			t.Errorf("the object was reconciled %d times, want once at its new Ironic", times)
		}
		time.Sleep(2 * reconcileTimeout)
		if _, times := seen(); times != 1 {
			t.Errorf("the object was reconciled %d times: it still waited for its old Ironic", times)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// hosts has one host, or a failure.
type hosts struct {
	host *metal3.BareMetalHost
	err  error
}

func (h hosts) Get(context.Context, string, string) (*metal3.BareMetalHost, error) {
	return h.host, h.err
}

func TestIronicOf(t *testing.T) {
	away := errors.New("etcd is away")
	elsewhere := &metal3.BareMetalHost{}
	elsewhere.Status.Record.Ironic = "room-b"
	for name, test := range map[string]struct {
		hosts hosts
		want  string
		err   error
	}{
		"the Ironic of the flags": {hosts: hosts{host: &metal3.BareMetalHost{}}},
		"another one":             {hosts: hosts{host: elsewhere}, want: "room-b"},
		"no host":                 {hosts: hosts{err: apierrors.NewNotFound(metal3.Resource("baremetalhosts"), "worker-0")}},
		"etcd is away":            {hosts: hosts{err: away}, err: away},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := IronicOf(t.Context(), test.hosts, types.NamespacedName{}); got != test.want || !errors.Is(err, test.err) {
				t.Errorf("%q, %v; want %q, %v", got, err, test.want, test.err)
			}
		})
	}
}
