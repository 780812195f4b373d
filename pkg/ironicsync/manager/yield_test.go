// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestYield checks that a replica which yields leaves it to another one to lead, and that it leads on if there is none.
func TestYield(t *testing.T) {
	yields := func(r *replicas, name string, end <-chan struct{}) Setup {
		return func(_ context.Context, term *Term) error {
			r.note(name + " leads")
			term.Add(func(ctx context.Context) error {
				if term.MayYield() {
					select {
					case <-end:
						return ErrYield
					case <-ctx.Done():
					}
				}
				<-ctx.Done()
				return nil
			})
			return nil
		}
	}
	for name, test := range map[string]struct {
		another     bool
		soon, later []string
	}{
		"to another": {another: true, soon: []string{"another leads"}},
		"to nobody":  {later: []string{"this leads"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReplicas(t)
				end := make(chan struct{})
				defer r.run(true, yields(r, "this", end))()
				if got := r.noted(); !slices.Equal(got, []string{"this leads"}) {
					t.Fatal(got)
				}
				if test.another {
					defer r.run(true, yields(r, "another", nil))()
				}
				close(end)
				time.Sleep(yieldTime - time.Second) // of the bubble
				if got := r.noted(); !slices.Equal(got, test.soon) {
					t.Errorf("after it has yielded: %v, want %v", got, test.soon)
				}
				time.Sleep(10 * yieldTime)
				if got := r.noted(); !slices.Equal(got, test.later) {
					t.Errorf("long after it has yielded: %v, want %v", got, test.later)
				}
			})
		})
	}
}
