// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestClientGoGeneration: it rises with each change of the spec, and with no other.
func TestClientGoGeneration(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	managedHost(t, ctx, ns, "worker-0")
	host := hostIs(t, ctx, ns, "worker-0", "available", isAvailable)
	power := func(spec metal3.HostPowerSpec) func() error {
		return func() error {
			_, err := s.Hosts(ns).Power(ctx, "worker-0", &metal3.HostPower{Spec: spec}, metav1.CreateOptions{})
			if apierrors.IsTooManyRequests(err) || err == nil {
				return err
			}
			return fmt.Errorf("power %+v: %w", spec, err)
		}
	}
	patch := func(patch string, subresources ...string) func() error {
		return func() error {
			_, err := s.Hosts(ns).Patch(ctx, "worker-0", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
			return err
		}
	}
	steps := []struct {
		name string
		do   func() error
		more int64
	}{
		{"nothing", patch(`{}`), 0},
		{"label", patch(`{"metadata":{"labels":{"a":"b"}}}`), 0},
		{"annotation", patch(`{"metadata":{"annotations":{"a":"b"}}}`), 0},
		{"finalizer", patch(`{"metadata":{"finalizers":["baremetalhost.metal3.io","example.com/hold"]}}`), 0},
		{"no finalizer", patch(`{"metadata":{"finalizers":["baremetalhost.metal3.io"]}}`), 0},
		{"status through /status", patch(`{"status":{"provisioningFailCount":0,"errorCount":0}}`, "status"), 0},
		{"spec through /status", patch(`{"spec":{"description":"x"}}`, "status"), 0},
		{"status", patch(`{"status":{"errorMessage":"x"}}`), 0},
		{"spec", patch(`{"spec":{"description":"x"}}`), 1},
		{"the same spec", patch(`{"spec":{"description":"x"}}`), 0},
		{"spec and label", patch(`{"metadata":{"labels":{"a":"c"}},"spec":{"description":"y"}}`), 1},
		{"power off", power(metal3.HostPowerSpec{Action: metal3.PowerActionOff, Mode: metal3.PowerModeHard}), 1}, // sets spec.online
		{"power on", power(metal3.HostPowerSpec{Action: metal3.PowerActionOn}), 1},
		{"reboot", power(metal3.HostPowerSpec{Action: metal3.PowerActionReboot, Mode: metal3.PowerModeHard}), 0},
	}
	generation := host.Generation
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			comes(t, ctx, func() string { // Ironic may have the node locked
				if err := step.do(); err != nil {
					if !apierrors.IsTooManyRequests(err) {
						t.Fatal(err)
					}
					return err.Error()
				}
				return ""
			})
			generation += step.more
			// After the power has followed, when all that is recorded was recorded.
			host := hostIs(t, ctx, ns, "worker-0", "available again", func(h *metal3.BareMetalHost) bool {
				return isAvailable(h) && h.Status.Ironic != nil && h.Status.Ironic.TargetPowerState == ""
			})
			if host.Generation != generation {
				t.Errorf("generation is %d, want %d", host.Generation, generation)
			}
			generation = host.Generation
		})
	}
}
