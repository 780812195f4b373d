// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/executor"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/panics"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/recorder"
)

// startWorker starts a worker, which ends with the queue, or when it has let another one take its place.
func (c *driver) startWorker(ctx context.Context) {
	c.workers.Go(func() {
		for c.work(ctx) {
		}
	})
}

// work advances one host. It returns false if the worker is to end.
func (c *driver) work(ctx context.Context) (goOn bool) {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)
	defer c.forgetGone(key)
	goOn = true
	stepAside := func() {
		if goOn {
			goOn = false
			c.startWorker(ctx)
		}
	}
	log := klog.FromContext(ctx).WithValues("host", key)
	stepCtx, cancel := context.WithTimeout(ironic.WithTenant(klog.NewContext(ctx, log), key.Namespace), stepTimeout)
	defer cancel()
	c.settle(ctx, log, key, func() (time.Duration, error) { return c.advanceOrPanic(stepCtx, key, stepAside) })
	return goOn && ctx.Err() == nil
}

// settle has a host advanced, and plans for when that is to be done again.
func (c *driver) settle(ctx context.Context, log klog.Logger, key types.NamespacedName, advance func() (time.Duration, error)) {
	began := c.clock.Now()
	after, err := advance()
	switch {
	case ctx.Err() != nil:
		return
	case err == nil:
		c.queue.Forget(key)
		c.queue.backoffOf(key, func(b *backoff) { b.failingSince = time.Time{} })
	case apierrors.IsConflict(err):
		c.queue.Add(key) // somebody wrote meanwhile: plan again
		return
	case errors.Is(err, ironic.ErrLookedTooLongAgo), errors.Is(err, ironic.ErrNotLeading):
		log.Info("The step is planned anew", "err", err)
		after = jittered(time.Second)
		if errors.Is(err, ironic.ErrLookedTooLongAgo) { // once means only that somebody was quicker
			c.reportPersistentFailure(klog.NewContext(ctx, log), key, c.clock.Now(), err)
		}
	case errors.Is(err, executor.ErrNotTaken), errors.Is(err, executor.ErrUnseen):
		after = jittered(notTakenPause) // the host says why, or is planned again when the watch tells of it
	case ironic.IsLocked(err), errors.Is(err, executor.ErrDriveNotReady):
		log.V(2).Info("Ironic has the node locked, trying again", "err", err)
		after = jittered(2 * time.Second)
	case errors.As(err, new(*waitError)):
		if !c.poller.down.Load() { // else the hosts say that Ironic does not answer
			c.reportPersistentFailure(klog.NewContext(ctx, log), key, began, err)
		}
	default:
		log.Error(err, "Step failed, trying again")
		c.queue.AddRateLimited(key)
		c.reportPersistentFailure(klog.NewContext(ctx, log), key, began, err)
		return
	}
	if after > 0 {
		c.queue.AddAfter(key, after)
	}
}

// waitError says what a host waits for that has nothing to do with it. The host says so if it takes as long as failures do.
type waitError struct{ message string }

func (e *waitError) Error() string { return e.message }

// forgetGone drops what is remembered of a host that is gone. The watcher does that, too, but what was remembered later, by the
// work on the host or for it, would stay.
func (c *driver) forgetGone(key types.NamespacedName) {
	if c.index.Get(key) == nil {
		c.watcher.forget(key)
	}
}

// advanceOrPanic is advance, whose panic is an error of this host. If it ended the process, no replica could lead for longer
// than it takes to come to the host, and all others would be left alone because of one.
func (c *driver) advanceOrPanic(ctx context.Context, key types.NamespacedName, stepAside func()) (after time.Duration, err error) {
	defer panics.Catch(ctx, func(bug error) { err = &stepError{err: bug} })
	return c.advance(ctx, key, stepAside)
}

// observation is what was read of a host before a step is taken. A zero one is that of the informer, which
// may be outdated.
type observation struct {
	// node is nil if Ironic has no node of the host.
	node *ironic.Node
	// at is when it was read, in wall time; zero if the node was not looked at.
	at time.Time
	// hostRead is set if the host was read, for a step that needs no node. It counts for no other step.
	hostRead bool
}

func (o observation) ironicNow() time.Time {
	if o.node == nil {
		return time.Time{}
	}
	return o.node.AnsweredAt
}

// advance takes steps for a host until there is something to wait for, and returns after
// what time to plan the next one; 0 is when something changes.
//
// Each step is planned from what is recorded. What the informer has is recorded, too, and costs no request,
// which is enough in a quiet cluster. Before a step that was planned from that is taken, the host and its node
// are read, what Ironic reports is recorded, and the step is planned from that.
//
// stepAside is called before a step that waits for what may never answer: another worker then takes the place of this one.
func (c *driver) advance(ctx context.Context, key types.NamespacedName, stepAside func()) (time.Duration, error) {
	host := c.index.Get(key)
	if drives, err := c.drives(ctx, host); !drives || err != nil {
		return 0, err
	}
	if err := c.inputs.refreshSecrets(ctx, host); err != nil {
		return 0, &stepError{err: err}
	}
	var seen observation
	noRoom := false
	for range maxSteps {
		situation, step, retryNow, err := c.plan(ctx, host, seen, noRoom)
		if err != nil {
			return 0, &stepError{err: err}
		}
		if !c.gates.mayTry(host, step, retryNow) {
			return 0, nil
		}
		if lifecycle.MustObserve(situation, step) {
			var left time.Duration
			c.queue.backoffOf(key, func(b *backoff) { left = b.pollWait(step, c.clock.Now()) })
			if left > 0 {
				return left, nil
			}
			if host, seen, err = c.observeBefore(ctx, host, step); err != nil {
				if elsewhere := new(live.ElsewhereError); errors.As(err, &elsewhere) {
					return 0, nil // another driver has it by now
				}
				return 0, live.IgnoreNotFound(err)
			}
			if owner, problem := c.ironics.OwnerOf(host); owner != c.member.Name || problem != "" && !isGoneFromIronic(host) {
				return 0, nil // it has been changed since the informer told of it, which will tell of that, too
			}
			continue
		}
		if step.Limited && !c.hasRoom(key, host, situation, step) {
			if host, err = c.delay(ctx, host); err != nil || noRoom {
				return 0, live.IgnoreNotFound(err)
			}
			noRoom = true
			continue // with what needs no room
		}
		if after, may, err := c.mayTake(ctx, key, host, situation, step); !may {
			return after, err
		}
		next, err := c.take(ctx, host, seen, step, stepAside)
		if err != nil {
			return 0, live.IgnoreNotFound(err)
		}
		if !next.PlanAgain {
			break
		}
		host, seen.node = next.Host, next.Node
	}
	return stepPause, nil
}

// observeBefore reads the host and its node before a step. Steps that need no node do not wait for Ironic.
func (c *driver) observeBefore(ctx context.Context, host *metal3.BareMetalHost, step lifecycle.Step) (*metal3.BareMetalHost, observation, error) {
	if lifecycle.NeedsNoNode(step) {
		host, err := c.hosts.Get(ctx, host.Namespace, host.Name)
		return host, observation{hostRead: true}, err
	}
	seen := observation{at: c.clock.Now().Round(0)} // by the wall clock: the monotonic one stands still while the machine is suspended
	fresh, node, err := c.refresher.FreshNode(ctx, host.Namespace, host.Name, step.Do != lifecycle.Wait)
	seen.node = node
	return fresh, seen, err
}

// take takes a step. It leaves the place that the step has in gates.deployments or gates.moves.
func (c *driver) take(ctx context.Context, host *metal3.BareMetalHost, seen observation, step lifecycle.Step, stepAside func()) (next executor.Outcome, err error) {
	switch {
	case step.WaitsForImageServer():
		defer func() { c.gates.leaveDeployment(host, err == nil && next.Accepted) }()
		stepAside()
	case step.Do == lifecycle.LeaveIronic:
		defer c.gates.moves.Leave(host.Namespace)
		stepAside()
	}
	fence := c.fence(step, seen.at, host)
	if err := c.checkBefore(ctx, step, fence); err != nil {
		return executor.Outcome{}, err
	}
	klog.FromContext(ctx).V(1).Info("Next step", "do", step.Do, "target", step.Target, "power", step.Power, "state", step.State, "reason", step.Reason)
	c.queue.backoffOf(keyOf(host), func(b *backoff) { b.begin(step, c.clock.Now()) })
	c.refresher.DiscardObservations(host.UID)
	next, err = c.execute(ctx, fence, host, seen.node, step)
	steps.WithLabelValues(c.member.Name, string(step.Do), stepResult(err)).Inc()
	if err != nil {
		c.refresher.DiscardObservations(host.UID) // a poll may have seen the node before the request
		return executor.Outcome{}, stepErrorOf(step, err)
	}
	return next, nil
}

// checkBefore returns why a step is not to be taken any more. What holds all machines is recorded all the same, and only keeps Ironic from being
// asked for anything.
func (c *driver) checkBefore(ctx context.Context, step lifecycle.Step, fence ironic.Fence) error {
	recording := fence
	recording.Term = c.term
	if err := recording.Check(); err != nil || c.confirm == nil || !step.MustBeConfirmed() {
		return err
	}
	return c.confirm(ctx)
}

// maxLookAge is how long ago the node may have been looked at for a step that interrupts
// what a machine runs, or switches on one that is to be off by then. It is counted in wall time: a machine that was suspended in between
// goes on as if no time had passed, and another replica leads by then.
const maxLookAge = 20 * time.Second

// fence returns the fence for the requests of a step that was decided on for a host, when its node was
// looked at.
func (c *driver) fence(step lifecycle.Step, looked time.Time, host *metal3.BareMetalHost) ironic.Fence {
	fence := ironic.Fence{Term: func() bool { return c.term() && c.mayAct() }, LookedAt: looked, ResourceVersion: host.ResourceVersion}
	if step.Interrupts() || step.Do == lifecycle.SwitchPower {
		fence.MaxAge = maxLookAge
	}
	if step.Do == lifecycle.SwitchPower && step.Power == ironic.TargetPowerOn {
		fence.Superseded = c.supersededSince(host)
	}
	return fence
}

// supersededSince returns what reports whether something else is asked for of a host since it was read, as far as the informer has
// told by then. A machine is not switched on, after a time of waiting for a connection, that was fenced meanwhile: whoever has asked
// for that has seen that it was off.
func (c *driver) supersededSince(host *metal3.BareMetalHost) func() bool {
	known := c.index.Get(keyOf(host)) // which may be older than host
	return func() bool {
		latest := c.index.Get(keyOf(host))
		if latest == nil || latest == known {
			return latest == nil
		}
		return !recorder.HasSpecOf(host)(latest) || !maps.Equal(latest.Annotations, host.Annotations) || lifecycle.KeepsPower(latest) != lifecycle.KeepsPower(host)
	}
}

func jittered(d time.Duration) time.Duration {
	return d/2 + time.Duration(rand.Int64N(int64(d)))
}

// execute takes a step, and notes for the host's back-off what became of it.
func (c *driver) execute(ctx context.Context, fence ironic.Fence, host *metal3.BareMetalHost, node *ironic.Node, step lifecycle.Step) (executor.Outcome, error) {
	key := keyOf(host)
	inVain, powerAnswered := c.queue.askedInVain(host), c.queue.powerAnswered(host)
	knownFor, powerKnownFor := c.queue.askedKnownFor(host, c.clock.Now())
	// What is recorded is soon about the request of this step, which may get no answer.
	if lifecycle.NeedsIntent(step) {
		c.queue.backoffOf(key, func(b *backoff) { b.notCarriedOut = nil })
	}
	if lifecycle.MustAskPower(step) {
		c.queue.backoffOf(key, func(b *backoff) { b.powerAnswered = nil })
	}
	outcome, err := c.executor.Execute(c.refresher.Guard(ctx, host), executor.Task{
		Host: host, Node: node, Step: step, Fence: fence, Failures: c.queue.NumRequeues(key), AskedInVain: inVain, PowerAnswered: powerAnswered,
		AskedKnownFor: knownFor, AskedPowerKnownFor: powerKnownFor,
	})
	if outcome.NotCarriedOut {
		c.queue.backoffOf(key, func(b *backoff) { b.notCarriedOut = outcome.Host.Status.Record.Asked })
	}
	if outcome.PowerAnswered {
		c.queue.backoffOf(key, func(b *backoff) { b.powerAnswered = outcome.Host.Status.Record.AskedPower })
	}
	if outcome.Refused {
		c.queue.backoffOf(key, func(b *backoff) { b.refused(step) })
		if step.Limited {
			c.gates.leave(c.gates.provisioning, key) // it has not started
		}
	}
	if outcome.Accepted {
		// The next poll shows what becomes of it. If none does in time, the host is planned again after
		// stepPause, and its node is read.
		c.refresher.DiscardObservations(host.UID) // a poll may have seen the node during the step, before the request
		c.queue.backoffOf(key, func(b *backoff) { b.accept(step, c.clock.Now()) })
		c.poller.expectChange()
	}
	return outcome, err
}

// delay records that the host waits for others to finish.
func (c *driver) delay(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error) {
	if host.Status.OperationalStatus == metal3.OperationalStatusDelayed {
		return host, nil
	}
	return c.recorder.Record(ctx, host, func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusDelayed })
}

// undelay records that the host does not wait for room any more: the step that needed it
// is not wanted now.
func (c *driver) undelay(ctx context.Context, host *metal3.BareMetalHost) error {
	if host.Status.OperationalStatus != metal3.OperationalStatusDelayed {
		return nil
	}
	c.gates.leave(c.gates.provisioning, keyOf(host))
	_, err := c.recorder.Record(ctx, host, func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusOK })
	return err
}

// reportNotManaged records, once, that nothing is done for a host because of its namespace.
func (c *driver) reportNotManaged(ctx context.Context, host *metal3.BareMetalHost) error {
	if r := host.Status.Record.Registration; r != nil && r.Reason == metal3.NamespaceNotManagedReason {
		return nil
	}
	return c.recorder.Report(ctx, host, metal3.NamespaceNotManagedReason,
		"the hosts of this namespace are not managed, nor are they deregistered when they are deleted: the server's flag --namespaces has to name it")
}

// isGoneFromIronic reports whether a host can be let go without any Ironic, because none has ever had a node of it.
func isGoneFromIronic(host *metal3.BareMetalHost) bool {
	return !host.DeletionTimestamp.IsZero() && host.Status.Provisioning.ID == ""
}

// reportNoIronic records, once, why nothing is done for a host in any Ironic. If it has a node, that is a machine of which
// nothing is known now.
func (c *driver) reportNoIronic(ctx context.Context, host *metal3.BareMetalHost, problem string) error {
	if host.Status.Provisioning.ID == "" {
		if r := host.Status.Record.Registration; r != nil && r.Reason == metal3.NoIronicReason && r.Message == problem {
			return nil
		}
		return c.recorder.Report(ctx, host, metal3.NoIronicReason, problem)
	}
	if said := host.Status.Record.Silence; host.IsDetached() || said != nil && said.Reason == problem && said.Cause == metal3.NoIronicReason {
		return nil
	}
	_, err := c.recorder.Record(ctx, host, func(h *metal3.BareMetalHost) {
		h.Status.Record.Silence = &metal3.Silence{Since: lifecycle.WholeSeconds(c.clock.Now()), Cause: metal3.NoIronicReason, Reason: problem}
	})
	return err
}
