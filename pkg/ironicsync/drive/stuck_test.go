package drive_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/drive"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/enginetest"
)

// hangingIronic does not answer as long as one of its channels is there and open.
type hangingIronic struct {
	*fakeIronic
	// hung holds up all requests until their contexts end.
	hung chan struct{}
	// stuckReads and stuckWrites hold up requests even after that.
	stuckReads, stuckWrites chan struct{}
}

func (h *hangingIronic) read(ctx context.Context) error {
	h.Mu.Lock()
	stuck := h.stuckReads
	h.Mu.Unlock()
	return h.wait(ctx, stuck)
}

func (h *hangingIronic) write(ctx context.Context) error {
	h.Mu.Lock()
	stuck := h.stuckWrites
	h.Mu.Unlock()
	return h.wait(ctx, stuck)
}

func (h *hangingIronic) wait(ctx context.Context, stuck chan struct{}) error {
	if stuck != nil {
		<-stuck
	}
	h.Mu.Lock()
	hung := h.hung
	h.Mu.Unlock()
	if hung == nil {
		return nil
	}
	select {
	case <-hung:
		return nil
	case <-ctx.Done():
		return &ironic.UnavailableError{Op: "test", Reason: "no answer in time", Err: ctx.Err()}
	}
}

func (h *hangingIronic) GetNode(ctx context.Context, id string) (*ironic.Node, error) {
	if err := h.read(ctx); err != nil {
		return nil, err
	}
	return h.fakeIronic.GetNode(ctx, id)
}

func (h *hangingIronic) ListNodes(ctx context.Context) ([]ironic.Node, error) {
	if err := h.read(ctx); err != nil {
		return nil, err
	}
	return h.fakeIronic.ListNodes(ctx)
}

func (h *hangingIronic) ChangedSince(ctx context.Context, since time.Time, expected int) (*ironic.Changes, error) {
	if err := h.read(ctx); err != nil {
		return nil, err
	}
	return h.fakeIronic.ChangedSince(ctx, since, expected)
}

func (h *hangingIronic) ListPorts(ctx context.Context, filter ironic.PortFilter) ([]ironic.Port, error) {
	if err := h.read(ctx); err != nil {
		return nil, err
	}
	return h.fakeIronic.ListPorts(ctx, filter)
}

func (h *hangingIronic) CreateNode(ctx context.Context, create ironic.NodeCreate) (*ironic.Node, error) {
	if err := h.write(ctx); err != nil {
		return nil, err
	}
	return h.fakeIronic.CreateNode(ctx, create)
}

func (h *hangingIronic) UpdateNode(ctx context.Context, id string, patches []ironic.Patch) (*ironic.Node, error) {
	if err := h.write(ctx); err != nil {
		return nil, err
	}
	return h.fakeIronic.UpdateNode(ctx, id, patches)
}

func (h *hangingIronic) SetProvisionState(ctx context.Context, id string, target ironic.ProvisionTarget, options ironic.ProvisionOptions) error {
	if err := h.write(ctx); err != nil {
		return err
	}
	return h.fakeIronic.SetProvisionState(ctx, id, target, options)
}

// inHangingFleet runs a test of a controller with two workers whose Ironic can hang.
func inHangingFleet(t *testing.T, test func(t *testing.T, w *world, h *hangingIronic)) {
	t.Helper()
	var h *hangingIronic
	settings := fleetSettings()
	settings.Workers = 2
	inFleet(t, settings, func(f *fakeIronic) drive.Ironic {
		h = &hangingIronic{fakeIronic: f}
		return h
	}, func(t *testing.T, w *world) { test(t, w, h) })
}

// TestAliveWhileIronicHangs: the kubelet must not restart the server because Ironic hangs, however
// many hosts wait for it and for however long: a restart would help nobody.
func TestAliveWhileIronicHangs(t *testing.T) {
	inHangingFleet(t, func(t *testing.T, w *world, h *hangingIronic) {
		w.enrol(enginetest.Namespace, 5)
		hung := make(chan struct{})
		h.Change(func() { h.hung = hung })
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
		stick func(h *hangingIronic, stuck chan struct{})
		want  string
	}{
		"poll":  {func(h *hangingIronic, stuck chan struct{}) { h.stuckReads = stuck }, "the poll of Ironic has not moved for 15m"},
		"queue": {func(h *hangingIronic, stuck chan struct{}) { h.stuckWrites = stuck }, "no worker has taken a host from the queue, which is not empty, for 10m"},
	} {
		t.Run(name, func(t *testing.T) {
			inHangingFleet(t, func(t *testing.T, w *world, h *hangingIronic) {
				w.enrol(enginetest.Namespace, 1)
				time.Sleep(time.Minute)
				if err := w.active.Check(nil); err != nil {
					t.Errorf("while nothing is wrong: %v", err)
				}
				stuck := make(chan struct{})
				h.Change(func() { tt.stick(h, stuck) })
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
