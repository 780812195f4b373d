// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
)

// PowerCuts records in etcd which power actions the subresource power requests of Ironic. For a hard power-off, that comes before spec.online
// is written: the leader sees at once that the host is to be off, and would ask its operating system to shut down if it did not know that
// the power is to be cut.
type PowerCuts struct {
	Hosts    store.Getter[*metal3.BareMetalHost]
	Recorder HostRecorder
}

// record records that the power of the node is to be cut.
func (c PowerCuts) record(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) error {
	return c.change(ctx, host, func(h *metal3.BareMetalHost) error {
		if err := checkSame(host, h); err != nil {
			return err
		}
		lifecycle.CutPower(h, node, time.Now())
		return nil
	})
}

// answered records that the request for a hard power-off does not come later: Ironic has answered it, or it was not sent. Otherwise,
// the machine would not be switched on until the request is taken for lost.
func (c PowerCuts) answered(ctx context.Context, host *metal3.BareMetalHost) {
	ctx, cancel := undoContext(ctx)
	defer cancel()
	_ = c.change(ctx, host, func(h *metal3.BareMetalHost) error { // what cannot be written costs that wait
		if !lifecycle.PowerCutAnswered(h) {
			return errRecordedAlready
		}
		return nil
	})
}

// endPowerOn records that the request to switch the machine on that has the ID does not come later: Ironic has accepted it, or it is not
// carried out if accepted is empty. Otherwise, who fences the machine would have to wait until the request counts as lost.
func (c PowerCuts) endPowerOn(ctx context.Context, host *metal3.BareMetalHost, id string, accepted ironic.PowerTarget) {
	ctx, cancel := undoContext(ctx)
	defer cancel()
	_ = c.change(ctx, host, func(h *metal3.BareMetalHost) error { // what cannot be written costs that wait
		lifecycle.EndPowerOn(h, id, accepted, time.Now())
		return nil
	})
}

// forget takes the record back, because the action was refused. What cannot be taken back ends by itself after some minutes.
func (c PowerCuts) forget(ctx context.Context, host *metal3.BareMetalHost) {
	ctx, cancel := undoContext(ctx)
	defer cancel()
	_ = c.change(ctx, host, func(h *metal3.BareMetalHost) error { // the caller has an error already
		lifecycle.PowerCutAnswered(h)
		lifecycle.ForgetPowerCut(h)
		lifecycle.KeepPowerAs(host, h) // in one write, or the leader would have it shut down
		return nil
	})
}

// countOnline records that the power is to be as spec.online says, of a host whose machine was left on although that is false. If Ironic
// does not take the request now, the leader repeats it; and a machine that was switched off does not stay on when somebody presses its
// button.
func (c PowerCuts) countOnline(ctx context.Context, host *metal3.BareMetalHost) error {
	err := c.change(ctx, host, func(h *metal3.BareMetalHost) error {
		if err := checkSame(host, h); err != nil {
			return err
		}
		if !lifecycle.CountOnline(h) {
			return errRecordedAlready
		}
		return nil
	})
	if errors.Is(err, errRecordedAlready) {
		return nil
	}
	return err
}

// keepPower takes back what was written of host, whose machine was left on although spec.online is false, because the action was refused:
// in one write, or the leader would find that spec.online counts and is false, and have the machine shut down.
func (c PowerCuts) keepPower(ctx context.Context, host, written *metal3.BareMetalHost) error {
	ctx, cancel := undoContext(ctx)
	defer cancel()
	err := c.change(ctx, host, func(h *metal3.BareMetalHost) error {
		restored := h.Spec.Online != host.Spec.Online && h.Generation == written.Generation
		if restored {
			h.Spec.Online = host.Spec.Online
			h.Generation++ // no step is taken that was planned with what was written
		}
		if !lifecycle.KeepPowerAs(host, h) && !restored {
			return errRecordedAlready
		}
		return nil
	})
	if errors.Is(err, errRecordedAlready) {
		return nil
	}
	return err
}

// errRecordedAlready says that there is nothing to be written.
var errRecordedAlready = errors.New("it is recorded already")

// change records a change of the host's status.
func (c PowerCuts) change(ctx context.Context, host *metal3.BareMetalHost, change func(*metal3.BareMetalHost) error) error {
	for race := 0; ; race++ {
		latest, err := c.Hosts.Get(ctx, host.Namespace, host.Name)
		if err != nil {
			return readError(host.Name, err)
		}
		if latest.UID != host.UID {
			return conflict(host, errReplaced)
		}
		changed := latest.DeepCopy()
		if err := change(changed); err != nil {
			return err
		}
		_, err = c.Recorder.Record(ctx, changed)
		if !apierrors.IsConflict(err) || race == recordingRaces {
			return writeError(host.Name, err)
		}
	}
}
