// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// hanging does not answer as long as one of its channels is there and open.
type hanging struct {
	mu sync.Mutex
	// hung holds up all requests until their contexts end.
	hung chan struct{}
	// stuckReads and stuckWrites hold up requests even after that.
	stuckReads, stuckWrites chan struct{}
}

// holdUp is for Intercept.
func (h *hanging) holdUp(_ string, r *http.Request) error {
	h.mu.Lock()
	stuck, hung := h.stuckReads, h.hung
	if r.Method != http.MethodGet {
		stuck = h.stuckWrites
	}
	h.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	if hung == nil {
		return nil
	}
	select {
	case <-hung:
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

func (h *hanging) change(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// inHangingFleet runs a test of a controller with two workers whose Ironic can hang.
func inHangingFleet(t *testing.T, test func(t *testing.T, w *world, h *hanging)) {
	t.Helper()
	settings := fleetSettings()
	settings.Workers = 2
	inSimulatedFleet(t, settings, ironicsim.Options{}, func(t *testing.T, w *world) {
		h := &hanging{}
		w.sim.Intercept(h.holdUp)
		test(t, w, h)
	})
}

// TestAliveWhileIronicHangs: the kubelet must not restart the server because Ironic hangs, however
// many hosts wait for it and for however long: a restart would help nobody.
func TestAliveWhileIronicHangs(t *testing.T) {
	inHangingFleet(t, func(t *testing.T, w *world, h *hanging) {
		w.enrol(enginetest.Namespace, 5)
		hung := make(chan struct{})
		h.change(func() { h.hung = hung })
		w.enrol(enginetest.Namespace+"-2", 30)
		for began := time.Now(); time.Since(began) < 2*time.Hour; time.Sleep(10 * time.Second) {
			if err := w.active.Check(nil); err != nil {
				t.Fatalf("after %s: %v", time.Since(began), err)
			}
		}
		close(hung)
	})
}

// TestNoticesWhatIsStuck: what does not even end with its time limit is a defect that only a
// restart can end.
func TestNoticesWhatIsStuck(t *testing.T) {
	for name, tt := range map[string]struct {
		stick func(h *hanging, stuck chan struct{})
		want  string
	}{
		"poll":  {func(h *hanging, stuck chan struct{}) { h.stuckReads = stuck }, "the poll of Ironic has not moved for 15m"},
		"queue": {func(h *hanging, stuck chan struct{}) { h.stuckWrites = stuck }, "no worker has taken a host from the queue, which is not empty, for 10m"},
	} {
		t.Run(name, func(t *testing.T) {
			inHangingFleet(t, func(t *testing.T, w *world, h *hanging) {
				w.enrol(enginetest.Namespace, 1)
				time.Sleep(time.Minute)
				if err := w.active.Check(nil); err != nil {
					t.Errorf("while nothing is wrong: %v", err)
				}
				stuck := make(chan struct{})
				h.change(func() { tt.stick(h, stuck) })
				if name == "queue" {
					w.enrol(enginetest.Namespace+"-2", 5)
				}
				w.after(20*time.Minute, "it is noticed", func() bool { return w.active.Check(nil) != nil })
				if err := w.active.Check(nil); !strings.HasPrefix(err.Error(), tt.want) {
					t.Errorf("the check says %q, want %q", err, tt.want)
				}
				close(stuck)
				w.after(time.Minute, "the check succeeds again", func() bool { return w.active.Check(nil) == nil })
			})
		})
	}
}

// unlistable are hosts whose list does not end. Where hang is set, it does not even end with its context.
type unlistable struct {
	live.Hosts
	hang chan struct{}
}

func (u unlistable) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	if u.hang != nil {
		<-u.hang
	}
	return watch.NewFake(), nil
}

// TestDrivesNothing: a leader that cannot begin ends its term, so that another replica can try. If even that does not
// end, the health check says so.
func TestDrivesNothing(t *testing.T) {
	for name, hang := range map[string]chan struct{}{"its time limit ends it": nil, "nothing ends it": make(chan struct{})} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if hang != nil {
					hang = make(chan struct{}) // of this bubble
				}
				w := newSimulatedWorld(t, ironicsim.Options{})
				ctx, cancel := context.WithCancel(t.Context())
				w.run(ctx, cancel, unlistable{w.hosts, hang}, w.sim, reconcile.Settings{BMCs: anywhere, Images: anywhere, MaxProvisioningRetries: 3, Workers: 4, PollInterval: time.Second})
				time.Sleep(90 * time.Second)
				if hang == nil {
					select {
					case <-w.ended:
					default:
						t.Error("it leads, and drives nothing")
					}
				}
				if err := w.active.Check(nil); err != nil {
					t.Errorf("after a minute and a half: %v", err)
				}
				time.Sleep(time.Minute)
				if err := w.active.Check(nil); (err != nil) != (hang != nil) {
					t.Errorf("after more than two minutes: %v", err)
				}
				if hang != nil {
					close(hang)
				}
				w.stop()
			})
		})
	}
}
