// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"fmt"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// A paced gate lets no more start in a second than it is told to, in the order in
// which they came, however quickly they end.
func TestPace(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	g := NewPaced(100, 4, func() map[string]int { return nil })
	g.clock = clock
	name := func(i int) string { return fmt.Sprintf("worker-%d", i) }
	start := func(i int) bool {
		started := g.TryStart("metal3", name(i))
		if started {
			g.Forget("metal3", name(i)) // it has ended already
		}
		return started
	}
	for i := range 4 {
		if !start(i) {
			t.Errorf("%s may not start, and nobody has before", name(i))
		}
	}
	for i := 4; i < 10; i++ {
		if start(i) {
			t.Errorf("%s may start, the fifth in a second", name(i))
		}
	}
	if _, next, ok := g.NextReady(); ok {
		t.Errorf("%s may start, the fifth in a second", next)
	}
	for i := 4; i < 10; i++ {
		clock.SetTime(clock.Now().Add(time.Second / 4))
		if _, next, ok := g.NextReady(); !ok || next != name(i) {
			t.Errorf("it is the turn of %q, want %s", next, name(i))
		}
		if !start(i) {
			t.Errorf("%s may not start when it is its turn", name(i))
		}
	}
}
