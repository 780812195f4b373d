// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"k8s.io/component-base/metrics/testutil"
)

type liveForOthers struct{ error }

func (liveForOthers) LiveForOthers() bool { return true }

type liveForNone struct{ error }

func (liveForNone) LiveForOthers() bool { return false }

func TestCountRead(t *testing.T) {
	registerMetrics()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		ctx  context.Context
		err  error
		want string // the label that is counted; none if it is empty
	}{
		"live":                 {t.Context(), nil, readLive},
		"Ironic is away":       {t.Context(), errors.New("no answer"), readStale},
		"one host cannot":      {t.Context(), liveForOthers{errors.New("one host")}, readPartial},
		"the same, wrapped":    {t.Context(), fmt.Errorf("list: %w", liveForOthers{errors.New("one host")}), readPartial},
		"one of two Ironics":   {t.Context(), liveForOthers{errors.New("no answer")}, readPartial},
		"all Ironics":          {t.Context(), liveForNone{errors.New("no answer")}, readStale},
		"the client went away": {gone, gone.Err(), ""},
	} {
		before := countedReads(t)
		countRead(tt.ctx, "list", tt.err)
		for result, n := range countedReads(t) {
			want := before[result]
			if result == tt.want {
				want++
			}
			if n != want {
				t.Errorf("%s: %v reads were counted as %s, want %v", name, n-before[result], result, want-before[result])
			}
		}
	}
}

func countedReads(t *testing.T) map[string]float64 {
	t.Helper()
	counted := map[string]float64{}
	for _, result := range []string{readLive, readPartial, readStale} {
		value, err := testutil.GetCounterMetricValue(reads.WithLabelValues("list", result))
		if err != nil {
			t.Fatal(err)
		}
		counted[result] = value
	}
	return counted
}
