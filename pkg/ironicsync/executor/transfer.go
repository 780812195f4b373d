// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// Destinations are the Ironics to which hosts can be moved.
type Destinations interface {
	// Exists reports whether there is such an Ironic, and whether the server can use it.
	Exists(name string) bool
	// WhyNotTaken tells the user of a host why an Ironic cannot take it; see registrar.WhyNotTaken.
	WhyNotTaken(ctx context.Context, name string, host *metal3.BareMetalHost) (why string, err error)
}

// ErrNotTaken says that the Ironic to which a host is to be moved cannot take it at this moment. The host stays where it is, and
// shows why.
var ErrNotTaken = errors.New("the host cannot be moved at this moment")

// destinationTimeout bounds all requests to that Ironic for one attempt. What has been read of the host and its node before has to be
// recent enough afterwards for its node to be deleted.
const destinationTimeout = 10 * time.Second

// transfers takes the steps of a host that is to be moved to another Ironic.
type transfers struct {
	*settler
	nodes        *nodes
	ironic       Ironic
	destinations Destinations
}

// leave removes the node, if the other Ironic can take the host as it is now. Without that, the machine would have no node, and
// nobody would know of it.
func (t *transfers) leave(ctx context.Context, task Task) (Outcome, error) {
	to := task.Host.Status.Record.Transfer.To
	asking, cancel := context.WithTimeout(ctx, destinationTimeout)
	defer cancel()
	why, err := t.destinations.WhyNotTaken(asking, to, task.Host)
	switch {
	case ctx.Err() != nil:
		return Outcome{}, ctx.Err()
	case err != nil && asking.Err() != nil:
		return t.wait(ctx, task, fmt.Sprintf("it has not answered within %s", destinationTimeout))
	case err != nil:
		return t.wait(ctx, task, "it cannot be asked: "+ironic.ReasonOf(err))
	case why != "":
		return t.wait(ctx, task, why)
	}
	return t.requesting(t.nodes.delete)(ctx, task)
}

// change records that the host is in the other Ironic. Ironic is asked for the node once more, because the record of a host
// that changes its Ironic while its node exists would leave the node behind.
func (t *transfers) change(ctx context.Context, task Task) (Outcome, error) {
	host := task.Host
	to := host.Status.Record.Transfer.To
	if !t.destinations.Exists(to) {
		return t.wait(ctx, task, "the server does not know it any more, or cannot use it")
	}
	if _, err := t.ironic.GetNode(ctx, host.Status.Provisioning.ID); err == nil {
		return Outcome{}, t.observe(ctx, host)
	} else if !ironic.IsNotFound(err) {
		return Outcome{}, err
	}
	if err := task.Fence.Check(); err != nil {
		return Outcome{}, err
	}
	_, err := t.recorder.Record(ctx, host, func(h *metal3.BareMetalHost) { lifecycle.MarkTransferred(h, t.clock.Now()) })
	if err == nil {
		klog.FromContext(ctx).Info("The host is moved to another Ironic", "to", to)
	}
	return Outcome{}, err
}

// wait records why the host cannot be moved now.
func (t *transfers) wait(ctx context.Context, task Task, why string) (Outcome, error) {
	host := task.Host
	message := fmt.Sprintf("The host cannot be moved to %s: %s. This is tried again; to call it off, request a transfer to %s",
		ironic.DescribeInstance(host.Status.Record.Transfer.To), why, ironic.DescribeInstance(host.Status.Record.Ironic))
	if failed := host.Status.Record.Failure; failed == nil || failed.Message != lifecycle.CutMessage(message) {
		_, err := t.recorder.Record(ctx, host, func(h *metal3.BareMetalHost) { lifecycle.SetFailure(h, metal3.DetachError, message) })
		if err != nil {
			return Outcome{}, err
		}
	}
	return Outcome{}, fmt.Errorf("%w: %s", ErrNotTaken, why)
}
