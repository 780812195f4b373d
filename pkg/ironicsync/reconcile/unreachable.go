package reconcile

import (
	"context"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	list, err := p.hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	now, refused := p.clock.Now(), ironic.IsRefused(cause)
	saysSo := func(silence *metal3.Silence) bool { return silence != nil && (silence.Refused || !refused) }
	var silent []*metal3.BareMetalHost
	for i := range list.Items {
		host := &list.Items[i]
		if host.Status.Provisioning.ID != "" && host.Status.Record.Ironic == p.ironic && !lifecycle.IsDetached(host) && // else nothing of it is live
			!saysSo(host.Status.Record.Silence) && !host.Status.Record.IsLater() {
			silent = append(silent, host)
		}
	}
	silence := metal3.Silence{Since: lifecycle.WholeSeconds(since), Refused: refused, Reason: ironic.ReasonOf(cause)}
	var written atomic.Int64
	workqueue.ParallelizeUntil(ctx, reportWriters, len(silent), func(i int) {
		host := silent[i].DeepCopy() // what a list points to is in the watch cache, for others
		host.Status.Record.Silence = &silence
		lifecycle.Render(host, now)
		if _, err := p.hosts.Record(ctx, host); live.IgnoreNotFound(err) == nil {
			written.Add(1)
		}
	})
	return written.Load() == int64(len(silent))
}
