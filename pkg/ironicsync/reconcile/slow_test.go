package reconcile_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/client"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/enginetest"
)

// slowIronic has nodes whose BMCs hold up whatever writes to them, until the client
// gives up. It is a fake because the client has four slots for writes, which four
// slow hosts can take; on the simulator the case of twelve fails for that.
type slowIronic struct {
	*fakeIronic
	hung int // requests that were held up
}

// hang waits like a request whose answer does not come within the client's time-out.
func (s *slowIronic) hang(ctx context.Context, id string) error {
	s.Mu.Lock()
	node, ok := s.ByID[id]
	slow := ok && strings.Contains(node.Name, "slow")
	if slow {
		s.hung++
	}
	s.Mu.Unlock()
	if !slow {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, client.DefaultTimeout)
	defer cancel()
	<-ctx.Done()
	return &ironic.UnavailableError{Op: "test", Reason: "no answer in time", Err: ctx.Err()}
}

func (s *slowIronic) UpdateNode(ctx context.Context, fence ironic.Fence, id string, patches []ironic.Patch) (*ironic.Node, error) {
	if err := s.hang(ctx, id); err != nil {
		return nil, err
	}
	return s.fakeIronic.UpdateNode(ctx, fence, id, patches)
}

func (s *slowIronic) SetProvisionState(ctx context.Context, fence ironic.Fence, id string, target ironic.ProvisionTarget, options ironic.ProvisionOptions) error {
	if err := s.hang(ctx, id); err != nil {
		return err
	}
	return s.fakeIronic.SetProvisionState(ctx, fence, id, target, options)
}

func (s *slowIronic) SwitchPower(ctx context.Context, fence ironic.Fence, id string, target ironic.PowerTarget) (ironic.PowerTarget, string, error) {
	if err := s.hang(ctx, id); err != nil {
		return target, "", err
	}
	return s.fakeIronic.SwitchPower(ctx, fence, id, target)
}

// TestSlowBMCs: hosts of which each write hangs are behind all others, whether there
// are a few of them or more than are worked on at a time.
func TestSlowBMCs(t *testing.T) {
	for slow, limit := range map[int]time.Duration{0: time.Minute, 4: time.Minute, 12: 5 * time.Minute} {
		t.Run(fmt.Sprintf("%d of them", slow), func(t *testing.T) {
			var s *slowIronic
			inFleet(t, fleetSettings(), func(f *fakeIronic) ironicClient {
				s = &slowIronic{fakeIronic: f}
				return s
			}, func(t *testing.T, w *world) {
				for i := range slow {
					w.addWithSecret(enrolledIn(enginetest.Namespace, fmt.Sprintf("slow-%d", i), 200+i))
				}
				time.Sleep(2 * time.Minute) // they are at it
				keys := w.enrol(enginetest.Namespace, 10)
				took := w.after(limit, "the others are available", w.all(keys, arrived(metal3.StateAvailable)))
				for _, key := range keys {
					w.edit(key, wantImage)
				}
				then := w.after(limit, "the others are provisioned", w.all(keys, arrived(metal3.StateProvisioned)))
				w.ironic.Change(func() {
					t.Logf("%d slow ones, %d requests held up: available after %s, provisioned after %s", slow, s.hung, took, then)
					if slow > 0 && s.hung < slow {
						t.Errorf("only %d requests were held up", s.hung)
					}
				})
			})
		})
	}
}
