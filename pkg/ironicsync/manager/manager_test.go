// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	componentconfig "k8s.io/component-base/config"
	"k8s.io/utils/clock"
)

// replicas are managers of the same cluster, and what they do, in order.
type replicas struct {
	t      *testing.T
	client *fake.Clientset
	count  *fakeCount

	mu   sync.Mutex
	done []string
	// away is set while nobody can write Leases.
	away bool
}

func newReplicas(t *testing.T) *replicas {
	r := &replicas{t: t, client: fake.NewClientset(), count: &fakeCount{}}
	r.client.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.away {
			return true, nil, errors.New("the cluster cannot be reached")
		}
		lease := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease).DeepCopy()
		return true, lease, r.update(lease)
	})
	return r
}

// update updates a Lease as a cluster does: the elector and the guard write the same one, and must not undo what the
// other has written.
func (r *replicas) update(lease *coordinationv1.Lease) error {
	resource := coordinationv1.SchemeGroupVersion.WithResource("leases")
	stored, err := r.client.Tracker().Get(resource, lease.Namespace, lease.Name)
	if err != nil {
		return err
	}
	version := stored.(*coordinationv1.Lease).ResourceVersion
	if lease.ResourceVersion != version {
		return apierrors.NewConflict(resource.GroupResource(), lease.Name, errors.New("it has changed"))
	}
	number, _ := strconv.Atoi(version) // 0 of one that was created
	lease.ResourceVersion = strconv.Itoa(number + 1)
	return r.client.Tracker().Update(resource, lease, lease.Namespace)
}

func (r *replicas) setAway(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = away
}

func (r *replicas) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = append(r.done, what)
}

// noted returns what was done since the last call, after everything has come to rest.
func (r *replicas) noted() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	done := r.done
	r.done = nil
	return done
}

// holder returns whose the Lease is; empty if it is nobody's.
func (r *replicas) holder() string {
	r.t.Helper()
	lease, err := r.client.CoordinationV1().Leases(leaseNamespace).Get(context.Background(), leaseName, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// run runs a manager until the returned function is called, which returns when the manager has stopped.
func (r *replicas) run(elect bool, setup Setup) (stop func()) {
	m := New(Config{
		Election: componentconfig.LeaderElectionConfiguration{
			LeaderElect: elect, ResourceNamespace: leaseNamespace, ResourceName: leaseName,
			LeaseDuration: metav1.Duration{Duration: 10 * time.Second},
			RenewDeadline: metav1.Duration{Duration: 7 * time.Second},
			RetryPeriod:   metav1.Duration{Duration: time.Second},
		},
		Leases: r.client.CoordinationV1(), Count: r.count, RestoredAt: &fakeCount{}, Setup: setup, Clock: clock.RealClock{},
	})
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); m.Run(ctx) }()
	return func() {
		cancel()
		<-ended
	}
}

// TestStop: the Lease is held until the work has stopped, however long that takes, and the count is that
// of the end.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicas(t)
		stop := r.run(true, func(_ context.Context, term *Term) error {
			r.note("setup")
			for _, name := range []string{"slow", "quick"} {
				term.Add(func(ctx context.Context) error {
					<-ctx.Done()
					if name == "slow" {
						time.Sleep(time.Minute)
					}
					if !term.Leading() || r.holder() == "" {
						t.Errorf("%s has not stopped, and another replica can lead", name)
					}
					if count, _ := r.count.Get(ctx); count != 1 {
						t.Errorf("%s has not stopped, and the end was counted", name)
					}
					r.note(name)
					return ctx.Err()
				})
			}
			return nil
		})
		time.Sleep(5 * time.Second)
		if got := r.noted(); !slices.Equal(got, []string{"setup"}) || r.holder() == "" || r.count.count != 1 {
			t.Errorf("after the start: %v, the Lease is held by %q, the count is %d", got, r.holder(), r.count.count)
		}
		stop()
		if got := r.noted(); !slices.Equal(got, []string{"quick", "slow"}) || r.holder() != "" || r.count.count != 2 {
			t.Errorf("after the stop: %v, the Lease is held by %q, the count is %d", got, r.holder(), r.count.count)
		}
	})
}

// TestStopBeforeLeading: a replica that has never led stops at once, and leaves the Lease alone.
func TestStopBeforeLeading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicas(t)
		idle := func(_ context.Context, term *Term) error {
			term.Add(func(ctx context.Context) error { <-ctx.Done(); return nil })
			return nil
		}
		stopLeader := r.run(true, idle)
		time.Sleep(time.Second)
		synctest.Wait()
		leader := r.holder()
		stopFollower := r.run(true, func(context.Context, *Term) error { t.Error("two replicas lead"); return nil })
		time.Sleep(time.Minute)
		began := time.Now()
		stopFollower()
		if took := time.Since(began); took != 0 || r.holder() != leader || leader == "" {
			t.Errorf("stopped after %s, the Lease is held by %q, want %q", took, r.holder(), leader)
		}
		stopLeader()
	})
}

// TestTakeOver: after an orderly stop, another replica leads within some seconds, and never before.
func TestTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicas(t)
		lead := func(name string) Setup {
			return func(_ context.Context, term *Term) error {
				term.Add(func(ctx context.Context) error {
					r.note(name + " begins")
					<-ctx.Done()
					time.Sleep(20 * time.Second)
					r.note(name + " ends")
					return nil
				})
				return nil
			}
		}
		stopFirst := r.run(true, lead("first"))
		time.Sleep(time.Second)
		stopSecond := r.run(true, lead("second"))
		time.Sleep(time.Minute)
		stopFirst()
		time.Sleep(3 * time.Second)
		if got := r.noted(); !slices.Equal(got, []string{"first begins", "first ends", "second begins"}) {
			t.Errorf("%v", got)
		}
		stopSecond()
	})
}

// TestFailure: when a part of the work fails, the rest stops, the Lease is given up and another term begins.
func TestFailure(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		name        string
		setup       error // of the first term
		run         error
		count       error
		alsoWithout bool // without leader election, too
	}{
		{name: "runnable", run: broken, alsoWithout: true},
		{name: "setup", setup: broken, alsoWithout: true},
		{name: "restore check", count: broken, alsoWithout: true},
	} {
		for _, elect := range []bool{true, false} {
			if !elect && !test.alsoWithout {
				continue
			}
			t.Run(test.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newReplicas(t)
					r.count.err = test.count
					var first *Term
					stop := r.run(elect, func(_ context.Context, term *Term) error {
						if first == nil && test.count == nil {
							first = term
							term.Add(func(ctx context.Context) error { <-ctx.Done(); r.note("stopped"); return nil })
							if test.run != nil {
								term.Add(func(context.Context) error { return test.run })
							}
							return test.setup
						}
						if first != nil && elect && first.Leading() {
							t.Error("a term that has ended leads")
						}
						term.Add(func(ctx context.Context) error { r.note("leads again"); <-ctx.Done(); return nil })
						return nil
					})
					time.Sleep(500 * time.Millisecond)
					r.count.mu.Lock()
					r.count.err = nil
					r.count.mu.Unlock()
					time.Sleep(4 * time.Second) // less than the Lease lasts
					want := []string{"leads again"}
					if test.run != nil {
						want = []string{"stopped", "leads again"}
					}
					if got := r.noted(); !slices.Equal(got, want) {
						t.Errorf("with leader election %t: %v, want %v", elect, got, want)
					}
					stop()
				})
			})
		}
	}
}

// TestLeaseLost: a replica that cannot renew the Lease while its work starts stops the work before another one
// can lead, and leads again when it can.
func TestLeaseLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicas(t)
		var lastLed time.Time
		stop := r.run(true, func(_ context.Context, term *Term) error {
			term.Add(func(ctx context.Context) error {
				r.note("begins")
				r.setAway(true)
				for term.Leading() && ctx.Err() == nil {
					lastLed = time.Now()
					time.Sleep(100 * time.Millisecond)
				}
				<-ctx.Done()
				r.note("ends")
				return ctx.Err()
			})
			return nil
		})
		began := time.Now()
		time.Sleep(30 * time.Second)
		if got := r.noted(); !slices.Equal(got, []string{"begins", "ends"}) {
			t.Errorf("while the Lease cannot be renewed: %v", got)
		}
		if led := lastLed.Sub(began); led >= 10*time.Second {
			t.Errorf("led for %s, when another replica may have taken the Lease", led)
		}
		r.setAway(false)
		time.Sleep(5 * time.Second)
		if got := r.noted(); !slices.Equal(got, []string{"begins"}) {
			t.Errorf("after the Lease could be renewed: %v", got)
		}
		r.setAway(false)
		stop()
	})
}

// TestWithoutElection: a single replica always leads. Its Lease is nobody's, and has the count.
func TestWithoutElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicas(t)
		stop := r.run(false, func(_ context.Context, term *Term) error {
			term.OnRestored(func() { t.Error("restored") })
			if !term.Leading() || !term.MayAct() || term.Restored() != "" {
				t.Errorf("leading is %t, restored is %q", term.Leading(), term.Restored())
			}
			term.Add(func(ctx context.Context) error { <-ctx.Done(); r.note("stopped"); return ctx.Err() })
			return nil
		})
		time.Sleep(time.Hour)
		if got := r.noted(); got != nil || r.holder() != "" || r.count.count < 50 {
			t.Errorf("%v, the Lease is held by %q, the count is %d", got, r.holder(), r.count.count)
		}
		stop()
		if got := r.noted(); !slices.Equal(got, []string{"stopped"}) {
			t.Errorf("at the end: %v", got)
		}

		r.count.restore(1)
		stop = r.run(false, func(_ context.Context, term *Term) error {
			term.OnRestored(func() { r.note("goes on") })
			if !term.Leading() || term.MayAct() || term.Restored() == "" {
				t.Errorf("of a backup: leading is %t, restored is %q", term.Leading(), term.Restored())
			}
			term.Add(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			return nil
		})
		time.Sleep(time.Minute)
		letGoOn(t, r.client.CoordinationV1().Leases(leaseNamespace))
		time.Sleep(10 * time.Second)
		stop()
		if got := r.noted(); !slices.Equal(got, []string{"goes on"}) {
			t.Errorf("of a backup: %v", got)
		}
	})
}

// TestRestored: the work is told that etcd was restored before it begins.
func TestRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplicas(t)
		setup := func(_ context.Context, term *Term) error {
			report := func() {
				if term.Restored() != "" {
					r.note("held")
				} else {
					r.note("goes on")
				}
			}
			term.OnRestored(report)
			term.Add(func(ctx context.Context) error { report(); <-ctx.Done(); return nil })
			return nil
		}
		stop := r.run(true, setup)
		time.Sleep(10 * time.Minute)
		stop()
		r.count.restore(1)
		stop = r.run(true, setup)
		time.Sleep(time.Minute)
		letGoOn(t, r.client.CoordinationV1().Leases(leaseNamespace))
		time.Sleep(10 * time.Second)
		if got := r.noted(); !slices.Equal(got, []string{"goes on", "held", "goes on"}) {
			t.Errorf("%v", got)
		}
		stop()
	})
}

const runAndPanic = "METAL3_MANAGER_TEST_PANIC"

// TestPanic: a panic in the leader's work ends the process at once, though other work goes on: nothing that
// is half done may be released to another replica as if it had ended.
func TestPanic(t *testing.T) {
	if os.Getenv(runAndPanic) != "" {
		m := New(Config{Leases: fake.NewClientset().CoordinationV1(), Count: &fakeCount{}, RestoredAt: &fakeCount{}, Clock: clock.RealClock{}, Setup: func(_ context.Context, term *Term) error {
			term.Add(func(context.Context) error { select {} }, func(context.Context) error { panic("half done") })
			return nil
		}})
		m.Run(context.Background())
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPanic$")
	cmd.Env = append(os.Environ(), runAndPanic+"=yes")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(output.String(), "panic: half done") {
		t.Errorf("ended with %v: %s", err, output.String())
	}
}
