// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// softPowerTimeout is how long Ironic waits for an operating system that was asked to
// shut down. The node is locked meanwhile; Ironic's own default
// ([conductor]soft_power_off_timeout) is ten minutes.
const softPowerTimeout = 180 * time.Second

// hardTargets are the targets that reach without the operating system what the soft
// ones reach with it.
var hardTargets = map[ironic.PowerTarget]ironic.PowerTarget{
	ironic.TargetSoftPowerOff: ironic.TargetPowerOff,
	ironic.TargetSoftReboot:   ironic.TargetReboot,
}

// SwitchPower asks for a change of power. Success says that Ironic has begun: the
// outcome shows in the node. Where the driver cannot ask the operating system to shut
// down, which Ironic answers with 400, the hard target takes the place of the soft one.
//
// It returns the target that Ironic was asked for last and, if that is not the one in
// the call, Ironic's words about that one.
func (c nodeManagement) SwitchPower(ctx context.Context, fence ironic.Fence, idOrName string, target ironic.PowerTarget) (used ironic.PowerTarget, softRefusal string, err error) {
	hard, soft := hardTargets[target]
	if !soft {
		return target, "", c.setPowerState(ctx, fence, idOrName, target, 0)
	}
	err = c.setPowerState(ctx, fence, idOrName, target, softPowerTimeout)
	if !ironic.IsBadRequest(err) {
		return target, "", err
	}
	var answer *ironic.APIError
	errors.As(err, &answer)
	return hard, answer.Message, c.setPowerState(ctx, fence, idOrName, hard, 0)
}

// setPowerState asks for a change of power. Timeout, in whole seconds, is how long
// Ironic may wait for the machine; 0 means Ironic's own default.
func (c nodeManagement) setPowerState(ctx context.Context, fence ironic.Fence, idOrName string, target ironic.PowerTarget, timeout time.Duration) error {
	body := struct {
		Target  ironic.PowerTarget `json:"target"`
		Timeout int                `json:"timeout,omitempty"`
	}{target, int(timeout / time.Second)}
	return c.put(ctx, fence, "SetPowerState", "set power state "+string(target), writes, idOrName, "states/power", body)
}
