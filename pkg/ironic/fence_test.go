// SPDX-License-Identifier: Apache-2.0

package ironic

import (
	"errors"
	"testing"
	"time"
)

func TestFence(t *testing.T) {
	during := func() bool { return true }
	after := func() bool { return false }
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	for name, test := range map[string]struct {
		fence Fence
		want  error
	}{
		"just looked":            {Fence{Term: during, LookedAt: ago(0), MaxAge: time.Hour}, nil},
		"looked recently":        {Fence{Term: during, LookedAt: ago(time.Minute), MaxAge: time.Hour}, nil},
		"looked too long ago":    {Fence{Term: during, LookedAt: ago(2 * time.Hour), MaxAge: time.Hour}, ErrLookedTooLongAgo},
		"superseded":             {Fence{Term: during, Superseded: func() bool { return true }}, ErrLookedTooLongAgo},
		"not superseded":         {Fence{Term: during, Superseded: func() bool { return false }}, nil},
		"the clock was put back": {Fence{Term: during, LookedAt: ago(-time.Hour), MaxAge: 24 * time.Hour}, ErrLookedTooLongAgo},
		"a look of any age":      {Fence{Term: during, LookedAt: ago(2 * time.Hour)}, nil},
		"no look":                {Fence{Term: during}.At("7"), nil},
		"the term is over":       {Fence{Term: after, LookedAt: ago(0), MaxAge: time.Hour}, ErrNotLeading},
		"over, without a look":   {Fence{Term: after}.At("7"), ErrNotLeading},
		"the only replica":       {Fence{Term: TermOf(nil)}, nil},
		"the request of a user":  {NoFence, nil},
		"a fence was forgotten":  {Fence{}, errNoFence},
		"only a version":         {Fence{}.At("7"), errNoFence},
	} {
		if err := test.fence.Check(); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	if leading := TermOf(after); leading() {
		t.Error("TermOf does not ask who leads")
	}
}
