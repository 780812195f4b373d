// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// drives reports whether this driver is to take steps for a host. What nobody drives says why.
func (c *driver) drives(ctx context.Context, host *metal3.BareMetalHost) (bool, error) {
	if host == nil || host.Status.Record.IsLater() {
		return false, nil // a replica of the later version is to lead: this one can record nothing
	}
	if owner, problem := c.ironics.OwnerOf(host); owner != c.member.Name {
		return false, nil // another driver has it by now
	} else if problem != "" && !isGoneFromIronic(host) {
		return false, c.reportNoIronic(ctx, host, problem)
	}
	if !c.settings.manages(host) {
		return false, c.reportNotManaged(ctx, host)
	}
	return true, nil
}

// plan plans the next step of a host. What the plan needs besides the host depends on its state, which each step may change.
func (c *driver) plan(ctx context.Context, host *metal3.BareMetalHost, seen observation, noRoom bool) (
	situation lifecycle.Situation, step lifecycle.Step, retryNow bool, err error,
) {
	givesHardware, err := c.inputs.hardware.isFor(ctx, host)
	if err != nil {
		return situation, step, false, err
	}
	found, err := c.inputs.firmware.SettingsFor(ctx, host)
	if err != nil {
		return situation, step, false, err
	}
	digest, err := c.inputs.registrations.DigestOf(ctx, host)
	if err != nil {
		return situation, step, false, err
	}
	situation, retryNow = c.inputs.situation(host, seen, givesHardware, found, digest)
	situation.NoRoom = noRoom
	return situation, lifecycle.Next(situation), retryNow, nil
}

// hasRoom reports whether there is room for a limited step, or something else keeps it back.
func (c *driver) hasRoom(key types.NamespacedName, host *metal3.BareMetalHost, situation lifecycle.Situation, step lifecycle.Step) bool {
	return isExempt(host) || situation.Hold > 0 && c.hasFailed(key, step) || c.gates.provisioning.TryStart(key.Namespace, key.Name)
}

// mayTake reports whether a step may be taken now. If not, the next one is to be planned after what it returns, as by advance. A step
// that only waits is done with.
func (c *driver) mayTake(ctx context.Context, key types.NamespacedName, host *metal3.BareMetalHost, situation lifecycle.Situation, step lifecycle.Step) (
	after time.Duration, may bool, err error,
) {
	switch {
	case step.Do == lifecycle.Wait:
		c.gates.mayWork(host, step)
		if !situation.NoRoom { // else it is still delayed
			err = c.undelay(ctx, host)
		}
		c.firmware.Refresh(ctx, host)
		if err == nil && step.Message != "" {
			err = &stepError{step, &waitError{step.Message}}
		}
		return step.After, false, err
	case situation.Hold > 0 && c.hasFailed(key, step):
		return situation.Hold, false, nil // whatever state the node is in
	case !c.gates.mayWork(host, step):
		return 0, false, nil
	case step.WaitsForImageServer() && !c.gates.enterDeployment(host):
		if host.Status.ErrorCount > 0 {
			return 0, false, nil // it shows the error meanwhile
		}
		_, err := c.delay(ctx, host)
		return 0, false, err
	case step.Do == lifecycle.LeaveIronic && !c.gates.moves.TryEnter(host.Namespace, host.Name):
		return 0, false, nil
	}
	return 0, true, nil
}
