package drive

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
)

const (
	// sweepInterval is how often all nodes are looked at: the feed of changes
	// misses deletions, and nodes that were never changed.
	sweepInterval = 30 * time.Second
	// pollTimeout bounds one look at the feed.
	pollTimeout = 10 * time.Second
	// feedOverlap is how far the feed is read back beyond what is known: a change
	// can become visible after one with a later updated_at. Once nothing new has
	// come for feedSettled polls, only the nodes of the latest updated_at itself are
	// read again; on MySQL it counts whole seconds, and more can follow in that one.
	feedOverlap = 2 * time.Second
	feedSettled = 4
	// unreachableGrace is how long Ironic may be silent before the hosts say so
	// in a condition.
	unreachableGrace = time.Minute
)

// poller makes changes in Ironic visible to watchers with nobody reading.
type poller struct {
	c        *Controller
	interval time.Duration

	newest    time.Time // the latest updated_at in the feed
	quiet     int       // polls in a row that found nothing later
	swept     time.Time // zero: sweep now
	downSince time.Time // zero: Ironic answers
	reported  bool      // the hosts say that Ironic is unreachable
}

func newPoller(c *Controller, interval time.Duration) *poller {
	return &poller{c: c, interval: interval}
}

func (p *poller) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		p.poll(ctx)
		timer.Reset(wait.Jitter(p.pause(), 0.1))
	}
}

// pause is how long to wait for the next poll. While Ironic is at work on a host,
// what comes next waits for the end of that to be seen; one poll serves all hosts.
func (p *poller) pause() time.Duration {
	for _, obj := range p.c.informer.GetStore().List() {
		if s := obj.(*metal3.BareMetalHost).Status.Ironic; s != nil && (ironic.ProvisionState(s.ProvisionState).IsInTransit() || s.TargetPowerState != "") {
			return p.interval * 3 / 10
		}
	}
	return p.interval
}

func (p *poller) poll(ctx context.Context) {
	p.c.wake(p.c.gate) // what may start and did not gives its place up in time
	p.c.wake(p.c.retries)
	var err error
	if time.Since(p.swept) >= sweepInterval {
		err = p.sweep(ctx)
	} else {
		err = p.readFeed(ctx)
	}
	log := klog.FromContext(ctx)
	switch {
	case ctx.Err() != nil:
	case err == nil && !p.downSince.IsZero():
		log.Info("Ironic answers again", "downFor", time.Since(p.downSince).Round(time.Second).String())
		p.downSince, p.reported, p.swept = time.Time{}, false, time.Time{}
		p.c.planAllAgain()
	case err == nil:
	case p.downSince.IsZero():
		log.Error(err, "Ironic cannot be observed; statuses stay as recorded")
		p.downSince = time.Now()
	case !p.reported && time.Since(p.downSince) > unreachableGrace:
		p.reported = p.reportUnreachable(ctx, err)
	}
}

func (p *poller) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, live.BulkTimeout)
	defer cancel()
	began := time.Now()
	if err := p.c.refresher.ObserveAll(ctx); err != nil {
		return err
	}
	p.swept = began
	return nil
}

// readFeed reads the nodes that changed last until it meets what it knows, and records
// what they say. As in Refresher.ObserveHost, the hosts are read first: where somebody
// has written one since, or the informer lags, Ironic is asked again about that one.
func (p *poller) readFeed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	since := p.newest
	switch {
	case p.newest.IsZero():
		since = time.Now().Add(-sweepInterval)
	case p.quiet < feedSettled:
		since = p.newest.Add(-feedOverlap)
	}
	hostOf := map[string]*metal3.BareMetalHost{}
	for _, obj := range p.c.informer.GetStore().List() {
		host := obj.(*metal3.BareMetalHost)
		hostOf[host.Status.Provisioning.ID] = host
	}
	nodes, err := p.c.ironic.ChangedSince(ctx, since)
	if err != nil {
		return err
	}
	newest, nodeOf := p.newest, map[string]*ironic.Node{}
	var hosts []metal3.BareMetalHost
	for i := range nodes {
		node := &nodes[i]
		if node.UpdatedAt != nil && node.UpdatedAt.After(newest) {
			newest = *node.UpdatedAt
		}
		if host := hostOf[node.UUID]; host != nil {
			nodeOf[node.UUID] = node
			hosts = append(hosts, *host)
		}
	}
	err = p.c.refresher.RecordMany(ctx, hosts, func(host *metal3.BareMetalHost) *ironic.Node { return nodeOf[host.Status.Provisioning.ID] })
	if err != nil {
		return err // these nodes are looked at again
	}
	p.quiet++
	if newest.After(p.newest) {
		p.newest, p.quiet = newest, 0
	}
	return nil
}

// reportUnreachable has each host say that its status is no longer live. It
// returns whether all do.
func (p *poller) reportUnreachable(ctx context.Context, cause error) bool {
	ctx, cancel := context.WithTimeout(ctx, live.BulkTimeout)
	defer cancel()
	list, err := p.c.hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	now := time.Now()
	condition := metav1.Condition{
		Type: metal3.IronicReachableCondition, Status: metav1.ConditionFalse, Reason: metal3.UnreachableReason,
		Message: "Ironic has not answered since " + p.downSince.UTC().Format(time.RFC3339) + ": " + ironic.ReasonOf(cause),
	}
	complete := true
	for i := range list.Items {
		if list.Items[i].Status.Provisioning.ID == "" || lifecycle.IsDetached(&list.Items[i]) {
			continue // nothing of it is live
		}
		host := list.Items[i].DeepCopy() // what a list points to is in the watch cache, for others
		lifecycle.SetCondition(&host.Status, host, condition, now)
		host.Status.LastUpdated = &metav1.Time{Time: now.Truncate(time.Second)}
		if _, err := p.c.hosts.Record(ctx, host); live.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			complete = false
		}
	}
	return complete
}
