// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/hostindex"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
)

const (
	// unreachableGrace is how long Ironic may be silent before the hosts say so
	// in a condition.
	unreachableGrace = time.Minute
	// refusedGrace is the same for an Ironic that refuses this server, which does not end by itself.
	refusedGrace = 15 * time.Second
	// observedLately is how long ago Ironic was observed if it is merely slow: one request for the feed, which may be a reader's, has ten
	// seconds for an answer, and the polls beside it two.
	observedLately = 15 * time.Second
)

// poller makes changes in Ironic visible to watchers with nobody reading: it is a
// reader of all hosts itself, and shares its observations with all others.
type poller struct {
	ironic string
	nodes  interface {
		Poll(ctx context.Context) error
		// LastObserved returns when the latest complete observation began, whoever has asked for it.
		LastObserved() time.Time
	}
	hosts    live.Hosts
	index    *hostindex.Index
	gates    *gates
	queue    *Queue
	watcher  *watcher
	interval time.Duration
	clock    clock.WithTicker
	progress heartbeat
	// stepped reports that Ironic has been asked for something that the next poll will show.
	stepped chan struct{}

	downSince    time.Time   // zero: Ironic answers
	down         atomic.Bool // the same for others
	refusedSince time.Time   // since then, Ironic has refused this server; zero: it has not since it is down
	// reported is set if the hosts say that Ironic is unreachable, and refusalReported if they say that it refuses this server.
	reported, refusalReported bool
	// unread are the hosts whose nodes Ironic has not shown, while it has answered.
	unread map[types.NamespacedName]unread
}

func (p *poller) run(ctx context.Context) {
	timer := p.clock.NewTimer(0)
	defer timer.Stop()
	defer p.progress.stop()
	due, took := p.clock.Now(), time.Duration(0)
	for {
		p.progress.beat(p.clock.Now())
		select {
		case <-ctx.Done():
			return
		case <-p.stepped:
			now := p.clock.Now()
			if soon := now.Add(p.pauseAtWork(took)); soon.Before(due) {
				due = soon
				timer.Reset(due.Sub(now))
			}
			continue
		case <-timer.C():
		}
		began := p.clock.Now()
		p.poll(ctx)
		ended := p.clock.Now()
		took = ended.Sub(began)
		pause := wait.Jitter(p.pause(took), 0.1)
		due = ended.Add(pause)
		timer.Reset(pause)
	}
}

// expectChange makes the next poll follow soon.
func (p *poller) expectChange() {
	select {
	case p.stepped <- struct{}{}:
	default: // it is known already
	}
}

// pause is how long to wait for the next poll, after one that took so long.
func (p *poller) pause(took time.Duration) time.Duration {
	if len(p.index.Namespaces(p.ironic, movingHosts)) > 0 {
		return p.pauseAtWork(took)
	}
	return p.interval
}

// pauseAtWork is pause while Ironic is at work on a host: what comes next waits for the end of that to be
// seen; one poll serves all hosts. But polls of an Ironic that is busy take at most a tenth of its time, because
// what they wait for takes longer then, too.
func (p *poller) pauseAtWork(took time.Duration) time.Duration {
	return min(max(p.interval*3/10, 9*took), p.interval)
}

func (p *poller) poll(ctx context.Context) {
	p.gates.wakeAll() // what may start and did not gives its place up in time
	err := p.nodes.Poll(ctx)
	log := klog.FromContext(ctx)
	partial := new(live.PartialError)
	if errors.As(err, &partial) {
		log.V(2).Info("Some hosts cannot be observed", "err", err) // their readers are told
		err = nil
	}
	if err == nil {
		p.reportUnread(ctx, partial.Hosts) // to those who watch them
	}
	if p.isSlow(err) {
		log.V(2).Info("Ironic has not answered this poll in time, but another read of all nodes", "err", err)
		err = nil
	}
	switch {
	case ctx.Err() != nil:
	case err == nil && !p.downSince.IsZero():
		log.Info("Ironic answers again", "downFor", p.clock.Since(p.downSince).Round(time.Second).String())
		p.downSince, p.refusedSince, p.reported, p.refusalReported = time.Time{}, time.Time{}, false, false
		p.down.Store(false)
		p.queue.ironicIsBack()
		p.watcher.requeueAll()
	case err == nil:
	default:
		if p.downSince.IsZero() {
			log.Error(err, "Ironic cannot be observed; statuses stay as recorded")
			p.downSince = p.clock.Now()
			p.down.Store(true)
			p.unread = nil // these hosts are about to say that Ironic does not answer at all
		}
		p.report(ctx, err)
	}
}

// isSlow reports whether a poll has failed though Ironic answers others, since it was taken for down at any rate.
func (p *poller) isSlow(err error) bool {
	observed := p.nodes.LastObserved()
	return (ironic.IsTimeout(err) || ironic.IsBusy(err)) && p.clock.Since(observed) <= observedLately && observed.After(p.downSince)
}

// report has the hosts say that Ironic is unreachable, once that has lasted for a while; and once more if it answers in the end, but
// refuses this server: that is what somebody has to mend.
func (p *poller) report(ctx context.Context, cause error) {
	refused, since := ironic.IsRefused(cause), p.downSince
	if refused {
		if p.refusedSince.IsZero() {
			p.refusedSince = p.clock.Now()
		}
		since = p.refusedSince
	}
	if p.clock.Since(since) <= graceOf(cause) || p.reported && (!refused || p.refusalReported) {
		return
	}
	if p.reportUnreachable(ctx, cause, since) {
		p.reported, p.refusalReported = true, refused
	}
}

// graceOf is how long polls may fail before the hosts say so.
func graceOf(err error) time.Duration {
	if ironic.IsRefused(err) {
		return refusedGrace
	}
	return unreachableGrace
}
