// SPDX-License-Identifier: Apache-2.0

package app

import "testing"

// TestEtcdCounter: a process that has read an earlier count does not set a later one back.
func TestEtcdCounter(t *testing.T) {
	etcd := startEtcd(t, t.TempDir())
	t.Cleanup(etcd.Close)
	count := newEtcdCounter(clientOf(t, etcd), "/registry", "count")
	for _, step := range []struct {
		previous, count int64
		refused         bool
	}{{0, 1, false}, {1, 2, false}, {0, 1, true}, {1, 2, true}, {2, 9, false}, {2, 3, true}} {
		if err := count.Set(t.Context(), step.previous, step.count); (err != nil) != step.refused {
			t.Errorf("%d to %d: %v", step.previous, step.count, err)
		}
	}
	if got, err := count.Get(t.Context()); err != nil || got != 9 {
		t.Errorf("the count is %d (%v), want 9", got, err)
	}
}
