// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/client"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// slowIronic has nodes whose BMCs hold up whatever writes to them, until the client
// gives up. They do so before the client, which has four slots for writes, which four
// slow hosts can take.
type slowIronic struct {
	ironicClient
	sim  *enginetest.Ironic
	hung atomic.Int32 // requests that were held up
}

// hang waits like a request whose answer does not come within the client's time-out.
func (s *slowIronic) hang(ctx context.Context, id string) error {
	node, _ := s.sim.Sim.Node(id)
	if name, _ := node["name"].(string); !strings.Contains(name, "slow") {
		return nil
	}
	s.hung.Add(1)
	ctx, cancel := context.WithTimeout(ctx, client.DefaultTimeout)
	defer cancel()
	<-ctx.Done()
	return &ironic.UnavailableError{Op: "test", Class: ironic.ClassTimeout, Reason: "no answer in time", Err: ctx.Err()}
}

// silentImages is an Ironic that waits in vain for the servers of some hosts' images.
type silentImages struct{ slowIronic }

func (s *silentImages) Validate(ctx context.Context, id string, interfaces ...string) ([]string, error) {
	if err := s.hang(ctx, id); err != nil {
		return nil, err
	}
	return s.ironicClient.Validate(ctx, id, interfaces...)
}

func (s *silentImages) UpdateNode(ctx context.Context, fence ironic.Fence, id string, patches []ironic.Patch) (*ironic.Node, error) {
	return s.ironicClient.UpdateNode(ctx, fence, id, patches)
}

func (s *silentImages) SetProvisionState(ctx context.Context, fence ironic.Fence, id string, target ironic.ProvisionTarget, options ironic.ProvisionOptions) error {
	return s.ironicClient.SetProvisionState(ctx, fence, id, target, options)
}

func (s *silentImages) SwitchPower(ctx context.Context, fence ironic.Fence, id string, target ironic.PowerTarget) (ironic.PowerTarget, string, error) {
	return s.ironicClient.SwitchPower(ctx, fence, id, target)
}

// slowImages is an Ironic that waits long for the servers of images, but not in vain.
type slowImages struct{ ironicClient }

func (s slowImages) Validate(ctx context.Context, id string, interfaces ...string) ([]string, error) {
	time.Sleep(25 * time.Second)
	return s.ironicClient.Validate(ctx, id, interfaces...)
}

// TestSlowImageServer: what was validated is deployed, and deployed anew, however long that took.
func TestSlowImageServer(t *testing.T) {
	inFleet(t, fleetSettings(), ironicsim.Options{}, func(sim *enginetest.Ironic) ironicClient { return slowImages{sim} }, func(t *testing.T, w *world) {
		keys := w.enrol(enginetest.Namespace, 1)
		w.after(10*time.Minute, "available", w.all(keys, arrived(metal3.StateAvailable)))
		w.edit(keys[0], wantImage)
		w.after(5*time.Minute, "provisioned", w.all(keys, arrived(metal3.StateProvisioned)))
	})
}

// TestSilentImageServers: the hosts of one namespace whose image servers never answer do not delay those of another, say why
// they are not deployed, and leave the server alone for a while.
func TestSilentImageServers(t *testing.T) {
	const others = 10
	took := map[int]time.Duration{}
	for _, silent := range []int{0, 60} {
		var s *silentImages
		settings := fleetSettings()
		settings.ProvisioningLimit = 20
		inFleet(t, settings, ironicsim.Options{}, func(sim *enginetest.Ironic) ironicClient {
			s = &silentImages{slowIronic{ironicClient: sim, sim: sim}}
			return s
		}, func(t *testing.T, w *world) {
			var attackers []types.NamespacedName
			for i := range silent {
				host := enrolledIn("attacker", fmt.Sprintf("slow-%d", i), 200+i)
				w.sim.Sim.AddBMC(host.Spec.BMC.Address, enginetest.BMCUser, enginetest.BMCPassword)
				w.addWithSecret(host)
				attackers = append(attackers, enginetest.KeyOf(host))
			}
			keys := w.enrol("victim", others)
			w.after(10*time.Minute, "all are available", w.all(append(slices.Clone(attackers), keys...), arrived(metal3.StateAvailable)))
			for _, key := range attackers {
				w.edit(key, wantImage)
			}
			time.Sleep(10 * time.Second) // they are at it
			// How long one cycle takes depends on when the next poll comes; the middle one of several tells more.
			var cycles []time.Duration
			for range 5 {
				for _, key := range keys {
					w.edit(key, wantImage)
				}
				cycles = append(cycles, w.after(5*time.Minute, "the others are provisioned", w.all(keys, arrived(metal3.StateProvisioned))))
				for _, key := range keys {
					w.edit(key, noImage)
				}
				w.after(5*time.Minute, "the others are available again", w.all(keys, arrived(metal3.StateAvailable)))
			}
			slices.Sort(cycles)
			t.Logf("with %d silent image servers: %s", silent, cycles)
			took[silent] = cycles[2]
			if silent == 0 {
				return
			}
			w.after(20*time.Minute, "all others say why they are not deployed", w.all(attackers, func(h *metal3.BareMetalHost) bool {
				return strings.Contains(h.Status.ErrorMessage, "server of the image")
			}))
			if hung := int(s.hung.Load()); hung > 5*silent {
				t.Errorf("%d validations of %d hosts", hung, silent)
			}
		})
	}
	t.Logf("%d hosts are provisioned after %s, and after %s beside %d with silent image servers", others, took[0], took[60], 60)
	if took[60] > took[0]*11/10+time.Second {
		t.Errorf("%d hosts are provisioned after %s, and after %s beside others with silent image servers", others, took[0], took[60])
	}
}

func (s *slowIronic) UpdateNode(ctx context.Context, fence ironic.Fence, id string, patches []ironic.Patch) (*ironic.Node, error) {
	if err := s.hang(ctx, id); err != nil {
		return nil, err
	}
	return s.ironicClient.UpdateNode(ctx, fence, id, patches)
}

func (s *slowIronic) SetProvisionState(ctx context.Context, fence ironic.Fence, id string, target ironic.ProvisionTarget, options ironic.ProvisionOptions) error {
	if err := s.hang(ctx, id); err != nil {
		return err
	}
	return s.ironicClient.SetProvisionState(ctx, fence, id, target, options)
}

func (s *slowIronic) SwitchPower(ctx context.Context, fence ironic.Fence, id string, target ironic.PowerTarget) (ironic.PowerTarget, string, error) {
	if err := s.hang(ctx, id); err != nil {
		return target, "", err
	}
	return s.ironicClient.SwitchPower(ctx, fence, id, target)
}

// TestSlowBMCs: hosts of which each write hangs are behind all others, whether there
// are a few of them or more than are worked on at a time.
func TestSlowBMCs(t *testing.T) {
	for slow, limit := range map[int]time.Duration{0: time.Minute, 4: time.Minute, 12: 5 * time.Minute} {
		t.Run(fmt.Sprintf("%d of them", slow), func(t *testing.T) {
			var s *slowIronic
			inFleet(t, fleetSettings(), ironicsim.Options{}, func(sim *enginetest.Ironic) ironicClient {
				s = &slowIronic{ironicClient: sim, sim: sim}
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
				hung := int(s.hung.Load())
				t.Logf("%d slow ones, %d requests held up: available after %s, provisioned after %s", slow, hung, took, then)
				if slow > 0 && hung < slow {
					t.Errorf("only %d requests were held up", hung)
				}
			})
		})
	}
}

// TestSilentBMCsLeaveWorkers: the BMCs of one namespace's hosts that do not answer when they are registered do not take all of
// Ironic's workers, of which the hosts of another one need some.
func TestSilentBMCsLeaveWorkers(t *testing.T) {
	const others, silent = 5, 150
	took := map[int]time.Duration{}
	for _, silent := range []int{0, silent} {
		inSimulatedFleet(t, fleetSettings(), ironicsim.Options{BMCTimeout: time.Minute}, func(t *testing.T, w *world) {
			w.enrol("third", 1)
			for i := range silent {
				w.addWithSecret(enrolledIn("attacker", fmt.Sprintf("silent-%d", i), 200+i))
			}
			began := time.Now()
			var keys []types.NamespacedName
			for i := range others {
				host := enrolledIn("victim", fmt.Sprintf("victim-%d", i), 10+i)
				w.addWithSecret(host)
				keys = append(keys, enginetest.KeyOf(host))
			}
			w.after(10*time.Minute, "the others are available", w.all(keys, arrived(metal3.StateAvailable)))
			took[silent] = time.Since(began)
		})
	}
	t.Logf("%d hosts are available after %s, and after %s beside %d with silent BMCs", others, took[0], took[silent], silent)
	if took[silent] > took[0]*11/10+time.Second {
		t.Errorf("%d hosts are available after %s, and after %s beside %d with silent BMCs", others, took[0], took[silent], silent)
	}
}
