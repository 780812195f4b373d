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
	q := NewQueue(clock)
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
