// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
)

const (
	// reportTimeout bounds one round of writing that Ironic is away.
	reportTimeout = 30 * time.Second
	// reportWriters is how many hosts are written at a time then. A write waits for etcd
	// to sync its disk, which serves many at a time.
	reportWriters = 16
)

// reportUnreachable records in each host that its status is no longer live. It returns
// whether all say so: what could not be written in reportTimeout, or was written by
// another client meanwhile, is left to the next call, which goes on where this one ended.
func (p *poller) reportUnreachable(ctx context.Context, cause error, since time.Time) (complete bool) {
	silence := metal3.Silence{Since: lifecycle.WholeSeconds(since), Refused: ironic.IsRefused(cause), Reason: ironic.ReasonOf(cause)}
	return p.recordSilence(ctx, func(*metal3.BareMetalHost) *metal3.Silence { return &silence })
}

// unread is a host whose node Ironic does not show.
type unread struct {
	since    time.Time
	reported bool // by the host itself
}

// reportUnread records in each of some hosts that its status is no longer live, once that has been so for a while: Ironic answers, but
// not for their nodes.
func (p *poller) reportUnread(ctx context.Context, hosts map[types.NamespacedName]error) {
	now := p.clock.Now()
	all, due := map[types.NamespacedName]unread{}, map[types.NamespacedName]*metal3.Silence{}
	for key, cause := range hosts {
		if !live.IsFromIronic(cause) {
			continue
		}
		host, known := p.unread[key]
		if !known {
			host.since = now
		}
		if !host.reported && now.Sub(host.since) > unreachableGrace {
			due[key] = &metal3.Silence{Since: lifecycle.WholeSeconds(host.since), Cause: metal3.NodeUnreadableReason, Reason: ironic.ReasonOf(cause)}
		}
		all[key] = host
	}
	p.unread = all
	if len(due) == 0 || !p.recordSilence(ctx, func(host *metal3.BareMetalHost) *metal3.Silence { return due[keyOf(host)] }) {
		return
	}
	for key := range due {
		p.unread[key] = unread{since: p.unread[key].since, reported: true}
	}
}

// recordSilence records in hosts that do not say so yet, with the same reason, that nothing of them is live; silenceOf returns nil for those
// of which it is. An Ironic that refuses the server and hangs by turns refuses it.
func (p *poller) recordSilence(ctx context.Context, silenceOf func(*metal3.BareMetalHost) *metal3.Silence) (complete bool) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	list, err := p.hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	now := p.clock.Now()
	var silent []*metal3.BareMetalHost
	for i := range list.Items {
		host := &list.Items[i]
		silence, said := silenceOf(host), host.Status.Record.Silence
		saysSo := silence == nil || said != nil && (said.ConditionReason() == silence.ConditionReason() || said.Refused && silence.Cause == "")
		if host.Status.Provisioning.ID != "" && host.Status.Record.Ironic == p.ironic && !host.IsDetached() && // else nothing of it is live
			!saysSo && !host.Status.Record.IsLater() {
			silent = append(silent, host)
		}
	}
	var written atomic.Int64
	workqueue.ParallelizeUntil(ctx, reportWriters, len(silent), func(i int) {
		host := silent[i].DeepCopy() // what a list points to is in the watch cache, for others
		host.Status.Record.Silence = silenceOf(host)
		lifecycle.Render(host, now)
		if _, err := p.hosts.Record(ctx, host); live.IgnoreNotFound(err) == nil {
			written.Add(1)
		}
	})
	return written.Load() == int64(len(silent))
}
