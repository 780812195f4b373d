package testbed

import (
	"context"
	"testing"
	"time"
)

// Eventually repeats check, with a pause in between, until it returns no complaint. After limit, or
// when ctx ends, the test fails with the last complaint.
func Eventually(t *testing.T, ctx context.Context, limit, pause time.Duration, check func() (complaint string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		complaint := check()
		if complaint == "" {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("after %s: %s", limit, complaint)
		case <-tick.C:
		}
	}
}
