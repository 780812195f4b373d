// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"testing"
	"time"
)

// Patience is how long a test waits for what has to happen. It ends what hangs: nothing is promised within it, so that a
// slow machine makes tests slow and no more. How long things take is measured by test/bench.
const Patience = 5 * time.Minute

// Eventually repeats check up to ten times a second until it returns no complaint. When the complaint has been the same for
// Patience, or when ctx ends, the test fails with it: what goes on does not hang, however slowly. The pause is twice as long as the check took, so that tests that wait do not take all
// the time of what they wait for: four of them that read a host ten times a second leave Ironic 29, whose requests share
// one thread with its conductor, no time to change it.
func Eventually(t *testing.T, ctx context.Context, check func() (complaint string)) {
	t.Helper()
	eventually(t, ctx, check, func(took time.Duration) time.Duration { return max(100*time.Millisecond, 2*took) })
}

// EventuallyEvery is like Eventually, with the same pause before each repetition.
func EventuallyEvery(t *testing.T, ctx context.Context, pause time.Duration, check func() (complaint string)) {
	t.Helper()
	eventually(t, ctx, check, func(time.Duration) time.Duration { return pause })
}

func eventually(t *testing.T, ctx context.Context, check func() (complaint string), pause func(took time.Duration) time.Duration) {
	t.Helper()
	since, former := time.Now(), ""
	hangs := time.NewTimer(Patience)
	defer hangs.Stop()
	for {
		began := time.Now()
		complaint := check()
		if complaint == "" {
			return
		}
		if complaint != former {
			former = complaint
			hangs.Reset(Patience) // it goes on, however slowly
		}
		select {
		case <-ctx.Done():
			t.Fatalf("after %s: %s", time.Since(since).Round(time.Second), complaint)
		case <-hangs.C:
			t.Fatalf("after %s, of which nothing changed in the last %s: %s", time.Since(since).Round(time.Second), Patience, complaint)
		case <-time.After(pause(time.Since(began))):
		}
	}
}
