// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestNamespacesTakeTurns: however many hosts of one namespace wait, those of others wait for one step of each namespace only, and
// within a namespace nobody is overtaken.
func TestNamespacesTakeTurns(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	q := newQueue(clock)
	for i := range 100 {
		q.Add(types.NamespacedName{Namespace: "many", Name: fmt.Sprint(i)})
	}
	clock.Step(time.Minute)
	var got []string
	take := func() {
		key, _ := q.Get()
		got = append(got, key.String())
		q.Done(key)
	}
	take()
	for _, key := range []types.NamespacedName{{Namespace: "few", Name: "a"}, {Namespace: "few", Name: "b"}, {Namespace: "one", Name: "c"}} {
		q.Add(key)
	}
	if oldest, stuck := q.waiting.oldest(), q.waiting.stuckFor(); oldest != time.Minute || stuck != 0 {
		t.Errorf("the oldest host waits for %s, and the workers are stuck for %s", oldest, stuck)
	}
	for range 6 {
		take()
	}
	if want := "[many/0 many/1 few/a one/c many/2 few/b many/3]"; fmt.Sprint(got) != want {
		t.Errorf("the hosts are taken in the order %v, want %s", got, want)
	}
	for q.Len() > 0 {
		take()
	}
	if q.waiting.oldest() != 0 || q.waiting.stuckFor() != 0 || len(q.waiting.waiting)+len(q.waiting.turns) != 0 {
		t.Errorf("something is left of the hosts that waited: %v %v", q.waiting.waiting, q.waiting.turns)
	}
}

// TestLongestWork: what a worker of an Ironic does not finish is told of this Ironic, whatever goes on in others.
func TestLongestWork(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	q, other := newQueue(clock), newQueue(clock)
	take := func(q *Queue, name string) types.NamespacedName {
		q.Add(types.NamespacedName{Namespace: "team-a", Name: name})
		key, _ := q.Get()
		return key
	}
	want := func(when string, want, wantOther time.Duration) {
		t.Helper()
		if got, gotOther := q.waiting.longestWork(), other.waiting.longestWork(); got != want || gotOther != wantOther {
			t.Errorf("%s: %s, and %s in the other Ironic; want %s and %s", when, got, gotOther, want, wantOther)
		}
	}
	want("at first", 0, 0)
	stuck := take(q, "stuck")
	q.Add(stuck) // it has changed meanwhile
	clock.Step(5 * time.Minute)
	q.Done(take(q, "quick"))
	there := take(other, "there")
	clock.Step(time.Minute)
	want("while one does not end", 6*time.Minute, time.Minute)
	other.Done(there)
	q.Done(stuck)
	want("while it waits for its next step", 0, 0)
	again, _ := q.Get()
	clock.Step(time.Second)
	want("in its next step", time.Second, 0)
	q.Done(again)
	if len(q.waiting.taken) != 0 {
		t.Errorf("these are still remembered: %v", q.waiting.taken)
	}
}
