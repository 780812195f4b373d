// SPDX-License-Identifier: Apache-2.0

package bmo

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

const namespace = "baremetal-operator-system"

// operators is an operator that holds its Lease.
type operators struct {
	t      *testing.T
	leases coordinationclient.LeasesGetter
	holder string
	// lag is how far the clock of its machine lags.
	lag time.Duration
	// hidden is whether the Watch may not read the Lease.
	hidden atomic.Bool
}

// hiding are Leases that may not be read while they are hidden.
type hiding struct {
	coordinationclient.LeasesGetter
	coordinationclient.LeaseInterface
	hidden *atomic.Bool
}

func (h hiding) Leases(namespace string) coordinationclient.LeaseInterface {
	h.LeaseInterface = h.LeasesGetter.Leases(namespace)
	return h
}

func (h hiding) Get(ctx context.Context, name string, options metav1.GetOptions) (*coordinationv1.Lease, error) {
	if h.hidden.Load() {
		return nil, apierrors.NewForbidden(coordinationv1.Resource("leases"), name, nil)
	}
	return h.LeaseInterface.Get(ctx, name, options)
}

// renew creates or renews the Lease. Without a holder, it releases the Lease.
func (o *operators) renew() {
	o.t.Helper()
	leases := o.leases.Leases(namespace)
	lease, err := leases.Get(o.t.Context(), Name, metav1.GetOptions{})
	if err != nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}}
		if lease, err = leases.Create(o.t.Context(), lease, metav1.CreateOptions{}); err != nil {
			o.t.Fatal(err)
		}
	}
	lease = lease.DeepCopy()
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: ptr.To(o.holder), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &metav1.MicroTime{Time: time.Now().Add(-o.lag)}}
	if _, err := leases.Update(o.t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		o.t.Fatal(err)
	}
}

// renewFor renews the Lease every two seconds for a while.
func (o *operators) renewFor(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(2 * time.Second) {
		o.renew()
	}
}

// inBubble runs a test with a Watch that has learnt and runs. before is what the operator does before that, and beside while the
// Watch learns.
func inBubble(t *testing.T, before, beside func(*operators), test func(t *testing.T, w *Watch, o *operators)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		leases := fake.NewClientset().CoordinationV1()
		o := &operators{t: t, leases: leases, holder: "operator-0", lag: 20 * time.Minute}
		if before != nil {
			before(o)
		}
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		if beside != nil {
			running.Go(func() { beside(o) })
		}
		told := ""
		w := NewWatch(hiding{LeasesGetter: leases, hidden: &o.hidden}, []string{"elsewhere", namespace}, clock.RealClock{}, func(reason string) { told = reason })
		if err := w.Learn(ctx); err != nil {
			t.Fatal(err)
		}
		running.Go(func() { _ = w.Run(ctx) })
		test(t, w, o)
		synctest.Wait()
		if told != w.Reason() {
			t.Errorf("told last: %q, which is %q by now", told, w.Reason())
		}
	})
}

func expect(t *testing.T, w *Watch, when string, words ...string) {
	t.Helper()
	synctest.Wait()
	reason := w.Reason()
	if (reason != "") != (len(words) > 0) || slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(reason, word) }) {
		t.Errorf("%s: %q, want %q", when, reason, words)
	}
}

// TestOperatorStarts: the Lease tells within seconds that the operator has been started, whatever its clock, and for how long it
// is gone.
func TestOperatorStarts(t *testing.T) {
	inBubble(t, nil, nil, func(t *testing.T, w *Watch, o *operators) {
		time.Sleep(time.Hour)
		expect(t, w, "without an operator")
		o.renew()
		time.Sleep(6 * time.Second)
		expect(t, w, "started", namespace+"/"+Name, "operator-0", "kubectl scale")
		o.renewFor(10 * time.Minute)
		expect(t, w, "running", namespace+"/"+Name)
		o.holder = ""
		o.renew() // as an orderly stop does
		time.Sleep(2 * time.Minute)
		expect(t, w, "stopped a moment ago", "operator-0")
		time.Sleep(90 * time.Second)
		expect(t, w, "stopped for a while")
		o.holder = "operator-1"
		o.renew()
		time.Sleep(6 * time.Second)
		expect(t, w, "started again", "operator-1")
	})
}

// TestLeaseThatIsLeftOver: an operator that was killed before leaves its Lease, which holds nothing.
func TestLeaseThatIsLeftOver(t *testing.T) {
	for name, age := range map[string]time.Duration{"a moment ago": time.Second, "yesterday": 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			killed := func(o *operators) { o.renew(); time.Sleep(age) }
			inBubble(t, killed, nil, func(t *testing.T, w *Watch, _ *operators) {
				expect(t, w, "killed "+name)
				time.Sleep(time.Hour)
				expect(t, w, "and later")
			})
		})
	}
}

// TestOperatorRunsBeforeLeader: a new leader knows that the operator runs before it touches a machine.
func TestOperatorRunsBeforeLeader(t *testing.T) {
	runs := func(o *operators) { o.renewFor(time.Minute) }
	inBubble(t, (*operators).renew, runs, func(t *testing.T, w *Watch, _ *operators) {
		expect(t, w, "learnt", "operator-0")
	})
}

// TestLeaseThatMayNotBeRead: a right that comes and goes neither feigns an operator, nor hides one that runs.
func TestLeaseThatMayNotBeRead(t *testing.T) {
	killedUnseen := func(o *operators) {
		o.renew()
		time.Sleep(2 * time.Minute)
		o.hidden.Store(true)
	}
	inBubble(t, killedUnseen, nil, func(t *testing.T, w *Watch, o *operators) {
		expect(t, w, "without the right")
		time.Sleep(time.Minute)
		o.hidden.Store(false)
		time.Sleep(time.Minute)
		expect(t, w, "with the right, and a Lease that is left over")
		o.hidden.Store(true)
		time.Sleep(time.Minute)
		o.hidden.Store(false)
		time.Sleep(time.Minute)
		expect(t, w, "after the right was lost for a while")
		o.hidden.Store(true)
		o.renewFor(time.Minute)
		expect(t, w, "blind")
		o.hidden.Store(false)
		time.Sleep(6 * time.Second)
		expect(t, w, "renewed while the right was lost", "operator-0")
	})
}

// entry is the entry of a manager in managedFields that wrote at a time.
func entry(manager, subresource string, at time.Time) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "metal3.io/v1alpha1", Time: &metav1.Time{Time: at}}
}

// TestStatusIsWritten: the operator shows by the statuses that it writes while the leader looks, and not by what imported hosts
// carry from before.
func TestStatusIsWritten(t *testing.T) {
	old, now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	host := func(uid string, entries ...metav1.ManagedFieldsEntry) *metal3.BareMetalHost {
		return &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "secret-project", Name: "worker-0", UID: types.UID(uid), ManagedFields: entries}}
	}
	imported := entry(Name, "status", old)
	for name, test := range map[string]struct {
		before, after *metal3.BareMetalHost
		want          string
	}{
		"imported":                        {after: host("a", imported)},
		"written by others":               {before: host("a", imported), after: host("a", imported, entry("capm3", "status", now))},
		"its spec written by the name":    {before: host("a", imported), after: host("a", imported, entry(Name, "", now))},
		"first status of the operator's":  {before: host("a"), after: host("a", entry(Name, "status", now)), want: "writes the statuses"},
		"another status of the operator":  {before: host("a", imported), after: host("a", entry(Name, "status", now)), want: "writes the statuses"},
		"by an operator whose clock lags": {before: host("a", entry(Name, "status", now)), after: host("a", entry(Name, "status", old)), want: "writes the statuses"},
		"created anew meanwhile":          {before: host("a"), after: host("b", imported)},
		"gone":                            {before: host("a", imported)},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWatch(nil, nil, clock.RealClock{}, func(string) {})
			w.HostChanged(test.before, test.after)
			if got := w.Reason(); (got != "") != (test.want != "") || !strings.Contains(got, test.want) || strings.Contains(got, "secret-project") {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
