// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentconfig "k8s.io/component-base/config"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// retryDelay is the time between a term that has ended and the next attempt to lead.
const retryDelay = time.Second

// yieldTime is how long a replica that has yielded leaves it to others to lead.
const yieldTime = time.Minute

// ErrYield, as the error of a Runnable, ends the term for the sake of a replica that is to lead instead. If none does, this
// one leads again, and does not yield a second time: see Term.MayYield.
var ErrYield = errors.New("another replica is to lead")

// Setup adds to a term what runs in it. It starts nothing itself. It is called once for each term, because
// informers and queues cannot be started again.
type Setup func(ctx context.Context, term *Term) error

// Config is the configuration of a Manager.
type Config struct {
	// Election names the Lease. Without election, this replica always leads.
	Election componentconfig.LeaderElectionConfiguration
	Leases   coordinationclient.LeasesGetter
	// Count is the count in the server's etcd, by which a restored backup is recognised.
	Count Counter
	// RestoredAt is the count there at the last restore.
	RestoredAt Counter
	Setup      Setup
	Clock      clock.Clock
}

// Manager runs the leader's work whenever this replica leads.
type Manager struct {
	config Config
	// yielded is set when a term has ended with ErrYield. It is used by the goroutine of Run alone.
	yielded bool
	// counted is that of all restoreGuards.
	counted atomic.Int64
}

// New returns a Manager.
func New(config Config) *Manager { return &Manager{config: config} }

// Run takes part in the election until ctx ends. By the time it returns, the work has stopped and the Lease
// is released, so that another replica can take over at once.
func (m *Manager) Run(ctx context.Context) {
	lead := func(ctx context.Context) {
		yields := !m.yielded
		if m.leadElected(ctx); yields && m.yielded {
			m.leaveToOthers(ctx)
		}
	}
	if !m.config.Election.LeaderElect {
		lead = func(ctx context.Context) { m.serve(ctx, &Term{guard: m.newRestoreGuard()}) }
	}
	// A term can end and another one begin, for example if the cluster was not reachable for a while.
	wait.UntilWithContext(ctx, lead, retryDelay)
}

// leadElected waits until this replica becomes the leader, and returns when it has stopped being the leader.
func (m *Manager) leadElected(ctx context.Context) {
	hostname, err := os.Hostname()
	if err != nil {
		hostname = "unknown"
	}
	identity := hostname + "_" + uuid.NewString()
	election := m.config.Election
	lease := newHeldLease(&resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: election.ResourceNamespace, Name: election.ResourceName},
		Client:     m.config.Leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}, election.LeaseDuration.Duration, m.config.Clock)
	elected := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name:            election.ResourceName,
		Lock:            lease,
		LeaseDuration:   election.LeaseDuration.Duration,
		RenewDeadline:   election.RenewDeadline.Duration,
		RetryPeriod:     election.RetryPeriod.Duration,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { elected <- ctx },
			OnStoppedLeading: func() { klog.InfoS("This replica no longer leads", "identity", identity) },
		},
	})
	if err != nil {
		klog.ErrorS(err, "Leader election could not be started")
		return
	}

	// The Lease is renewed until the work has stopped, so the election must outlive ctx.
	electing, resign := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer running.Wait()
	defer resign()
	running.Go(func() { elector.Run(electing) })
	select {
	case <-ctx.Done():
	case leading := <-elected:
		klog.InfoS("This replica leads", "identity", identity)
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(leading, stop)() // leading ends when the Lease could not be renewed
		m.serve(ctx, &Term{lease: lease, guard: m.newRestoreGuard(), mayYield: !m.yielded})
	}
}

// leaveToOthers waits while another replica is to become the leader.
func (m *Manager) leaveToOthers(ctx context.Context) {
	klog.InfoS("This replica leaves it to others to lead for a while", "time", yieldTime)
	select {
	case <-m.config.Clock.After(yieldTime):
	case <-ctx.Done():
	}
}

func (m *Manager) newRestoreGuard() *restoreGuard {
	namespace := m.config.Election.ResourceNamespace
	return &restoreGuard{
		leases: m.config.Leases.Leases(namespace), namespace: namespace, name: m.config.Election.ResourceName,
		count: m.config.Count, at: m.config.RestoredAt, counted: &m.counted, clock: m.config.Clock,
	}
}

// serve works until ctx ends or a part of the work fails, and returns when all of it has stopped.
func (m *Manager) serve(ctx context.Context, term *Term) {
	switch err := term.work(ctx, m.config.Setup); {
	case errors.Is(err, ErrYield):
		m.yielded = true
	case err != nil:
		klog.ErrorS(err, "The leader's work ended with an error")
	}
}
